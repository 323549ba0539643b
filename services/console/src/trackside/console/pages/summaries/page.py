"""The pages of summaries: what trainings recorded, over jobs and tags, one kind of value at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from trackside.console.pages.stream import found_stream, stream_values
from trackside.console.web.page import BadQuery, PageRequest, Shown
from trackside.projections.reading.read_pool import SnapshotModels
from trackside.projections.summaries.chosen import ChosenJobs, live_tables, read_jobs
from trackside.projections.summaries.errors import SummaryReadRefused
from trackside.projections.summaries.items import StoredValue, ValueQuery, known_kind, read_values
from trackside.projections.summaries.points import PointRange
from trackside.projections.summaries.tags import JobTag, read_tags
from trackside.summaries.kinds.hparams import unpack as unpack_hparams
from trackside.summaries.kinds.kind import BadValue

MOST_JOBS = 20
"""How many jobs are shown at once."""
FIRST_JOBS = 5
"""How many are shown if the address names none."""
LISTED_JOBS = 20
TAGS = 12
"""How many tags a page has."""
TEXTS = 10
"""How many steps of a text are shown, the newest first."""
WIDTH = 100
"""How many characters the lines of other kinds have."""
NAMES = {
    "scalar": "Scalars",
    "image": "Images",
    "histogram": "Histograms",
    "text": "Texts",
    "graph": "Graphs",
    "optimized_graph": "Optimized graphs",
    "hparams": "Hyper-parameters",
    "tensor": "Tensors",
    "loss_landscape": "Loss landscapes",
}


@dataclass(frozen=True, slots=True)
class TaggedJob:
    """A job that has a tag."""

    job_id: str
    tag: JobTag


async def stream_summaries(request: PageRequest) -> Shown:
    """Shows what the tasks of a stream recorded, or a directory's files have."""
    view, row = await found_stream(request)
    stream_id = request.parts["stream_id"]
    listed = await _listed(request, stream_id)
    values = {
        **stream_values(request, view.kind, row, "summaries"),
        **await _values(request, listed),
        "with_head": True,
    }
    streams = frozenset((stream_id, *values["chosen"]))
    return Shown("summaries.html", f"Summaries of {stream_id}", values, streams, section="experiments")


async def summaries(request: PageRequest) -> Shown:
    """Shows what jobs of any stream recorded."""
    listed = await _listed(request, None)
    values = {**await _values(request, listed), "with_head": False}
    streams = frozenset(values["chosen"])
    return Shown("summaries.html", "Summaries", values, streams, section="experiments")


async def _listed(request: PageRequest, stream_id: str | None) -> ChosenJobs:
    text, offset = request.query.get("jobs", "")[:200], request.number("offset", 0)
    return await read_jobs(request.models, stream_id, text, LISTED_JOBS, offset)


async def _values(request: PageRequest, listed: ChosenJobs) -> dict[str, Any]:
    asked = list(dict.fromkeys(filter(None, request.query.getlist("job"))))
    if len(asked) > MOST_JOBS:
        raise BadQuery(f"{len(asked)} jobs; expected at most {MOST_JOBS}: remove some from the address")
    chosen = asked or sorted(each["job_id"] for each in listed.rows[:FIRST_JOBS])
    tags = {job: await _tags(request.models, job) for job in chosen}
    counts: dict[str, int] = {}
    for each in {(tag.kind, tag.tag) for found in tags.values() for tag in found}:
        counts[each[0]] = counts.get(each[0], 0) + 1
    kinds = [kind for kind in (*NAMES, *sorted(set(counts) - set(NAMES))) if kind in counts]
    kind = request.one_of("kind", tuple(kinds), kinds[0] if kinds else "scalar")
    text, first = request.query.get("tags", "")[:200], request.number("tag_offset", 0)
    by_tag: dict[str, list[TaggedJob]] = {}
    for job, found in tags.items():
        for tag in found:
            if tag.kind == kind and text.casefold() in tag.tag.casefold():
                by_tag.setdefault(tag.tag, []).append(TaggedJob(job, tag))
    shown = dict(sorted(by_tag.items())[first : first + TAGS])
    return {
        "listed": listed,
        "chosen": chosen,
        "is_chosen": bool(asked),
        "kinds": [(each, NAMES.get(each, each), counts[each]) for each in kinds],
        "shown_kind": kind,
        "jobs_text": request.query.get("jobs", "")[:200],
        "tags_text": text,
        "offset": request.number("offset", 0),
        "tag_offset": first,
        "limit": LISTED_JOBS,
        "tag_limit": TAGS,
        "total_tags": len(by_tag),
        "tags": shown,
        "steps": _steps(request, shown),
        "items": await _items(request, kind, shown),
        "hidden": _hidden(request),
        "address": _address,
    }


async def _tags(models: SnapshotModels, job_id: str) -> list[JobTag]:
    try:
        async with live_tables(models) as connection:
            found = await read_tags(connection, job_id)
    except SummaryReadRefused as error:
        raise BadQuery(f"{error}; remove it from the address") from None
    return [each for each in found if not each.is_system]


def _steps(request: PageRequest, tags: Mapping[str, Sequence[TaggedJob]]) -> tuple[int, int, int]:
    """Returns the first and the last step of the tags, and the one whose values are shown."""
    every = [each.tag for jobs in tags.values() for each in jobs]
    first = min((each.first_step for each in every), default=0)
    last = max((each.last_step for each in every), default=0)
    step = request.signed("step")
    return first, last, last if step is None else min(last, max(first, step))


async def _items(
    request: PageRequest, kind: str, tags: Mapping[str, Sequence[TaggedJob]]
) -> dict[str, list[dict[str, Any]]]:
    """Returns what is shown of each tag that is not a chart: images, texts, or lines."""
    if kind in ("scalar", "histogram", "graph", "optimized_graph"):
        return {}
    step = _steps(request, tags)[2]
    found: dict[str, list[dict[str, Any]]] = {}
    for tag, jobs in tags.items():
        for job in jobs:
            # Of images the newest one up to the step of the slider, of others the last steps up to it.
            within = PointRange(last_step=max(step, job.tag.first_step))
            query = ValueQuery(job.job_id, kind, tag, within, limit=1_000 if kind == "text" else 1)
            values = await _last_values(request.models, query)
            shown = [_item(kind, value) for value in values]
            found.setdefault(tag, []).append({"job_id": job.job_id, "values": shown})
    return found


async def _last_values(models: SnapshotModels, query: ValueQuery) -> list[StoredValue]:
    """Returns the values of the last steps of a query: all indexes of an image's, several steps of a text."""
    try:
        async with live_tables(models) as connection:
            page = await read_values(connection, query)
        if query.kind == "text":
            return page.values[-TEXTS:][::-1]
        last = max((value.step for value in page.values), default=0)
        return [value for value in page.values if value.step == last]
    except SummaryReadRefused:
        return []


def _item(kind: str, value: StoredValue) -> dict[str, Any]:
    shown = {"step": value.step, "index": value.index, "media_type": value.media_type, "body": value.body}
    if kind == "image":
        query = {"job": value.job_id, "tag": value.tag, "step": value.step, "index": value.index}
        return {**shown, "src": f"/data/summaries/image?{urlencode(query)}&v={str(value.sha256)[:12]}"}
    if kind == "hparams":
        return {**shown, "lines": hparam_lines(value)}
    try:
        return {**shown, "lines": known_kind(kind).lines(value.body, WIDTH)}
    except (BadValue, KeyError, TypeError, ValueError):
        return {**shown, "lines": ["this value can't be read"]}


def hparam_lines(value: StoredValue) -> list[str]:
    """Returns the hyper-parameters as lines."""
    return [f"{name} = {each}" for name, each in hparam_values(value).items()]


def hparam_values(value: StoredValue) -> dict[str, Any]:
    """Returns the hyper-parameters of a value; none if they are too large to be in the row, or unreadable."""
    try:
        return unpack_hparams(value.body, None).values if "value" in value.body else {}
    except BadValue:
        return {}


def _hidden(request: PageRequest) -> list[tuple[str, str]]:
    """Returns the query as name and value of hidden inputs, so that each form keeps what others chose."""
    return [(name, value) for name, value in request.query.multi_items() if value]


def _address(base: str, jobs: Sequence[str], /, **more: object) -> str:
    """Returns the address of values: `base` with jobs and other parameters."""
    pairs = [("job", each) for each in jobs] + [(name, str(value)) for name, value in more.items()]
    return f"{base}?{urlencode(pairs)}"
