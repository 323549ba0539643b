"""The page that compares experiments and tasks: what differs, curves on one chart, results side by side."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from trackside.console.pages.origins import read_derivations
from trackside.console.web.page import BadQuery, ChartValues, PageNotFound, PageRequest, Shown
from trackside.domain.rows.table import ViewRow
from trackside.projections.pages.curve_columns import curve_columns
from trackside.projections.pages.trial_columns import best_so_far_columns
from trackside.projections.reading.read_pool import SnapshotModels
from trackside.projections.reading.reads import row_of_stream
from trackside.projections.summaries.chosen import live_tables
from trackside.projections.summaries.errors import SummaryReadRefused
from trackside.projections.summaries.tags import JobTag, read_tags
from trackside.summaries.thinning import thin

LEAST, MOST = 2, 20
MAX_ROWS = 500
"""How many parameters or results one table has."""
POINTS = 1_000
"""How many points a curve has."""
CONTENT = frozenset({"spec", "parameters", "best_parameters", "pareto_front", "objective_values", "trace_id"})
"""Columns of rows that are shown as parameters, or not at all."""
TASK_RESULTS = ("state", "ending", "objective", "attempts", "worker_id", "queued_at", "ended_at")


@dataclass(frozen=True, slots=True)
class ComparedItem:
    """One of the compared: an experiment or a task.

    `curves_of` is the task whose curves are shown: itself, or the best trial of a search.
    """

    id: str
    kind: str
    address: str
    status: str
    parameters: Mapping[str, Any]
    best: Mapping[str, Any]
    results: Mapping[str, Any]
    curves_of: str | None
    tags: Sequence[JobTag] = field(default=())


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """A parameter or result with the value of each; `differs` if they are not all the same."""

    name: str
    values: Sequence[Any]
    differs: bool


async def compare(request: PageRequest) -> Shown:
    """Shows 2 to 20 experiments or tasks side by side."""
    ids = compared_ids(request)
    found = [await _compared(request.models, each) for each in ids]
    tags = list(dict.fromkeys(tag.tag for each in found for tag in each.tags))
    own = [tag for tag in tags if not tag.startswith("system/")]
    default = max(own or tags or [""], key=lambda tag: sum(_has(each, tag) for each in found))
    searches = [each.id for each in found if each.kind == "search"]
    metrics = [{tag.tag: tag.last_value for tag in each.tags if not tag.is_system} for each in found]
    derivations, log_problem = await read_derivations(
        request, {each.id: each.kind for each in found}, {each.id: each.parameters for each in found}
    )
    values = {
        "compared": found,
        "tables": [
            ("Parameters", _rows(found, [each.parameters for each in found])),
            ("Parameters of the best trial", _rows(found, [each.best for each in found])),
            ("Results", _rows(found, [each.results for each in found])),
            ("Last values", _rows(found, metrics)),
        ],
        "tags": tags,
        "tag": request.one_of("tag", tuple(tags), default),
        "curves": [each.curves_of for each in found if each.curves_of is not None],
        "searches": searches if len(searches) > 1 else [],
        "derivations": derivations,
        "log_problem": log_problem,
        "query_of": _query_of,
        "most": MOST,
    }
    streams = {
        name for each in found for name in (each.id, each.curves_of, each.results.get("stream")) if name
    }
    return Shown("compare.html", f"Compare {len(found)}", values, frozenset(streams), section="experiments")


def compared_ids(request: PageRequest) -> list[str]:
    """Returns the ids of the query, each once; raises BadQuery unless they are 2 to 20."""
    ids = list(dict.fromkeys(filter(None, (each.strip() for each in request.query.getlist("id")))))
    if not LEAST <= len(ids) <= MOST:
        given = "there are none" if not ids else f"there is {len(ids)}" if len(ids) == 1 else f"{len(ids)}"
        raise BadQuery(
            f"a comparison has {LEAST} to {MOST} different ids of experiments or tasks, and {given} in this "
            "address; select them by the boxes in the list of experiments or in the trials of a search"
        )
    return ids


async def best_columns(request: PageRequest) -> ChartValues:
    """The best value of each search after each trial that ended: only where it changes, and at the end."""
    return await _of_searches(request, "best", _changes)


async def value_columns(request: PageRequest) -> ChartValues:
    """The value of each trial that succeeded, by its number, thinned."""

    def thinned(arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        return thin(arrays["number"], arrays["value"], POINTS)

    return await _of_searches(request, "value", thinned, by_trial=True)


async def curves(request: PageRequest) -> ChartValues:
    """The curves of a tag of several tasks, one series each."""
    tasks = list(dict.fromkeys(request.query.getlist("task")))[:MOST]
    found = await curve_columns(request.models, tasks, request.query.get("tag", ""), POINTS)
    parts = [{**each.arrays, "time": each.arrays["time_ms"]} for each in found.values()]
    return _series(list(found), parts, ("step", "value", "time"))


async def _of_searches(
    request: PageRequest,
    column: str,
    kept: Callable[[Mapping[str, NDArray[Any]]], NDArray[Any]],
    *,
    by_trial: bool = False,
) -> ChartValues:
    ids, parts = compared_ids(request), []
    for each in ids:
        arrays: dict[str, NDArray[Any]] = dict((await best_so_far_columns(request.models, each)).arrays)
        order = np.argsort(arrays["trial"], kind="stable") if by_trial else np.arange(len(arrays["trial"]))
        arrays = {name: array[order] for name, array in arrays.items()}
        arrays["number"] = arrays["trial"] if by_trial else order + 1
        shown = kept(arrays)
        parts.append({name: array[shown] for name, array in arrays.items()})
    return _series(ids, [{**each, "time": each["ended_ms"]} for each in parts], ("number", column, "time"))


def _changes(arrays: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    best = arrays["best"]
    if not len(best):
        return np.arange(0)
    changed = np.flatnonzero(best[1:] != best[:-1]) + 1
    return np.unique(np.concatenate([[0], changed, [len(best) - 1]]))


def _series(
    names: Sequence[str], parts: Sequence[Mapping[str, NDArray[Any]]], columns: Sequence[str]
) -> ChartValues:
    """Returns parts one after another, with a column `series` that has the name of each."""
    sizes = [len(part[columns[0]]) for part in parts]
    arrays: dict[str, NDArray[Any]] = {"series": np.repeat(np.arange(len(parts), dtype=np.int32), sizes)}
    for column in columns:
        arrays[column] = np.concatenate([part[column].astype(np.float64) for part in parts] or [np.empty(0)])
    return ChartValues(arrays, {"series": names})


async def _compared(models: SnapshotModels, given: str) -> ComparedItem:
    found = await row_of_stream(models, given)
    if found is not None:
        return await _experiment(models, given, found[0].kind, found[1])
    row = await models.row("task", given)
    if row is None:
        raise PageNotFound(f"there is no experiment and no task {given[:200]}; remove it from the address")
    stream = quote(row["stream_id"], safe="")
    return ComparedItem(
        id=given,
        kind="task" if row["trial"] is None else "trial",
        address=f"/tasks/{stream}/{quote(given, safe='')}",
        status=str(row["ending"] or row["state"]),
        parameters={"task_type": row["task_type"], "queue": row["queue"], **flattened(row["parameters"])},
        best={},
        results={"stream": row["stream_id"], **{name: row[name] for name in TASK_RESULTS}},
        curves_of=given,
        tags=await _tags(models, given),
    )


async def _experiment(models: SnapshotModels, given: str, kind: str, row: ViewRow) -> ComparedItem:
    best = None
    if kind == "search" and row["best_trial"] is not None:
        trials = await models.fetch(
            *("SELECT task_id FROM trials WHERE search_id = $1 AND trial = $2", given, row["best_trial"])
        )
        best = trials[0]["task_id"] if trials else None
    spec = row.get("spec") or {}
    plain = {
        name: value
        for name, value in row.items()
        if name not in CONTENT and not isinstance(value, dict | list) and name not in spec
    }
    return ComparedItem(
        id=given,
        kind=kind,
        address=f"/experiments/{quote(given, safe='')}",
        status=str(row["status"]),
        parameters=flattened(spec) or flattened(row.get("parameters")),
        best=flattened(row.get("best_parameters")),
        results={name: value for name, value in plain.items() if value != given},
        curves_of=best,
        tags=[] if best is None else await _tags(models, best),
    )


async def _tags(models: SnapshotModels, task_id: str) -> list[JobTag]:
    try:
        async with live_tables(models) as connection:
            return await read_tags(connection, task_id, "scalar")
    except SummaryReadRefused:  # a task that has reported nothing
        return []


def flattened(value: Any, before: str = "") -> dict[str, Any]:
    """Returns the values of nested objects by the path of their names, with dots.

    A list of objects that have names, such as steps, is taken as an object of them by their names.
    """
    found: dict[str, Any] = {}
    for name, each in (value or {}).items():
        path = f"{before}{name}"
        each = _by_name(each)
        if isinstance(each, dict) and each:
            found |= flattened(each, f"{path}.")
        else:
            found[path] = each
    return found


def _by_name(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        return value
    if not all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in value):
        return value
    return {each["name"]: {name: inner for name, inner in each.items() if name != "name"} for each in value}


def _rows(compared: Sequence[ComparedItem], columns: Iterable[Mapping[str, Any]]) -> list[ComparedRow]:
    """Returns a row for each name that any of the compared has, those that differ first."""
    columns = list(columns)
    names = dict.fromkeys(name for column in columns for name in column)
    rows = []
    for name in names:
        values = [column.get(name) for column in columns]
        texts = {json.dumps(value, sort_keys=True, default=str) for value in values}
        rows.append(ComparedRow(name, values, len(texts) > 1))
    shown = [each for each in rows if any(value is not None for value in each.values)]
    return sorted(shown, key=lambda each: not each.differs)[:MAX_ROWS]


def _has(compared: ComparedItem, tag: str) -> bool:
    return any(each.tag == tag for each in compared.tags)


def _query_of(name: str, values: Iterable[str], **more: str) -> str:
    """Returns a query that repeats a name: `?id=a&id=b`."""
    pairs = [*((name, value) for value in values), *more.items()]
    return "?" + "&".join(f"{quote(key)}={quote(value, safe='')}" for key, value in pairs)
