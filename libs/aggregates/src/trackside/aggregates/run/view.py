"""What people see of a run: its steps with their times, what waits for a decision, its progress, its end."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from trackside.aggregates.run.listing import RunListing
from trackside.aggregates.run.messages import RunStatus
from trackside.aggregates.run.state import WORKING, Run
from trackside.aggregates.run.step_messages import FAILURES, StepState
from trackside.aggregates.run.steps.critical_path import critical_path, path_text
from trackside.aggregates.run.steps.page import cut, facts, gate_table, notes_of, step_table
from trackside.aggregates.run.steps.report import GATES, STEPS, report_page, report_sections
from trackside.aggregates.run.steps.step_display import progress_of
from trackside.contracts.envelope.ids import GENERATION_PATTERN
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display import task_rows, task_state
from trackside.domain.display.redacted import redacted_note
from trackside.domain.display.report import ReportSection
from trackside.domain.display.selection import SortKey
from trackside.domain.display.short_text import named_values
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import Column, TextTable, duration, number, printable
from trackside.domain.display.view import (
    CHILDREN,
    LAST_ATTEMPTS,
    PICTURE,
    TASKS,
    Page,
    Progress,
    QueriedRows,
    StreamEnd,
    View,
)
from trackside.domain.pipelines.compiling import needed
from trackside.domain.pipelines.definition import STEP, kind_of
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream

FAILED_TASKS, FAILED_ATTEMPTS = "failed_tasks", "failed_attempts"
REDACTED_RESULTS = "redacted_results"
MOST_DETAILS = 50
"""How long the details of a step are, in characters."""
SHOWN_STEPS = 12
"""How many steps a board shows: those that are open, and those before and after them."""
SHOWN_FAILED = 20
"""How many steps that failed are listed at the end."""


_READY = "WITH ready AS MATERIALIZED (SELECT step, ready_at FROM steps WHERE run_id = $1)"
"""Computes the steps once: as a part of the join, with statistics of an empty table, once for each task."""
_FAILED = (
    "FROM tasks LEFT JOIN attempts ON attempts.task_id = tasks.task_id "
    "AND attempts.stream_id = tasks.stream_id AND attempts.attempt = tasks.attempts "
    "LEFT JOIN ready ON ready.step = tasks.name "
    "WHERE tasks.stream_id = $1 AND tasks.ending <> 'finished' "
    "AND (ready.step IS NULL OR ready.ready_at IS NOT NULL) AND NOT EXISTS ("
    "SELECT FROM tasks AS later WHERE later.stream_id = tasks.stream_id AND later.name = tasks.name "
    "AND later.queued_at > tasks.queued_at "
    f"AND regexp_replace(later.task_id, '{GENERATION_PATTERN}', '') "
    f"= regexp_replace(tasks.task_id, '{GENERATION_PATTERN}', '')"
    ") ORDER BY tasks.ended_at DESC, tasks.task_id LIMIT 20"
)
"""The tasks that did not finish, without those that their steps have begun again since."""


_RANKS = {state.value: 0 for state in FAILURES} | {state.value: 1 for state in WORKING}
"""Which steps come first where not all are shown."""


class RunView(RunListing, View[Run]):
    """What people see of a run."""

    queries: ClassVar[Mapping[str, str]] = {
        STEPS: "SELECT * FROM steps WHERE run_id = $1 ORDER BY number",
        GATES: "SELECT * FROM gates WHERE run_id = $1 ORDER BY opened_at, step",
        FAILED_TASKS: " ".join((_READY, "SELECT tasks.*", _FAILED)),
        FAILED_ATTEMPTS: " ".join((_READY, "SELECT attempts.*", _FAILED)),
        REDACTED_RESULTS: "SELECT DISTINCT ON (name) name, result FROM tasks WHERE stream_id = $1 "
        "AND strpos(result::text, '[redacted]') > 0 ORDER BY name, queued_at DESC",
        PICTURE: "SELECT steps.step AS name, steps.what, steps.state, run_nodes.color, steps.needs, "
        "steps.took_s FROM steps JOIN run_nodes ON run_nodes.run_id = steps.run_id "
        "AND run_nodes.id = steps.step WHERE steps.run_id = $1 ORDER BY steps.number",
    }
    page_queries = (STEPS, GATES, FAILED_TASKS, FAILED_ATTEMPTS, REDACTED_RESULTS, CHILDREN)
    report_queries = (STEPS, GATES, TASKS, LAST_ATTEMPTS, CHILDREN, PICTURE)
    list_query = STEPS
    statuses = tuple(StepState)
    parts: ClassVar[Mapping[str, str]] = {STEPS: STEP}
    state_names = ("steps", "open_items", "concurrency", "revival")

    def left(self, row: ViewRow) -> int:
        """Returns how many steps have not ended; none while it is paused, which may take any time."""
        return 0 if row["status"] == RunStatus.PAUSED.value else int(row["steps"] - row["ended_steps"])

    def sort_keys(self, row: ViewRow) -> Mapping[str, SortKey]:
        """Returns what steps may be sorted by."""
        return {
            "step": SortKey(lambda step: step["step"]),
            "waited": SortKey(lambda step: step["waited_s"], descending=True),
            "took": SortKey(lambda step: step["took_s"], descending=True),
            "ended": SortKey(lambda step: step["ended_at"], descending=True),
        }

    def status_of(self, row: ViewRow) -> str:
        """Returns the state of a step."""
        return str(row["state"])

    def facts(self, row: ViewRow, rows: QueriedRows) -> Sequence[tuple[str, object]]:
        """Returns what is said of it, and what its gates wait for."""
        return facts(row, rows[GATES])

    def tables(self, row: ViewRow, rows: QueriedRows) -> Sequence[TextTable]:
        """Returns its steps with their times and parameters, its gates, and the tasks that did not finish."""
        tables = [step_table(rows[STEPS], notes_of(rows[REDACTED_RESULTS]))]
        if rows[GATES]:
            tables.append(gate_table(rows[GATES]))
        if rows[FAILED_TASKS]:
            attempts = task_rows.by_task(rows[FAILED_ATTEMPTS])
            tables.append(task_rows.task_table(rows[FAILED_TASKS], attempts, row["run_id"]))
        return tables

    def chosen(self, listed: Sequence[ViewRow], limit: int) -> Sequence[ViewRow]:
        """Returns steps that have failed, then those that are open, then the first of the others."""
        if len(listed) <= limit:
            return listed
        return sorted(listed, key=lambda step: _RANKS.get(step["state"], 2))[:limit]

    def left_out(self, listed: Sequence[ViewRow], every: Sequence[ViewRow]) -> str:
        """Returns how many steps are left out, by their states."""
        shown = {step["step"] for step in listed}
        hidden = Counter(step["state"] for step in every if step["step"] not in shown)
        return (
            f"{len(listed)} of {len(every)} steps, failed and open ones first; left out: {_counted(hidden)}; "
            f"--limit {len(every)} shows all, --status one state"
        )

    def report_page(self, row: ViewRow, rows: QueriedRows) -> Page:
        """Returns what its report begins with: its steps with their results, its gates and its children."""
        return report_page(row, rows)

    def sections(self, row: ViewRow, rows: QueriedRows) -> list[ReportSection]:
        """Returns a section for its tasks, and one for each step with several."""
        return report_sections(row, rows)

    def lists(self, row: ViewRow, rows: QueriedRows) -> dict[str, Sequence[ViewRow]]:
        """Returns its steps, its gates, the tasks that did not finish, and its children."""
        attempts = task_rows.by_task(rows[FAILED_ATTEMPTS])
        failed = [task_rows.with_newest_attempt(task, attempts) for task in rows[FAILED_TASKS]]
        return {
            STEPS: rows[STEPS],
            GATES: rows[GATES],
            FAILED_TASKS: failed,
            CHILDREN: rows[CHILDREN],
        }

    def progress(self, stream: Stream[Run]) -> Progress:
        """Returns how many steps have ended and how, and the steps around those that are open."""
        run = stream.root
        states = Counter(step.state.value for step in run.steps.values() if step.over)
        share = progress_of(run)
        rows, hidden = _board(run)
        return Progress(
            status=run.status.value,
            started_ms=run.started_ms,
            ended_ms=run.ended_ms,
            ended=states.total(),
            total=len(run.steps),
            unit=STEPS,
            detail=f" ({share:.0%}): {_counted(states)}" if states else "",
            lines=[f"gate {name} waits: trackside approve {run.run_id} {name}" for name in run.open_gates],
            rows=rows,
            more=f"and {hidden} more steps" if hidden else "",
            share=share,
            waits=bool(run.paused) or (bool(run.open_gates) and not run.open),
        )

    def end(self, stream: Stream[Run], accepted: Collection[AttemptEnd]) -> StreamEnd:
        """Returns how it ended: a failure unless it has succeeded, or was aborted where that is accepted."""
        run = stream.root
        found = self.progress(stream)
        states = Counter(step.state.value for step in run.steps.values())
        lines = [
            f"{stream.stream_id} {run.status.value}: {found.count} in {duration(found.duration_s)}: "
            f"{_counted(states)}"
        ]
        bad = [(name, step) for name, step in run.steps.items() if step.state in FAILURES]
        unfinished = {task.part.name: task for task in task_state.unfinished(stream, ()) if task.part}
        for name, step in bad[:SHOWN_FAILED]:
            why = step.reason if step.error is None else step.error.message
            if not why and name in unfinished:
                why = task_state.why(unfinished[name])
            why = why or (step.kind if step.kind != step.state.value else "")
            lines.append(f"  {name} {step.state.value}" + (f": {printable(why)}" if why else ""))
        for name, step in run.steps.items():
            notes = (redacted_note(output.result) for output in step.outputs.values())
            if note := next(filter(None, notes), ""):
                lines.append(f"  {name} {step.state.value}: {note}")
        if len(bad) > SHOWN_FAILED:
            more = len(bad) - SHOWN_FAILED
            lines.append(f"  and {more} more; `trackside show {stream.stream_id}` has all")
        lines += [f"{name}: {cut(value, 200)}" for name, value in run.outputs.items()]
        good = {RunStatus.SUCCEEDED} | ({RunStatus.ABORTED} if AttemptEnd.CANCELLED in accepted else set())
        failure = "" if run.status in good else f"{stream.stream_id} {run.status.value}"
        summary = {
            "run_id": stream.stream_id,
            "status": run.status.value,
            STEPS: {name: step.state.value for name, step in run.steps.items()},
            "causes": run.causes,
            "outputs": run.outputs,
            "duration_s": found.duration_s,
        }
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
            **({"critical_path": path_text(critical_path(run))} if run.over else {}),
        }

    def state_lines(self, state: Fields) -> list[str]:
        """Returns its fields as a line, and its critical path once it is over."""
        path = state.get("critical_path")
        return [*super().state_lines(state), *([f"critical path: {path}"] if path else [])]

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
        rows = [_state_cells(name, step) for name, step in parts[STEPS].items()]
        return [TextTable(columns, rows), *super().state_tables(parts, tasks)]


def _unmet(run: Run, name: str) -> list[str]:
    """Returns the steps that a pending step waits for."""
    if run.steps[name].state is not StepState.PENDING:
        return []
    return [parent for parent in needed(run.spec_of(name)) if not run.steps[parent].over]


def _state_cells(name: str, step: Fields) -> list[object]:
    over = step["ready_ms"] and step["ended_ms"]
    waits = f"waits for {', '.join(step['waits_for'])}" if step["waits_for"] else ""
    return [
        name,
        step["kind"],
        step["state"],
        f"{step['begun']}/{step['items']}" if step["items"] > 1 else "",
        duration((step["ended_ms"] - step["ready_ms"]) / 1000) if over else None,
        cut(step["reason"] or waits or named_values(step["resolved"]), MOST_DETAILS),
    ]


def _counted(states: Mapping[str, int]) -> str:
    """Returns counted states as text, in the order of their declaration: `3 succeeded, 1 failed`."""
    return ", ".join(f"{states[state.value]} {state.value}" for state in StepState if states.get(state.value))


def _board(run: Run) -> tuple[list[list[str]], int]:
    """Returns the rows of the steps around the first that is open, and how many others there are."""
    names = list(run.steps)
    opened = [step.number for step in run.steps.values() if step.state in WORKING]
    next_ = next((step.number for step in run.steps.values() if not step.over), len(names) - 1)
    first = max(0, min((opened[0] if opened else next_) - SHOWN_STEPS // 3, len(names) - SHOWN_STEPS))
    shown = names[first : first + SHOWN_STEPS]
    return [_board_row(run, name) for name in shown], len(names) - len(shown)


def _board_row(run: Run, name: str) -> list[str]:
    step, spec = run.steps[name], run.spec_of(name)
    took = duration((step.ended_ms - step.ready_ms) / 1000) if step.over and step.ready_ms else ""
    items = ""
    if spec.each is not None and step.count:
        items = f"{step.ended_items}/{step.count}"
    elif spec.repeat is not None and step.count:
        items = f"{step.ended_items} of at most {spec.repeat.times}"
    weight = f"weight {number(spec.weight)}" if spec.weight != 1 else ""
    return [name, step.state.value, items, took, weight]


VIEW = RunView()
