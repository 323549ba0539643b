"""Shows a task: from the read models, and which checkpoints are kept, which only the log has."""

from trackside.cli.commands import estimates as estimating
from trackside.cli.commands import task_now
from trackside.cli.render import screen
from trackside.contracts.envelope.memory import shown
from trackside.contracts.tasks.artifacts import CHECKPOINT
from trackside.domain.display.redacted import redacted_note
from trackside.domain.display.task_rows import device_of
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import Column, duration
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.reads import ReadModels, json_row

SHOWN_ARTIFACTS = 30
"""How many artifacts of a task are printed, the last ones; JSON has all."""


async def show_task(models: ReadModels, task: ViewRow, as_json: bool) -> None:
    """Prints a task: its requirements, its attempts with their errors, its placements."""
    attempts = await models.rows("attempts", task["task_id"])
    placements = await models.rows("placements", task["task_id"])
    artifacts = await models.rows("artifacts_of_task", task["task_id"], task["stream_id"])
    kept = await _kept_checkpoints(task, artifacts)
    if as_json:
        listed = {
            "attempts": [json_row(row) for row in attempts],
            "placements": [json_row(row) for row in placements],
            "artifacts": [json_row(row) for row in artifacts],
        }
        screen.emit(json_row(task) | {"kept_checkpoints": kept} | listed)
        return
    learned = estimating.learned_of(await models.row("task_type", task["task_type"]))
    facts = [*_facts(task), *([("learned of its type", learned)] if learned else [])]
    facts += [*task_now.checkpoint_facts(kept or ()), *task_now.service_facts(task)]
    screen.show_table([Column(""), Column("", keep=True)], facts)
    screen.say("")
    _show_attempts(attempts)
    _show_adoptions([row for row in attempts if row["adopted_by"]])
    if len(placements) > len(attempts):
        screen.say("")
        _show_placements(placements)
    for line in task_now.resumed_lines(task, placements):
        screen.say(line)
    if artifacts:
        screen.say("")
        _show_artifacts(artifacts)
    for row in attempts:
        if row["leftovers"]:
            screen.say(f"\nattempt {row['attempt']} left behind: {', '.join(row['leftovers'])}")
        if row["error_type"]:
            where = f"attempt {row['attempt']}, {row['error_stage']}"
            screen.say(f"\n{where}: {row['error_type']}: {row['error_message']}")
            screen.say(row["error_traceback"] or "")


async def _kept_checkpoints(task: ViewRow, artifacts: list[ViewRow]) -> list[Fields] | None:
    """Returns the checkpoints of a task that are kept; None if the log, which has them, can't be read."""
    if not any(row["kind"] == CHECKPOINT for row in artifacts):
        return []
    read = await task_now.read(task["stream_id"], task["task_id"])
    if read is None:
        screen.complain("the log was not read: kept checkpoints are not shown")
        return None
    return task_now.kept_checkpoints(read, artifacts)


def _facts(task: ViewRow) -> list[tuple[str, object]]:
    named = ("task_id", "stream_id", "task_type", "state", "ending", "objective")
    facts = [(name, task[name]) for name in named]
    facts.append(("result", task_now.result_text(task["result"])))
    facts += [("redacted", note)] if (note := redacted_note(task["result"])) else []
    facts += [("unschedulable", task["unschedulable"])] if task["unschedulable"] else []
    return [*facts, ("asks for", _asked(task))]


def _asked(task: ViewRow) -> str:
    parts = [f"{task['devices']} x {task['kind']}" if task["devices"] > 1 else str(task["kind"])]
    parts += [f"device {task['fixed_device']}"] if task["fixed_device"] else []
    parts += ["the whole device"] if task["whole_device"] else []
    for name, words in (("estimate_memory_bytes", "memory"), ("estimate_cuda_memory_bytes", "CUDA memory")):
        parts += [f"{shown(task[name])} {words}"] if task[name] else []
    parts.append(f"priority {task['priority']} in queue {task['queue']}")
    for name, words in (("queue_timeout_s", "to wait"), ("run_timeout_s", "to run")):
        parts += [f"at most {duration(task[name])} {words}"] if task[name] else []
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


def _show_adoptions(adopted: list[ViewRow]) -> None:
    """Prints which incarnation of its worker started an attempt, and which has it now or had it last."""
    if not adopted:
        return
    columns = [
        Column("attempt", right=True),
        Column("adoptions", right=True, optional=True),
        Column("started by", keep=True),
        Column("adopted by", keep=True),
    ]
    screen.say("")
    screen.show_table(
        columns,
        [
            [row["attempt"], len(row["adopted_by"]), row["started_by"], row["adopted_by"][-1]]
            for row in adopted
        ],
    )


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


def _show_artifacts(artifacts: list[ViewRow]) -> None:
    columns = [
        Column("artifact", keep=True),
        Column("kind"),
        Column("size", right=True),
        Column("step", right=True),
        Column("attempt", right=True),
        Column("forgotten", optional=True),
    ]
    cells = [
        [
            f"{row['name']}@{row['version']}",
            row["kind"],
            shown(row["size_bytes"]),
            row["step"],
            row["attempt"],
            row["forgotten_at"],
        ]
        for row in artifacts[-SHOWN_ARTIFACTS:]
    ]
    screen.show_table(columns, cells)
    if len(artifacts) > SHOWN_ARTIFACTS:
        screen.say(f"and {len(artifacts) - SHOWN_ARTIFACTS} before; --json has all")
