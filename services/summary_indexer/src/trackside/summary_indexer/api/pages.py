"""The pages: what each reads, and which parameters it knows."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from aiohttp import web

from trackside.artifacts.errors import StoreMissing
from trackside.artifacts.store import Store
from trackside.projections.database.postgres import Connection
from trackside.projections.job_search.search import SEARCH_LIMIT_S, FoundJobs, JobSearch, search_jobs
from trackside.projections.pages.lineage import LIMIT_S, JobLineage, lineage
from trackside.projections.summaries.errors import SummaryReadRefused
from trackside.projections.summaries.items import (
    StoredValue,
    ValuePage,
    ValueQuery,
    read_value,
    read_values,
)
from trackside.projections.summaries.jobs import (
    PAGE_LIMIT,
    JobPage,
    SummaryFileRow,
    SummaryJobRow,
    list_jobs,
    read_files,
    read_job,
)
from trackside.projections.summaries.scalars import CURVE_LIMIT, ScalarQuery
from trackside.projections.summaries.tags import read_tags
from trackside.projections.summaries.values import (
    GraphQuery,
    TensorPart,
    read_graph,
    read_tensor,
    value_bytes,
)
from trackside.summaries.curves import CurveAxis
from trackside.summaries.kinds.bodies import JSON_TYPE
from trackside.summaries.kinds.graph_tree import MAX_NODES
from trackside.summary_indexer.api.answers import curve_json, graph_json, value_json
from trackside.summary_indexer.api.parameters import RANGE, RequestParameters
from trackside.summary_indexer.api.problems import HEADERS, json_answer
from trackside.summary_indexer.api.reads import ApiReads

SEARCH = ("where", "sort", "descending", "limit", "cursor", "column")


async def search_page(reads: ApiReads, request: web.Request) -> web.Response:
    """Answers with a page of the jobs that match a condition, and with the types of the columns it names."""
    asked = RequestParameters(request.query, {}, SEARCH)
    wanted = JobSearch(
        where=asked.text("where") or "",
        sort=asked.text("sort") or "",
        descending=asked.flag("descending"),
        limit=asked.number("limit", JobSearch().limit),
        cursor=asked.text("cursor") or "",
        columns=tuple(request.query.getall("column", [])),
    )
    pool = reads.curves.pool
    limit_s = min(SEARCH_LIMIT_S, pool.statement_limit_s)
    found: FoundJobs = await pool.use(partial(search_jobs, search=wanted, limit_s=limit_s))
    more = {"total": found.total, "next_cursor": found.cursor, "types": found.types}
    return json_answer({"jobs": found.jobs} | more)


async def lineage_page(reads: ApiReads, request: web.Request) -> web.Response:
    """Answers with what a job was given, what it saved, the jobs before and after it, and lineage files."""
    job_id = RequestParameters(request.query, request.match_info, ()).job()
    pool = reads.curves.pool
    limit_s = min(LIMIT_S, pool.statement_limit_s)
    found: JobLineage = await pool.use(partial(lineage, job_id=job_id, limit_s=limit_s))
    if found == JobLineage(job_id):
        await pool.read(partial(read_job, job_id=job_id))
    return json_answer(asdict(found))


IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
"""What a browser may show as a picture; other bytes are a download, such as SVG, which may have scripts."""
KINDS_OF_PAGES = {
    "images": "image",
    "histograms": "histogram",
    "texts": "text",
    "tensors": "tensor",
    "graphs": "graph",
    "optimized_graphs": "optimized_graph",
    "loss_landscapes": "loss_landscape",
    "hparams": "hparams",
}
MAX_BYTES = 128 * 1024 * 1024
"""How many bytes of a value one request reads."""
AXES: tuple[CurveAxis, ...] = ("step", "relative", "wall")
PARTS: tuple[TensorPart, ...] = ("statistics", "histogram", "slice")
JOBS = ("limit", "cursor", "page", "offset", "deleted")
TAGS = ("kind",)
SCALARS = ("job", "tag", *RANGE, "axis", "limit", "superseded")
VALUES = ("tag", *RANGE, "limit", "superseded")
TENSOR, GRAPH = ("part", "dims"), ("parent", "search", "all", "limit")

SummaryPage = Callable[[ApiReads, web.Request], Awaitable[web.Response]]


async def jobs_page(reads: ApiReads, request: web.Request) -> web.Response:
    """Answers with a page of jobs, newest first."""
    asked = RequestParameters(request.query, {}, JOBS)
    limit, cursor = asked.number("limit", PAGE_LIMIT), asked.text("cursor")
    number = asked.number("page", asked.number("offset", 0))
    work = partial(list_jobs, limit=limit, cursor=cursor, page=number, deleted=asked.flag("deleted"))
    page: JobPage = await reads.curves.pool.read(work)
    return json_answer(
        {
            "jobs": [asdict(job) | _cached(reads, job.job_id) for job in page.jobs],
            "total": page.total,
            "next_cursor": page.next_cursor,
        }
    )


async def job_page(reads: ApiReads, request: web.Request) -> web.Response:
    """Answers with one job: counts, times, state of its files, and how many tags it has of each kind."""
    job_id = RequestParameters(request.query, request.match_info, ()).job()

    async def work(connection: Connection) -> tuple[SummaryJobRow, list[SummaryFileRow], dict[str, int]]:
        job = await read_job(connection, job_id)
        kinds: dict[str, int] = {}
        for tag in await read_tags(connection, job_id):
            kinds[tag.kind] = kinds.get(tag.kind, 0) + 1
        return job, await read_files(connection, job_id), kinds

    job, files, kinds = await reads.curves.pool.read(work)
    more = {"tags": kinds, "files_read": [asdict(file) for file in files]}
    return json_answer(asdict(job) | _cached(reads, job_id) | more)


async def tags_page(reads: ApiReads, request: web.Request) -> web.Response:
    """Answers with the tags of a job, of all kinds or of one; an unknown kind has none."""
    asked = RequestParameters(request.query, request.match_info, TAGS)
    job_id, kind = asked.job(), asked.text("kind")
    found = await reads.curves.pool.read(partial(read_tags, job_id=job_id, kind=kind))
    return json_answer({"job_id": job_id, "tags": [asdict(tag) for tag in found]})


async def scalars_page(reads: ApiReads, request: web.Request) -> web.Response:
    """Answers with the curves of jobs and tags."""
    asked = RequestParameters(request.query, request.match_info, SCALARS)
    query = ScalarQuery(
        jobs=asked.jobs(),
        tags=asked.tags(),
        within=asked.within(),
        axis=asked.choice("axis", AXES, "step"),
        limit=asked.limit(CURVE_LIMIT),
        superseded=asked.flag("superseded"),
    )
    curves = await reads.curves.read(query)
    return json_answer({"axis": query.axis, "curves": [curve_json(curve, query.axis) for curve in curves]})


async def values_page(reads: ApiReads, request: web.Request) -> web.Response:
    """Answers with the values of a tag as they are stored, at no more steps than a page of the kind has."""
    asked = RequestParameters(request.query, request.match_info, VALUES)
    query = ValueQuery(
        job_id=asked.job(),
        kind=_kind(request),
        tag=asked.tag(),
        within=asked.within(),
        limit=asked.integer("limit"),
        superseded=asked.flag("superseded"),
    )
    page: ValuePage = await reads.curves.pool.read(partial(read_values, query=query))
    return json_answer({"steps": page.steps, "values": [value_json(value) for value in page.values]})


async def value_page(reads: ApiReads, request: web.Request) -> web.Response:
    """Answers with one value: the bytes of an image, a part of a tensor, nodes of a graph, or its JSON."""
    kind = _kind(request)
    more = {"tensor": TENSOR, "graph": GRAPH, "optimized_graph": GRAPH}.get(kind, ())
    asked = RequestParameters(request.query, request.match_info, ("index", *more))
    query = ValueQuery(asked.job(), kind, asked.tag())
    step, index = asked.number("step", 0), asked.number("index", 0)
    answer = _answer_of(kind, asked)
    value = await reads.curves.pool.read(partial(read_value, query=query, step=step, index=index))
    if value.size_bytes is not None and value.size_bytes > MAX_BYTES:
        hint = f"expected at most {MAX_BYTES:,}: `trackside artifacts get` reads it"
        raise SummaryReadRefused("too_many_values", "step", f"a value of {value.size_bytes:,} bytes", hint)
    if value.sha256 is not None and reads.store is None:
        raise StoreMissing("no store for artifacts is set: set TRACKSIDE_STORE for the summary-indexer")
    return await reads.threads.run(lambda: answer(reads.store or _NO_STORE, value))


_NO_STORE: Any = None
"""For values that are in their bodies: no function reads the store for them."""
_KINDS = "|".join(KINDS_OF_PAGES)
PAGES: tuple[tuple[str, SummaryPage, tuple[str, ...]], ...] = (
    ("/summaries/jobs", jobs_page, JOBS),
    ("/summaries/jobs/{job}", job_page, ()),
    ("/summaries/jobs/{job}/tags", tags_page, TAGS),
    ("/summaries/jobs/{job}/lineage", lineage_page, ()),
    ("/summaries/jobs/{job}/scalars", scalars_page, SCALARS),
    ("/summaries/scalars", scalars_page, SCALARS),
    ("/summaries/search", search_page, SEARCH),
    (f"/summaries/jobs/{{job}}/{{kind:{_KINDS}}}", values_page, VALUES),
    (
        f"/summaries/jobs/{{job}}/{{kind:{_KINDS}}}/{{tag:.+}}/{{step:-?[0-9]+}}",
        value_page,
        ("index", *TENSOR, *GRAPH),
    ),
    ("/summaries/jobs/{job}/values/{name}", values_page, VALUES),
    ("/summaries/jobs/{job}/values/{name}/{tag:.+}/{step:-?[0-9]+}", value_page, ("index", *TENSOR, *GRAPH)),
)
"""Path, page, and the parameters that it knows."""


def _answer_of(kind: str, asked: RequestParameters) -> Callable[[Store, StoredValue], web.Response]:
    """Returns what makes the answer of a value in a thread; raises SummaryReadRefused for bad parameters."""
    if kind == "tensor":
        part, dims = asked.choice("part", PARTS, "statistics"), asked.text("dims")
        return lambda store, value: json_answer(
            _described(value) | {part: read_tensor(store, value, part, dims)}
        )
    if kind in ("graph", "optimized_graph"):
        graph = GraphQuery(
            asked.text("parent") or "",
            asked.text("search"),
            asked.flag("all"),
            asked.number("limit", MAX_NODES),
        )
        return lambda store, value: json_answer(graph_json(read_graph(store, value, graph)))
    return _whole_value


def _whole_value(store: Store, value: StoredValue) -> web.Response:
    data = value_bytes(store, value)
    if data is None or value.media_type == JSON_TYPE:
        body = value.body if data is None else {**value.body, "value": _parsed(data)}
        return json_answer(value_json(value) | {"body": body})
    shown = value.kind == "image" and value.media_type in IMAGE_TYPES
    more = {} if shown else {"Content-Disposition": "attachment"}
    return web.Response(
        body=data,
        content_type=str(value.media_type) if shown else "application/octet-stream",
        headers={**HEADERS, "Content-Security-Policy": "default-src 'none'; sandbox", **more},
    )


def _parsed(data: bytes) -> Any:
    """Returns the JSON of bytes, which a task may have written itself; raises SummaryReadRefused."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        what = f"its bytes are not JSON: {type(error).__name__}"
        raise SummaryReadRefused("unreadable_value", "step", what, "expected JSON") from error


def _described(value: StoredValue) -> dict[str, Any]:
    shown = {name: value.body.get(name) for name in ("dtype", "shape")}
    return {"job_id": value.job_id, "tag": value.tag, "step": value.step, "index": value.index, **shown}


def _kind(request: web.Request) -> str:
    """Returns the kind: by its name, which may be that of a package, or by the word that it has in paths."""
    return request.match_info.get("name") or KINDS_OF_PAGES[request.match_info["kind"]]


def _cached(reads: ApiReads, job_id: str) -> dict[str, Any]:
    cache = reads.curves.cache
    return {"cache_status": cache.status(job_id), "cache_failure": cache.failure(job_id)}
