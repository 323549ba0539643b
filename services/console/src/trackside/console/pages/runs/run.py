"""The pages of a run: its graph, its gates and steps, and each step with what its parameters come from."""

from typing import Any

from trackside.aggregates.run.state import run_of
from trackside.aggregates.run.step_messages import StepState
from trackside.aggregates.run.steps.page import facts, notes_of, why
from trackside.console.commands.run_actions import gate_actions, item_actions, step_actions
from trackside.console.pages.runs.parameter_sources import parameter_rows
from trackside.console.pages.stream import row_of_kind, stream_values
from trackside.console.web.page import PageNotFound, PageRequest, Shown
from trackside.domain.display.text import duration
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream
from trackside.projections.pages.run_steps import (
    STEP_SORTS,
    StepFilter,
    count_step_states,
    count_steps,
    read_dependents,
    read_gate,
    read_gates,
    read_named_steps,
    read_step,
    read_steps,
)
from trackside.projections.pages.stream_tasks import (
    StreamTaskFilter,
    count_stream_tasks,
    read_children,
    read_stream_tasks,
)
from trackside.projections.reading.read_pool import SnapshotModels
from trackside.projections.reading.stream_states import read_stream_state
from trackside.replay.history.point_in_time import NOW
from trackside.replay.history.recorded_stream import find_live, state_at

LIMIT = 50
GATES, DEPENDENTS = 20, 100
"""How many open gates, and steps that need a step, are shown."""
_WITH_STATUS = ("run", "name", "status", "steps", "pipeline", "waits for", "parameters", "output")
"""What the head of the page and its other parts show."""


async def run(request: PageRequest, row: ViewRow) -> Shown:
    """Shows a run: how far it is, its graph, what waits for a decision, and its steps."""
    run_id, models = request.parts["stream_id"], request.models
    wanted = _step_filter(request)
    gates = await read_gates(models, run_id, "open", GATES)
    states = await count_step_states(models, run_id)
    values = {
        **stream_values(request, "run", row),
        "facts": [(name, value) for name, value in facts(row, ()) if name not in _WITH_STATUS],
        "gates": [(gate, gate_actions(run_id, gate)) for gate in gates],
        "states": [(state.value, states[state]) for state in StepState if state in states],
        "steps": await read_steps(models, wanted),
        "total": await count_steps(models, wanted),
        "filter": wanted,
        "reasons": await _reasons(models, run_id),
        "why": why,
    }
    title = str(row["name"] or run_id)
    return Shown("run.html", title, values, frozenset((run_id,)), section="experiments")


async def _reasons(models: SnapshotModels, run_id: str) -> dict[str, str]:
    """Returns why tasks of steps did not finish, or where their results are redacted, by the step."""
    tasks = await models.rows("run.failed_tasks", run_id)
    attempts = {each["task_id"]: each for each in await models.rows("run.failed_attempts", run_id)}
    found: dict[str, str] = {}
    for task in tasks:
        attempt = attempts.get(task["task_id"]) or {}
        error = attempt.get("error_message") or task["stop_reason"] or str(task["ending"])
        found.setdefault(task["name"], error)
    return notes_of(await models.rows("run.redacted_results", run_id)) | found


def _step_filter(request: PageRequest) -> StepFilter:
    return StepFilter(
        request.parts["stream_id"],
        text=request.query.get("text", "")[:200],
        state=request.one_of("state", tuple(StepState), ""),
        sort=request.one_of("sort", STEP_SORTS, "number"),
        descending=request.query.get("order", "asc") == "desc",
        limit=LIMIT,
        offset=request.number("offset", 0),
    )


async def found_run(request: PageRequest) -> ViewRow:
    """Returns the row of the run in the path; raises PageNotFound."""
    return await row_of_kind(request, "run", "only a run has steps")


async def step(request: PageRequest) -> Shown:
    """Shows a step: its parameters with their sources, its gate, its tasks, and what it waits for."""
    run_row = await found_run(request)
    run_id, name, models = request.parts["stream_id"], request.parts["step"], request.models
    row = await read_step(models, run_id, name)
    if row is None:
        raise PageNotFound(f"run {run_id} has no step {name[:200]}; its page lists the steps")
    gate = await read_gate(models, run_id, name) if row["kind"] == "gate" else None
    wanted = StreamTaskFilter(
        run_id,
        name=name,
        sort="queued",
        descending=True,
        limit=LIMIT,
        offset=request.number("offset", 0),
    )
    tasks = await read_stream_tasks(models, wanted)
    values = {
        **stream_values(request, "run", run_row),
        "step": row,
        "reason": why(row) or (await _reasons(models, run_id)).get(name, ""),
        "facts": _step_facts(row),
        "step_forms": step_actions(run_id, run_row, row),
        "gate": gate,
        "gate_forms": [] if gate is None else gate_actions(run_id, gate),
        "parameters": parameter_rows(run_id, row, await _sources(request, row)),
        "needs": await read_named_steps(models, run_id, row["needs"][:DEPENDENTS]),
        "dependents": await read_dependents(models, run_id, name, DEPENDENTS),
        "tasks": tasks,
        "item_forms": item_actions(run_id, run_row, row, tasks),
        "total": await count_stream_tasks(models, wanted),
        "filter": wanted,
        "children": await read_children(models, run_id, f"{run_id}.{name}", LIMIT),
    }
    title = f"{name} of {run_row['name'] or run_id}"
    return Shown("step.html", title, values, frozenset((run_id,)), section="experiments")


def _step_facts(row: ViewRow) -> list[tuple[str, object]]:
    """Returns what is said of a step, without what it does not have."""
    found: list[tuple[str, object]] = [("runs", row["what"]), ("stage", row["stage"])]
    if row["items"] > 1 or len(row["ends"]) > 1:
        found.append(("items", f"{sum(row['ends'].values())} ended of {row['items']}, {row['open']} open"))
        found.append(("ends", row["ends"]))
    found += [("weight", row["weight"])] if row["weight"] != 1 else []
    found += [("begun again", f"{row['generation']} times")] if row["generation"] else []
    spec = row["spec"] or {}
    names = ("when", "each", "at_once", "repeat", "collect", "cache", "queue", "priority", "on_end")
    found += [(each.replace("_", " "), spec[each]) for each in names if each in spec]
    found += [("ready", row["ready_at"]), ("started", row["started_at"]), ("ended", row["ended_at"])]
    found += [
        (name, duration(row[f"{name}_s"])) for name in ("waited", "took") if row[f"{name}_s"] is not None
    ]
    return [(name, value) for name, value in found if value not in (None, "")]


async def _sources(request: PageRequest, row: ViewRow) -> dict[str, str]:
    """Returns the events that the values of a step's references come from, by the texts of the references."""
    if not row["resolved"]:
        return {}
    run_id, name = request.parts["stream_id"], row["step"]
    snapshot = await read_stream_state(request.models, run_id)
    found = {} if snapshot is None else _sources_in(snapshot, name)
    if found:
        return found
    # The values are newer than the snapshot.
    recorded = await find_live(request.log, request.topics, run_id, request.past_states)
    return {} if recorded is None else _sources_in((await state_at(recorded, NOW)).stream, name)


def _sources_in(stream: Stream[Any], name: str) -> dict[str, str]:
    folded = run_of(stream)
    return {} if folded is None or name not in folded.steps else folded.steps[name].sources
