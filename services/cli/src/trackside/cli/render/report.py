"""The report of a batch or a search: results in columns and failures with reasons, for each group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trackside.projections.reads import ViewRow

CellValue = str | float | int | bool | None
OBJECTIVE = "value"
"""The column of a task's objective; it comes before the columns of the results."""


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """A task that finished, with a cell for every result column of its group; times in ms."""

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


@dataclass(slots=True)
class ReportSection:
    """One group: its result columns, its tasks, and how many have not ended (`open`)."""

    name: str
    status: str
    columns: list[str]
    finished: list[FinishedTask] = field(default_factory=list)
    failed: list[FailedTask] = field(default_factory=list)
    open: int = 0


@dataclass(slots=True)
class StreamReport:
    """A batch or a search with the sections of its groups, in their order."""

    kind: str
    id: str
    name: str
    status: str
    started_at: datetime
    ended_at: datetime | None
    sections: list[ReportSection]


def of_batch(
    batch: ViewRow, groups: Sequence[ViewRow], tasks: Sequence[ViewRow], attempts: Mapping[str, ViewRow]
) -> StreamReport:
    """Makes the report of a batch: a section for each group."""
    by_group: dict[int, list[ViewRow]] = {row["group_number"]: [] for row in groups}
    for task in tasks:
        by_group[task["group_number"]].append(task)
    sections = []
    for row in groups:
        own = by_group[row["group_number"]]
        made = section(row["name"], row["status"], own, attempts)
        made.open += row["tasks"] - row["submitted"]
        sections.append(made)
    return _report("batch", batch["batch_id"], batch, sections)


def of_search(
    search: ViewRow, trials: Sequence[ViewRow], tasks: Sequence[ViewRow], attempts: Mapping[str, ViewRow]
) -> StreamReport:
    """Makes the report of a search: one section, whose rows have the trials' values and parameters too."""
    by_task = {trial["task_id"]: trial for trial in trials}
    known = [_as_trial(task, by_task[task["task_id"]]) for task in tasks if task["task_id"] in by_task]
    known.sort(key=lambda task: task["trial"])
    only = section("trials", search["status"], known, attempts)
    return _report("search", search["search_id"], search, [only])


def section(
    name: str, status: str, tasks: Iterable[ViewRow], attempts: Mapping[str, ViewRow]
) -> ReportSection:
    """Makes a section; its columns are all scalar results that any of its finished tasks has."""
    made = ReportSection(name, status, [])
    for task in tasks:
        attempt = attempts.get(task["task_id"])
        if task["ending"] == "finished":
            made.finished.append(_finished(task, attempt))
        elif task["ending"] is not None:
            made.failed.append(_failed(task, attempt))
        else:
            made.open += 1
    names = {name for row in made.finished for name in row.cells}
    first = [OBJECTIVE] if any(row.cells.get(OBJECTIVE) is not None for row in made.finished) else []
    made.columns = first + sorted(names - {OBJECTIVE})
    return made


def _report(kind: str, stream_id: str, row: ViewRow, sections: list[ReportSection]) -> StreamReport:
    return StreamReport(
        kind, stream_id, row["name"], row["status"], row["started_at"], row["ended_at"], sections
    )


def _as_trial(task: ViewRow, trial: ViewRow) -> ViewRow:
    own = {"name": f"trial {trial['trial']}", "objective": trial["value"], "trial": trial["trial"]}
    return {**task, **own, "result": {**trial["parameters"], **(task["result"] or {})}}


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
