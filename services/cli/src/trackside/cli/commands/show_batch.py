"""Shows batches and tasks from the read models: groups, tasks, attempts, placements, memory."""

from collections.abc import Mapping
from typing import Any

from trackside.cli.commands import estimates as estimating
from trackside.cli.render import batch_board, screen
from trackside.cli.render.screen import Column
from trackside.contracts.memory import shown
from trackside.projections.reads import ReadModels, ViewRow, json_row


async def show_batch(models: ReadModels, batch: ViewRow, as_json: bool) -> None:
    """Prints a batch: its groups, each task with its device and its end, and what went wrong."""
    batch_id = batch["batch_id"]
    groups = await models.rows("groups", batch_id)
    tasks = in_order(batch, await models.rows("tasks", batch_id))
    attempts = {row["task_id"]: row for row in await models.rows("last_attempts", batch_id)}
    if as_json:
        commands = await models.rows("commands", batch_id)
        listed: dict[str, Any] = {
            "groups": [json_row(row) for row in groups],
            "tasks": [json_row(row | _newest(attempts.get(row["task_id"]))) for row in tasks],
            "commands": [json_row(row) for row in commands],
        }
        screen.emit(json_row(batch) | listed)
        return
    screen.show_table([Column(""), Column("", keep=True)], _facts(batch))
    screen.say("")
    _show_groups(groups)
    screen.say("")
    _show_tasks(tasks, attempts, batch_id)


async def show_task(models: ReadModels, task: ViewRow, as_json: bool) -> None:
    """Prints a task: its requirements, its attempts with their errors, its placements."""
    attempts = await models.rows("attempts", task["task_id"])
    placements = await models.rows("placements", task["task_id"])
    if as_json:
        listed = {
            "attempts": [json_row(row) for row in attempts],
            "placements": [json_row(row) for row in placements],
        }
        screen.emit(json_row(task) | listed)
        return
    named = ("task_id", "stream_id", "task_type", "state", "ending", "objective", "result", "unschedulable")
    facts = [(name, task[name]) for name in named if name != "unschedulable" or task[name]]
    learned = estimating.learned_of(await models.row("task_type", task["task_type"]))
    facts += [("asks for", _asked(task)), *([("learned of its type", learned)] if learned else [])]
    screen.show_table([Column(""), Column("", keep=True)], facts)
    screen.say("")
    _show_attempts(attempts)
    if len(placements) > len(attempts):
        screen.say("")
        _show_placements(placements)
    for row in attempts:
        if row["leftovers"]:
            screen.say(f"\nattempt {row['attempt']} left behind: {', '.join(row['leftovers'])}")
        if row["error_type"]:
            where = f"attempt {row['attempt']}, {row['error_stage']}"
            screen.say(f"\n{where}: {row['error_type']}: {row['error_message']}")
            screen.say(row["error_traceback"] or "")


def in_order(batch: ViewRow, tasks: list[ViewRow]) -> list[ViewRow]:
    """Returns the tasks of a batch in the order of its spec."""
    places = {
        (number, task.get("name") or str(at)): at
        for number, group in enumerate(batch["spec"]["groups"], 1)
        for at, task in enumerate(group["tasks"], 1)
    }
    return sorted(tasks, key=lambda row: (row["group_number"], places[row["group_number"], row["name"]]))


def device_of(row: ViewRow) -> str:
    """Returns the devices of a row with their worker's id: `w1/gpu-0,gpu-1`."""
    return "/".join(part for part in (row["worker_id"], ",".join(row["device_ids"])) if part)


def state_of(task: ViewRow, attempt: ViewRow | None) -> str:
    """Returns the state of a task for people: its phase while it runs, `unschedulable` where it is."""
    if task["state"] == "active" and attempt is not None:
        return str(attempt["status"])
    return "unschedulable" if task["state"] == "queued" and task["unschedulable"] else str(task["state"])


def error_of(attempt: ViewRow | None) -> str:
    """Returns the error of an attempt as a line, empty without one."""
    if attempt is None or not attempt["error_type"]:
        return ""
    text = f"{attempt['error_type']}: {attempt['error_message']}".strip()
    return f"{attempt['error_stage']}: {text.splitlines()[0]}"


def _newest(attempt: ViewRow | None) -> ViewRow:
    names = (
        "status",
        "load_time_ms",
        "train_time_ms",
        "exit_code",
        "error_stage",
        "error_type",
        "error_message",
    )
    return {name: None if attempt is None else attempt[name] for name in names}


def _facts(batch: ViewRow) -> list[tuple[str, object]]:
    ended = batch["finished_tasks"] + batch["unfinished_tasks"]
    reason = f" ({batch['stop_reason']})" if batch["stop_reason"] else ""
    tasks = f"{ended} ended of {batch['tasks']}, {batch['open_tasks']} open"
    if batch["unfinished_tasks"]:
        tasks += f"; {batch['unfinished_tasks']} did not finish"
    return [
        ("batch", batch["batch_id"]),
        ("name", batch["name"]),
        ("status", f"{batch['status']}{reason}"),
        ("tasks", tasks),
        ("groups", f"{batch['groups_over']} over of {batch['groups']}"),
        ("queue", f"{batch['queue']}, at most {batch['concurrency']} at once"),
        ("started", batch["started_at"]),
        ("ended", batch["ended_at"]),
    ]


def _show_groups(groups: list[ViewRow]) -> None:
    columns = [
        Column("group", right=True),
        Column("name"),
        Column("status"),
        Column("device", optional=True),
        Column("ended", right=True),
        Column("how", keep=True),
        Column("took", right=True),
    ]
    screen.show_table(columns, [_group_cells(row) for row in groups])


def _group_cells(row: ViewRow) -> list[object]:
    ends: Mapping[str, int] = row["ends"]
    over = row["started_at"] is not None and row["ended_at"] is not None
    took = (row["ended_at"] - row["started_at"]).total_seconds() if over else None
    return [
        row["group_number"],
        row["name"],
        row["status"],
        row["device"],
        f"{sum(ends.values())}/{row['tasks']}",
        batch_board.ends_text(ends.items()) if ends else None,
        screen.duration(took),
    ]


def _show_tasks(tasks: list[ViewRow], attempts: Mapping[str, ViewRow], batch_id: str) -> None:
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
    cells = []
    for task in tasks:
        attempt = attempts.get(task["task_id"])
        cells.append(
            [
                task["task_id"].removeprefix(f"{batch_id}."),
                task["task_type"],
                state_of(task, attempt),
                device_of(task),
                task["attempts"],
                task["ending"],
                task["objective"],
                error_of(attempt) or task["unschedulable"],
            ]
        )
    screen.show_table(columns, cells)


def _asked(task: ViewRow) -> str:
    parts = [f"{task['devices']} x {task['kind']}" if task["devices"] > 1 else str(task["kind"])]
    parts += [f"device {task['fixed_device']}"] if task["fixed_device"] else []
    parts += ["the whole device"] if task["whole_device"] else []
    for name, words in (("estimate_memory_bytes", "memory"), ("estimate_cuda_memory_bytes", "CUDA memory")):
        parts += [f"{shown(task[name])} {words}"] if task[name] else []
    parts.append(f"priority {task['priority']} in queue {task['queue']}")
    for name, words in (("queue_timeout_s", "to wait"), ("run_timeout_s", "to run")):
        parts += [f"at most {screen.duration(task[name])} {words}"] if task[name] else []
    return ", ".join(parts)


def _show_attempts(attempts: list[ViewRow]) -> None:
    columns = [
        Column("attempt", right=True),
        Column("device", keep=True),
        Column("status"),
        Column("end"),
        Column("assigned", optional=True),
        Column("load ms", right=True),
        Column("train ms", right=True),
        Column("exit", right=True),
    ]
    names = ("status", "ending", "assigned_at", "load_time_ms", "train_time_ms", "exit_code")
    screen.show_table(
        columns, [[row["attempt"], device_of(row), *(row[name] for name in names)] for row in attempts]
    )
    measured = [row for row in attempts if _has_memory(row)]
    if not measured:
        return
    columns = [
        Column("attempt", right=True),
        Column("memory", right=True),
        Column("reserved", right=True),
        Column("CUDA memory", right=True),
        Column("reserved", right=True),
        Column("estimated by", optional=True),
        Column("interrupts", right=True),
    ]
    screen.say("")
    screen.show_table(columns, [_memory_cells(row) for row in measured])


def _has_memory(row: ViewRow) -> bool:
    names = ("reserved_memory_bytes", "reserved_cuda_memory_bytes", "peak_memory_bytes", "interrupts")
    return any(row[name] for name in names)


def _memory_cells(row: ViewRow) -> list[object]:
    names = (
        "peak_memory_bytes",
        "reserved_memory_bytes",
        "peak_cuda_memory_bytes",
        "reserved_cuda_memory_bytes",
    )
    sizes = [shown(row[name]) if row[name] else None for name in names]
    return [row["attempt"], *sizes, row["estimated_by"], row["interrupts"]]


def _show_placements(placements: list[ViewRow]) -> None:
    columns = [
        Column("placement"),
        Column("device", keep=True),
        Column("end"),
        Column("assigned", optional=True),
        Column("why", keep=True),
    ]
    cells = [
        [
            f"{row['attempt']}.{row['placement']}",
            device_of(row),
            row["ending"],
            row["assigned_at"],
            ": ".join(part for part in (row["code"], row["message"]) if part),
        ]
        for row in placements
    ]
    screen.show_table(columns, cells)
