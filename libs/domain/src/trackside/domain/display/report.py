"""A section of a report: the results of finished tasks in columns, and failures with reasons."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trackside.domain.rows.table import ViewRow

CellValue = str | float | int | bool | None
OBJECTIVE = "value"
"""The column of a task's objective; it comes before the columns of the results."""


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """A task that finished, with a cell for every result column of its section; times in ms."""

    task_id: str
    name: str
    cells: dict[str, CellValue]
    load_time_ms: int | None
    train_time_ms: int | None
    attempts: int


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task that did not finish: how it ended, in which stage, and why."""

    task_id: str
    name: str
    ending: str
    stage: str | None
    message: str
    attempts: int


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """The value of a numbered part, such as a trial; `counts` if it may be the best one."""

    number: int
    value: float
    counts: bool


@dataclass(slots=True)
class ReportSection:
    """Tasks that belong together, such as a group: their result columns, and how many have not ended."""

    name: str
    status: str
    columns: list[str]
    finished: list[FinishedTask] = field(default_factory=list)
    failed: list[FailedTask] = field(default_factory=list)
    open: int = 0
    early_stopped: list[FinishedTask] = field(default_factory=list)
    """Tasks that an assessor stopped, with the last value that they reported."""
    history: list[HistoryPoint] = field(default_factory=list)
    """The values of the parts in the order of their numbers, to be drawn; empty if they can't be compared."""
    direction: str = ""
    """Whether a higher or a lower value of the history is better: `maximize` or `minimize`."""


def section(
    name: str, status: str, tasks: Iterable[ViewRow], attempts: Mapping[str, ViewRow]
) -> ReportSection:
    """Makes a section; its columns are all scalar results that any of its finished tasks has.

    A task with a true `early_stopped` is listed as such, whatever its end.
    """
    made = ReportSection(name, status, [])
    for task in tasks:
        attempt = attempts.get(task["task_id"])
        if task.get("early_stopped"):
            made.early_stopped.append(_finished(task, attempt))
        elif task["ending"] == "finished":
            made.finished.append(_finished(task, attempt))
        elif task["ending"] is not None:
            made.failed.append(_failed(task, attempt))
        else:
            made.open += 1
    with_cells = [*made.finished, *made.early_stopped]
    names = {name for row in with_cells for name in row.cells}
    first = [OBJECTIVE] if any(row.cells.get(OBJECTIVE) is not None for row in with_cells) else []
    made.columns = first + sorted(names - {OBJECTIVE})
    return made


def _finished(task: ViewRow, attempt: ViewRow | None) -> FinishedTask:
    result = task["result"] if isinstance(task["result"], dict) else {}
    cells = {name: value for name, value in result.items() if _is_scalar(value)}
    return FinishedTask(
        task["task_id"],
        task["name"] or task["task_id"],
        {OBJECTIVE: task["objective"], **cells} if task["objective"] is not None else cells,
        None if attempt is None else attempt["load_time_ms"],
        None if attempt is None else attempt["train_time_ms"],
        task["attempts"],
    )


def _failed(task: ViewRow, attempt: ViewRow | None) -> FailedTask:
    stage, message = None, task["unschedulable"] or ""
    if task["stop_reason"]:
        message = f"stopped: {task['stop_reason']}"
    if attempt is not None and attempt["error_type"]:
        stage, message = attempt["error_stage"], f"{attempt['error_type']}: {attempt['error_message']}"
    elif attempt is not None and attempt["exit_code"]:
        message = message or f"exit code {attempt['exit_code']}"
    name = task["name"] or task["task_id"]
    return FailedTask(task["task_id"], name, task["ending"], stage, message, task["attempts"])


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)
