"""Tasks as the read models have them: their state, device and error as text, and their table."""

from collections.abc import Iterable, Mapping

from trackside.domain.display.redacted import redacted_note
from trackside.domain.display.text import Column, TextTable
from trackside.domain.rows.table import ViewRow


def by_task(attempts: Iterable[ViewRow]) -> dict[str, ViewRow]:
    """Returns the newest attempt of each task, by the id of the task."""
    return {row["task_id"]: row for row in attempts}


def device_of(row: ViewRow) -> str:
    """Returns the devices of a row with their worker's id: `w1/gpu-0,gpu-1`."""
    return "/".join(part for part in (row["worker_id"], ",".join(row["device_ids"])) if part)


def state_of(task: ViewRow, attempt: ViewRow | None) -> str:
    """Returns the state of a task for people: its phase while it runs, `unschedulable` where it is.

    A service that is open waits for its next attempt, starts, or is ready.
    """
    if task["service"] and task["state"] != "ended" and not task["unschedulable"]:
        return "ready" if task["ready_at"] else "waiting" if task["state"] == "queued" else "starting"
    if task["state"] == "active" and attempt is not None:
        return str(attempt["status"])
    return "unschedulable" if task["state"] == "queued" and task["unschedulable"] else str(task["state"])


def error_of(attempt: ViewRow | None) -> str:
    """Returns the error of an attempt as a line, empty without one."""
    if attempt is None or not attempt["error_type"]:
        return ""
    text = f"{attempt['error_type']}: {attempt['error_message']}".strip()
    return f"{attempt['error_stage']}: {text.splitlines()[0]}"


def with_newest_attempt(task: ViewRow, attempts: Mapping[str, ViewRow]) -> ViewRow:
    """Returns a task with what its newest attempt measured and how it failed, for programs."""
    names = (
        "status",
        "load_time_ms",
        "train_time_ms",
        "exit_code",
        "error_stage",
        "error_type",
        "error_message",
    )
    attempt = attempts.get(task["task_id"])
    return task | {name: None if attempt is None else attempt[name] for name in names}


def task_table(tasks: Iterable[ViewRow], attempts: Mapping[str, ViewRow], stream_id: str) -> TextTable:
    """Returns the table of a stream's tasks: the state of each, its device, its end, and what failed."""
    columns = [
        Column("task", keep=True),
        Column("type", optional=True),
        Column("state"),
        Column("device"),
        Column("attempt", right=True, optional=True),
        Column("end"),
        Column("value", right=True),
        Column("why", keep=True),
    ]
    rows = []
    for task in tasks:
        attempt = attempts.get(task["task_id"])
        rows.append(
            [
                task["task_id"].removeprefix(f"{stream_id}."),
                task["task_type"],
                state_of(task, attempt),
                device_of(task),
                task["attempts"],
                task["ending"],
                task["objective"],
                error_of(attempt) or task["unschedulable"] or redacted_note(task["result"]),
            ]
        )
    return TextTable(columns, rows)
