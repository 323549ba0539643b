"""The pages of a search: how far it is, its trials, its parameters."""

from collections.abc import Mapping
from typing import Any

from trackside.aggregates.search.messages import TrialStatus
from trackside.aggregates.search.view import SearchView
from trackside.console.pages.searches.marks import short_command
from trackside.console.pages.stream import row_of_kind, stream_values
from trackside.console.web.page import PageRequest, Shown
from trackside.domain.display.text import as_text
from trackside.domain.rows.table import ViewRow
from trackside.eventlog.clock import now_ms
from trackside.projections.pages.search_verdicts import read_verdicts
from trackside.projections.pages.trials_page import TrialFilter, read_trials_page

BEST, LIMIT, COLUMNS = 10, 50, 6
VERDICTS, CHANGES = 10, 20
SORTS = ("trial", "status", "value", "duration", "ended", "started", "source")


async def search(request: PageRequest, row: ViewRow) -> Shown:
    """Shows a search: its progress, its best trials, its space."""
    stream_id = request.parts["stream_id"]
    models = request.models
    order = TrialFilter("value", row["direction"] == "maximize", ("SUCCEEDED",), limit=BEST)
    best = (await read_trials_page(models, stream_id, order)).rows
    view = SearchView()
    front = await models.rows("search.front", stream_id) if row["pareto_front"] else []
    facts = view.facts(row, {"trials": best, "front": front})
    values = {
        **stream_values(request, "search", row),
        "known": facts,
        "best": [each for each in best if each["value"] is not None],
        "parameters": list(row["spec"]["space"])[:COLUMNS],
        "counts": await models.rows("trial_counts", stream_id),
        "assessor": row["spec"].get("assessor"),
        "verdicts": await read_verdicts(models, stream_id, VERDICTS),
        "changes": (await models.rows("commands", stream_id))[: -CHANGES - 1 : -1],
        "short_command": short_command,
        "left_s": _left_s(row, view.left(row)),
        "space_text": space_text,
    }
    return Shown(
        "search.html", str(row["name"] or stream_id), values, frozenset((stream_id,)), section="experiments"
    )


def _left_s(row: ViewRow, left: int) -> float | None:
    """Returns how long a search takes still if trials end as fast as they did until now, s."""
    if row["ended_at"] is not None or not row["ended_trials"]:
        return None
    return float(left * (now_ms() / 1000 - row["started_at"].timestamp()) / row["ended_trials"])


def space_text(definition: Mapping[str, Any]) -> str:
    """Returns the values that a parameter may have, as text."""
    if "values" in definition:
        return as_text(
            [each.get("_name", each) if isinstance(each, dict) else each for each in definition["values"]]
        )
    return as_text({name: value for name, value in definition.items() if name != "type"})


async def search_row(request: PageRequest) -> ViewRow:
    """Returns the row of the search in the path; raises PageNotFound."""
    return await row_of_kind(request, "search", "only a search has trials")


def trial_filter(request: PageRequest, row: ViewRow, limit: int) -> TrialFilter:
    """Returns the filter in the query of an address."""
    parameters = [f"parameters.{name}" for name in row["spec"]["space"]]
    status = request.one_of("status", tuple(TrialStatus), "")
    return TrialFilter(
        sort=request.one_of("sort", (*SORTS, *parameters), "trial"),
        descending=request.query.get("order", "desc") != "asc",
        statuses=(status,) if status else (),
        text=request.query.get("text", "")[:200],
        limit=limit,
        offset=request.number("offset", 0, highest=10_000_000),
    )


async def trials(request: PageRequest) -> Shown:
    """Shows the trials of a search, sorted, filtered and paged by the query."""
    row = await search_row(request)
    stream_id = request.parts["stream_id"]
    wanted = trial_filter(request, row, LIMIT)
    found = await read_trials_page(request.models, stream_id, wanted)
    names = list(row["spec"]["space"])
    columns = [each for each in request.query.getlist("column") if each in names] or names[:COLUMNS]
    values = {
        **stream_values(request, "search", row, "trials"),
        "found": found,
        "wanted": wanted,
        "status": wanted.statuses[0] if wanted.statuses else "",
        "statuses": [str(each) for each in TrialStatus],
        "columns": columns,
        "all_columns": names,
    }
    title = f"Trials of {stream_id}"
    return Shown("trials.html", title, values, frozenset((stream_id,)), section="experiments")


async def parameters(request: PageRequest) -> Shown:
    """Shows how values depend on parameters."""
    row = await search_row(request)
    stream_id = request.parts["stream_id"]
    axes = list(row["spec"]["space"])
    first, second = axes[0], axes[min(1, len(axes) - 1)]
    values = {
        **stream_values(request, "search", row, "parameters"),
        "axes": axes,
        "x": request.one_of("x", tuple(axes), first),
        "y": request.one_of("y", tuple(axes), second),
        "objectives": row["spec"].get("objectives") or [],
    }
    title = f"Parameters of {stream_id}"
    return Shown("parameters.html", title, values, frozenset((stream_id,)), section="experiments")
