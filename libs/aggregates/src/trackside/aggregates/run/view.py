"""What people see of a run: a line of a list, its progress by steps, its end."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from trackside.aggregates.run.messages import RunStatus
from trackside.aggregates.run.state import Run
from trackside.aggregates.run.step_messages import FAILURES, StepState
from trackside.contracts.tasks import AttemptEnd
from trackside.domain.display.short_text import named_values
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import Column, TextTable, duration
from trackside.domain.display.view import LAST_ATTEMPTS, TASKS, Listed, Progress, StreamEnd, View
from trackside.domain.pipelines.compiling import needed
from trackside.domain.pipelines.definition import STEP, kind_of
from trackside.domain.stream import Stream
from trackside.domain.table import ViewRow

STEPS = "steps"
SHOWN_STEPS = 12
"""How many steps a board shows: those that are open, and those before and after them."""


class RunView(View[Run]):
    """What people see of a run."""

    id_column = "run_id"
    queries: ClassVar[Mapping[str, str]] = {
        "newest": "SELECT run_id, name, status, steps, ended_steps, started_at, ended_at, duration_s, "
        "stop_reason FROM runs ORDER BY started_at DESC, run_id LIMIT $1",
        "one": "SELECT * FROM runs WHERE run_id = $1",
        STEPS: "SELECT * FROM steps WHERE run_id = $1 ORDER BY number",
    }
    page_queries = (STEPS, TASKS, LAST_ATTEMPTS)
    parts: ClassVar[Mapping[str, str]] = {STEPS: STEP}
    state_names = ("steps", "open_items", "concurrency", "revival")

    def listed(self, row: ViewRow) -> Listed:
        """Returns how many steps have ended."""
        return Listed(f"{row['ended_steps']}/{row['steps']}", runs="pipeline")

    def left(self, row: ViewRow) -> int:
        """Returns how many steps have not ended."""
        return int(row["steps"] - row["ended_steps"])

    def progress(self, stream: Stream[Run]) -> Progress:
        """Returns how many steps have ended and how."""
        run = stream.root
        states = Counter(step.state.value for step in run.steps.values() if step.over)
        return Progress(
            status=run.status.value,
            started_ms=run.started_ms,
            ended_ms=run.ended_ms,
            ended=states.total(),
            total=len(run.steps),
            unit=STEPS,
            detail=f": {named_values(dict(sorted(states.items())))}" if states else "",
        )

    def end(self, stream: Stream[Run], accepted: Collection[AttemptEnd]) -> StreamEnd:
        """Returns how it ended: a failure unless it has succeeded."""
        run = stream.root
        found = self.progress(stream)
        bad = [name for name, step in run.steps.items() if step.state in FAILURES]
        line = f"{stream.stream_id} {run.status.value}: {found.count} in {duration(found.duration_s)}"
        summary = {
            "run_id": stream.stream_id,
            "status": run.status.value,
            STEPS: {name: step.state.value for name, step in run.steps.items()},
            "outputs": run.outputs,
            "duration_s": found.duration_s,
        }
        lines = [line + found.detail, *(f"  {name} {run.steps[name].state.value}" for name in bad[:20])]
        failure = "" if run.status is RunStatus.SUCCEEDED else f"{stream.stream_id} {run.status.value}"
        return StreamEnd(summary, lines, failure=failure)

    def state(self, stream: Stream[Run]) -> Fields:
        """Returns its state without its steps."""
        run = stream.root
        return {
            "name": run.spec.name,
            "status": run.status.value,
            STEPS: len(run.steps),
            "open_items": run.open,
            "concurrency": run.concurrency,
            "revival": run.revival,
            "parameters": run.parameters,
            "stop_reason": run.stop_reason,
            "started_ms": run.started_ms,
            "ended_ms": run.ended_ms or None,
        }

    def state_of_parts(self, stream: Stream[Run]) -> dict[str, dict[Any, Fields]]:
        """Returns its steps by their names."""
        found: dict[Any, Fields] = {
            name: {
                "state": step.state.value,
                "kind": kind_of(stream.root.spec_of(name)),
                "items": step.count,
                "begun": step.begun,
                "ends": step.ends if step.ended_items else {},
                "generation": step.generation,
                "waits_for": _unmet(stream.root, name),
                "resolved": step.resolved or {},
                "end_kind": step.kind,
                "reason": step.reason or ("" if step.error is None else step.error.message),
                "ready_ms": step.ready_ms or None,
                "ended_ms": step.ended_ms or None,
            }
            for name, step in stream.root.steps.items()
        }
        return {STEPS: found}

    def state_tables(
        self, parts: Mapping[str, Mapping[Any, Fields]], tasks: Mapping[str, Fields]
    ) -> list[TextTable]:
        """Returns the tables of its steps and of its tasks."""
        columns = [
            *(Column("step", keep=True), Column("kind", optional=True), Column("state")),
            *(Column("items"), Column("took", right=True), Column("details")),
        ]
        rows = [_step_cells(name, step) for name, step in parts[STEPS].items()]
        return [TextTable(columns, rows), *super().state_tables(parts, tasks)]


def _unmet(run: Run, name: str) -> list[str]:
    """Returns the steps that a pending step waits for."""
    if run.steps[name].state is not StepState.PENDING:
        return []
    return [parent for parent in needed(run.spec_of(name)) if not run.steps[parent].over]


def _step_cells(name: str, step: Fields) -> list[object]:
    over = step["ready_ms"] and step["ended_ms"]
    waits = f"waits for {', '.join(step['waits_for'])}" if step["waits_for"] else ""
    return [
        name,
        step["kind"],
        step["state"],
        f"{step['begun']}/{step['items']}" if step["items"] > 1 else "",
        duration((step["ended_ms"] - step["ready_ms"]) / 1000) if over else None,
        step["reason"] or waits or named_values(step["resolved"]),
    ]
