"""The report of a run: its steps with their results and failures, and what its tasks measured. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trackside.aggregates.run.state import CHECK
from trackside.aggregates.run.step_messages import FAILURES
from trackside.aggregates.run.steps.page import facts, gate_table, notes_of, short_values, step_table, why
from trackside.contracts.envelope.ids import without_generation
from trackside.domain.display import report, task_rows
from trackside.domain.display.report import ReportSection
from trackside.domain.display.text import Column, TextTable, duration, one_line
from trackside.domain.display.view import CHILDREN, LAST_ATTEMPTS, TASKS, Page, QueriedRows
from trackside.domain.rows.table import ViewRow

STEPS, GATES = "steps", "gates"
VALUE_WIDTH, RESULT_WIDTH = 40, 120
"""How many characters of a value of a result, and of the whole result of a step, its table shows."""
MOST_FAILED = 50
"""How many steps that failed are listed with their reasons."""


def report_page(row: ViewRow, rows: QueriedRows) -> Page:
    """Returns what the report begins with."""
    attempts = task_rows.by_task(rows[LAST_ATTEMPTS])
    by_step = _by_step(rows[TASKS])
    failed = [step for step in rows[STEPS] if step["state"] in FAILURES]
    reasons = [
        (
            "failed",
            f"{step['step']} {step['state']}{_reason(step, by_step[step['step']], attempts)}".rstrip(),
        )
        for step in failed[:MOST_FAILED]
    ]
    if len(failed) > MOST_FAILED:
        reasons.append(("", f"and {len(failed) - MOST_FAILED} more"))
    results = {name: _result(tasks) for name, tasks in by_step.items()}
    results |= {gate["step"]: gate["inputs"] for gate in rows[GATES] if gate["decided_at"]}
    tables = [_with_results(step_table(rows[STEPS], notes_of(rows[TASKS])), results)]
    tables += [gate_table(rows[GATES])] if rows[GATES] else []
    tables += [_child_table(rows[CHILDREN])] if rows[CHILDREN] else []
    return Page([*facts(row, rows[GATES]), *reasons], tables)


def report_sections(row: ViewRow, rows: QueriedRows) -> list[ReportSection]:
    """Returns a section for the tasks of all steps that have one, and a section for each that has several."""
    attempts = task_rows.by_task(rows[LAST_ATTEMPTS])
    by_step = _by_step(rows[TASKS])
    alone = [task for tasks in by_step.values() if len(tasks) == 1 for task in tasks]
    found = [report.section(TASKS, row["status"], alone, attempts)] if alone else []
    states = {step["step"]: step["state"] for step in rows[STEPS]}
    return found + [
        report.section(name, states.get(name, ""), _numbered(row, tasks), attempts)
        for name, tasks in by_step.items()
        if len(tasks) > 1
    ]


def _by_step(tasks: Iterable[ViewRow]) -> Mapping[str, list[ViewRow]]:
    """Returns the tasks of each step, without those that were begun again, and checks of the store."""
    newest: dict[str, ViewRow] = {}
    for task in sorted(tasks, key=lambda task: (task["queued_at"], task["task_id"])):
        base = without_generation(task["task_id"])
        if task["name"] and not base.endswith(f".{task['name']}{CHECK}"):
            newest[base] = task
    found: dict[str, list[ViewRow]] = defaultdict(list)
    for task in newest.values():
        found[task["name"]].append(task)
    return found


def _numbered(row: ViewRow, tasks: Sequence[ViewRow]) -> list[ViewRow]:
    """Returns the tasks of a step with their own names, which have the indexes of their items, in order."""
    start = len(f"{row['run_id']}.")
    named = [task | {"name": task["task_id"][start:]} for task in tasks]
    return sorted(named, key=lambda task: [(len(part), part) for part in task["name"].split(".")])


def _reason(step: ViewRow, tasks: Sequence[ViewRow], attempts: Mapping[str, ViewRow]) -> str:
    """Returns why a step failed, in parentheses: what its row says, or the error of its first task."""
    errors = (task_rows.error_of(attempts.get(task["task_id"])) for task in tasks)
    said = why(step) if step["error"] is not None else next(filter(None, errors), "") or why(step)
    return f" ({one_line(said)})" if said else ""


def _result(tasks: Sequence[ViewRow]) -> Any:
    """Returns the result of the one task of a step; that of several is in a section of its own."""
    if len(tasks) != 1:
        return None
    result = tasks[0]["result"]
    return result if isinstance(result, dict) or result is None else {"result": result}


def _with_results(table: TextTable, results: Mapping[str, Any]) -> TextTable:
    """Returns a table of steps with their results."""
    if not any(results.values()):
        return table
    shown = [short_values(results.get(str(row[0])), VALUE_WIDTH, RESULT_WIDTH) for row in table.rows]
    rows = [[*row, result] for row, result in zip(table.rows, shown, strict=True)]
    return TextTable([*table.columns, Column("result", keep=True)], rows)


def _child_table(children: Iterable[ViewRow]) -> TextTable:
    columns = [Column("child", keep=True), Column("kind"), Column("status"), Column("took", right=True)]
    columns += [Column("result", keep=True)]
    rows = [
        [
            child["child_id"],
            child["kind"],
            child["status"],
            duration(child["duration_s"]),
            short_values(child["result"], VALUE_WIDTH, RESULT_WIDTH),
        ]
        for child in children
    ]
    return TextTable(columns, rows)
