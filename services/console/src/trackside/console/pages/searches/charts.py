"""The values of charts: columns of the read models, with what their scripts need to know of them."""

import asyncio
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.console.pages.searches.marks import marks_of_search, placed
from trackside.console.pages.searches.search import search_row
from trackside.console.pages.thinning import thinned_note
from trackside.console.web.page import BadQuery, ChartValues, PageRequest
from trackside.projections.pages.curve_columns import curve_columns
from trackside.projections.pages.trial_columns import (
    OBJECTIVES,
    PARAMETERS,
    STATUSES,
    best_so_far_columns,
    read_objectives,
)
from trackside.projections.reading.columns import ChartColumns
from trackside.projections.summaries.points import PointRange
from trackside.replay.derive.importances import MIN_TRIALS, TooFewTrialsError, importances_of

LOGARITHMIC = ("loguniform", "qloguniform", "lognormal", "qlognormal")
"""The types of parameters whose axes are logarithmic."""
IMPORTANCE_TRIALS = 1_000
"""Of more trials, so many are taken, evenly spread: the evaluator takes 0.1 ms for each."""


async def history(request: PageRequest) -> ChartValues:
    """The values of trials in the order of their ends, and the best value so far."""
    stream_id = request.parts["stream_id"]
    row = await search_row(request)
    found = await best_so_far_columns(request.models, stream_id, request.query.get("objective", ""))
    marks = await marks_of_search(request.models, stream_id)
    ends = found.arrays["ended_ms"]
    # A mark is at the number of trials that had ended before it; those after the last end have a place too.
    annotations = [{**each, "x": int(np.searchsorted(ends, each["time"]))} for each in marks]
    order = np.arange(1, len(ends) + 1, dtype=np.float64)
    meta = {"direction": row["direction"], "annotations": annotations}
    return ChartValues({"number": order, **found.arrays}, found.labels, meta)


async def trials(request: PageRequest) -> ChartValues:
    """What charts show of all trials: status, parameters and objectives; `value` is the first of these."""
    stream_id = request.parts["stream_id"]
    space = (await search_row(request))["spec"]["space"]
    found = await request.trials.read(request.models, stream_id)
    objectives = [name for name in found.arrays if name.startswith(OBJECTIVES)]
    parameters = [name for name in found.arrays if name.startswith(PARAMETERS)]
    arrays = {"number": found.arrays["trial"], "status": found.arrays["status"]}
    if objectives:
        arrays["value"] = found.arrays[objectives[0]]
    # A single objective is the value, which is sent once.
    sent = parameters if len(objectives) == 1 else [*objectives, *parameters]
    arrays |= {name: found.arrays[name] for name in sent}
    meta = {
        "parameters": parameters,
        "log": [name for name, definition in space.items() if definition["type"] in LOGARITHMIC],
        "stream_id": stream_id,
        "note": thinned_note(found),
    }
    return ChartValues(arrays, found.labels, meta)


async def importances(request: PageRequest) -> ChartValues:
    """How much each parameter explains of the value; PED-ANOVA over the trials that succeeded."""
    stream_id = request.parts["stream_id"]
    found = await request.trials.read(request.models, stream_id)
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
    first, last = request.finite("from", -(2**62)), request.finite("to", 2**62)
    within = PointRange(first_step=int(first), last_step=int(last))
    found = (await curve_columns(request.models, [task_id], tag, within=within)).get(task_id)
    if found is None:
        return ChartValues({"step": np.empty(0), tag: np.empty(0)})
    values = {"step": found.arrays["step"], "time": found.arrays["time_ms"], tag: found.arrays["value"]}
    marks = await marks_of_search(request.models, request.parts["stream_id"])
    meta = {"note": thinned_note(found), "annotations": placed(marks, values["step"], values["time"])}
    return ChartValues(values, found.labels, meta)
