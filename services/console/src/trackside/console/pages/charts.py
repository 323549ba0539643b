"""The values of charts: columns of the read models, with what their scripts need to know of them."""

import asyncio
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.console.pages.search import search_row
from trackside.console.web.page import BadQuery, ChartValues, PageRequest
from trackside.eventlog.clock import now_ms
from trackside.projections.columns import ChartColumns
from trackside.projections.curve_columns import curve_columns
from trackside.projections.summaries.points import PointRange
from trackside.projections.timeline_columns import timeline_columns
from trackside.projections.trial_columns import (
    OBJECTIVES,
    PARAMETERS,
    STATUSES,
    best_so_far_columns,
    read_objectives,
    trial_columns,
)
from trackside.replay.derive.importances import MIN_TRIALS, TooFewTrialsError, importances_of

HOUR_MS = 3_600_000
IMPORTANCE_TRIALS = 2_000
"""Of more trials, so many are taken, evenly spread: the evaluator takes 0.1 ms for each."""
COMMANDS = ("pause", "resume", "stop", "update", "add-trial", "import-trials", "request-trials")
"""What the names of commands begin with whose time is marked in charts of a search."""


async def history(request: PageRequest) -> ChartValues:
    """The values of trials in the order of their ends, and the best value so far."""
    stream_id = request.parts["stream_id"]
    row = await search_row(request)
    found = await best_so_far_columns(request.models, stream_id, request.query.get("objective", ""))
    commands = await request.models.rows("commands", stream_id)
    ends = found.arrays["ended_ms"]
    annotations = [
        {"x": int(np.searchsorted(ends, each["received_at"].timestamp() * 1000)), "text": name, "kind": name}
        for each in commands
        if each["status"] == "accepted" and (name := _short(each["command_type"])).startswith(COMMANDS)
    ]
    order = np.arange(1, len(ends) + 1, dtype=np.float64)
    meta = {"direction": row["direction"], "annotations": annotations}
    return ChartValues({"number": order, **found.arrays}, found.labels, meta)


def _short(command_type: str) -> str:
    return command_type.removeprefix("trackside.").rpartition(".")[0].removesuffix("-search")


async def trials(request: PageRequest) -> ChartValues:
    """All trials with their parameters and values; `value` is that of the first objective."""
    stream_id = request.parts["stream_id"]
    found = await trial_columns(request.models, stream_id)
    objectives = await read_objectives(request.models, stream_id)
    arrays = {"number": found.arrays["trial"].astype(np.float64)}
    arrays |= {name: values for name, values in found.arrays.items() if name != "trial"}
    if objectives:
        arrays["value"] = found.arrays[f"{OBJECTIVES}{objectives[0].name}"]
    parameters = [name for name in arrays if name.startswith(PARAMETERS)]
    meta = {"parameters": parameters, "stream_id": stream_id, "note": _note(found)}
    return ChartValues(arrays, found.labels, meta)


def _note(found: ChartColumns) -> str:
    return f"{found.rows:,} of {found.total:,} are shown" if found.rows < found.total else ""


async def importances(request: PageRequest) -> ChartValues:
    """How much each parameter explains of the value; PED-ANOVA over the trials that succeeded."""
    stream_id = request.parts["stream_id"]
    found = await trial_columns(request.models, stream_id)
    objectives = await read_objectives(request.models, stream_id)
    if not objectives:
        raise BadQuery(f"{stream_id} is not a search")
    values = found.arrays[f"{OBJECTIVES}{objectives[0].name}"]
    counted = np.flatnonzero(np.isfinite(values) & (found.arrays["status"] == STATUSES.index("SUCCEEDED")))
    if len(counted) < MIN_TRIALS:
        raise BadQuery(str(TooFewTrialsError(stream_id, len(counted), MIN_TRIALS)))
    if len(counted) > IMPORTANCE_TRIALS:
        counted = counted[np.linspace(0, len(counted) - 1, IMPORTANCE_TRIALS).astype(int)]
    parameters = _complete_parameters(found, counted)
    direction = "minimize" if objectives[0].minimize else "maximize"
    shares = await asyncio.to_thread(importances_of, parameters, values[counted].tolist(), direction)
    names = [each.parameter for each in shares]
    values = np.array([each.share for each in shares])
    places = np.arange(len(names), dtype=np.int32)
    return ChartValues({"parameter": places, "importance": values}, {"parameter": names})


def _complete_parameters(found: ChartColumns, rows: NDArray[Any]) -> dict[str, list[Any]]:
    """Returns the parameters that all of these trials have, with their values."""
    complete: dict[str, list[Any]] = {}
    for name, column in found.arrays.items():
        if not name.startswith(PARAMETERS):
            continue
        values = column[rows]
        labels = found.labels.get(name)
        if labels is None and np.isfinite(values).all():
            complete[name.removeprefix(PARAMETERS)] = values.tolist()
        elif labels is not None and (values >= 0).all():
            complete[name.removeprefix(PARAMETERS)] = [labels[at] for at in values]
    return complete


async def curve(request: PageRequest) -> ChartValues:
    """The points of a tag of a task, thinned; between the steps `from` and `to` of the query if given."""
    tag, task_id = request.query.get("tag", ""), request.parts["task_id"]
    first, last = _query_number(request, "from", -(2**62)), _query_number(request, "to", 2**62)
    within = PointRange(first_step=int(first), last_step=int(last))
    found = (await curve_columns(request.models, [task_id], tag, within=within)).get(task_id)
    if found is None:
        return ChartValues({"step": np.empty(0), tag: np.empty(0)})
    values = {"step": found.arrays["step"], "time": found.arrays["time_ms"], tag: found.arrays["value"]}
    return ChartValues(values, found.labels, {"note": _note(found)})


def _query_number(request: PageRequest, name: str, default: float) -> float:
    """Returns a number of the query; raises BadQuery for a text that is none."""
    text = request.query.get(name, "")
    try:
        value = float(text) if text else float(default)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 2**62:
        raise BadQuery(f"{name}: expected a number, not {text[:50]!r}")
    return value


async def timeline(request: PageRequest) -> ChartValues:
    """What each device ran in the last `hours`, or from `from` to `to`, ms since 1970."""
    now = now_ms()
    hours = min(max(_query_number(request, "hours", 1), 0.01), 24 * 366)
    from_ms = int(_query_number(request, "from", now - hours * HOUR_MS))
    to_ms = int(_query_number(request, "to", now))
    found = await timeline_columns(request.models, from_ms, to_ms)
    arrays = {
        "row": found.arrays["device"],
        "start": found.arrays["began_ms"],
        "end": found.arrays["ended_ms"],
        "state": found.arrays["ending"],
        "label": found.arrays["task"],
        "stream": found.arrays["stream"],
    }
    labels = found.labels
    shown = {
        "row": labels["device"],
        "state": labels["ending"],
        "label": labels["task"],
        "stream": labels["stream"],
    }
    return ChartValues(arrays, shown, {"now": now, "note": _note(found)})
