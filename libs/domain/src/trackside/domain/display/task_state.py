"""Tasks as folded from the log: how they ended as text, and their fields as plain values."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from trackside.contracts.envelope.parts import number_of
from trackside.contracts.tasks.artifacts import CheckpointReference
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.text import Column, TextTable, duration
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Attempt, PastPlacement, Task, TaskState
from trackside.domain.tasks.task_instructions import is_ready

Fields = dict[str, Any]
MINUTE_S = 60
FINISHED = AttemptEnd.FINISHED.value


def short_name(task: Task, stream_id: str) -> str:
    """Returns a task's id without that of its stream."""
    return task.task_id.removeprefix(f"{stream_id}.")


def ends_text(ends: Iterable[tuple[str, int]]) -> str:
    """Returns counted ends as text: `38 finished, 2 failed`."""
    listed = sorted(ends, key=lambda end: (end[0] != FINISHED, end[0]))
    return ", ".join(f"{count} {name}" for name, count in listed) or "none ended"


def unfinished(stream: Stream, accepted: Collection[AttemptEnd]) -> list[Task]:
    """Returns the tasks that ended in a way that is not accepted, in the order of their submission."""
    return [task for task in stream.tasks.values() if task.end is not None and task.end not in accepted]


def why(task: Task) -> str:
    """Returns how a task ended, such as `failed in TRAIN: ValueError: no such file`."""
    how = "" if task.end is None else task.end.value
    error = task.attempt.error
    if error is not None:
        text = f"{error.type}: {error.message}".strip().splitlines()[0]
        return f"{how} in {error.stage}: {text}"
    if task.attempt.exit_code:
        return f"{how}: exit code {task.attempt.exit_code}"
    return f"{how}: {task.unschedulable}" if task.unschedulable else how


def service_state(task: Task, now_ms: int) -> str:
    """Returns the state of a service that has not ended: `ready`, `starting`, or `waiting 20 s`."""
    if is_ready(task):
        return "ready"
    if task.state is not TaskState.QUEUED:
        return "starting"
    left_s = math.ceil((task.not_before_ms - now_ms) / 1000)
    if left_s <= 0:
        return "waiting"
    return f"waiting {left_s} s" if left_s < MINUTE_S else f"waiting {duration(left_s)}"


def ended_task(task: Task) -> Fields:
    """Returns how a task ended, for programs."""
    error = task.attempt.error
    return {
        "task_id": task.task_id,
        "name": _name_of(task),
        "ending": None if task.end is None else task.end.value,
        "attempts": task.attempt.number,
        "stage": None if error is None else error.stage,
        "message": why(task),
    }


def task_fields(task: Task, parts: Iterable[str]) -> Fields:
    """Returns a task with its attempts; times are ms since 1970 by the log's clock.

    It has a field for each kind of `parts`: the number of that part, if the task is for one of this kind.
    """
    return {
        "state": task.state.value,
        "task_type": task.task_type,
        **{kind: number_of(task.part, kind) for kind in parts},
        "name": _name_of(task),
        "priority": task.needs.priority,
        "parameters": task.parameters,
        "reports": [list(report) for report in task.reports],
        "final": task.final,
        "checkpoints": [_checkpoint_text(each.reference) for each in task.checkpoints],
        "instruction": instruction_fields(task),
        "stop_reason": task.stop_reason,
        "unschedulable": task.unschedulable,
        "not_before_ms": task.not_before_ms or None,
        "due_ms": task.due_ms,
        "end": None if task.end is None else task.end.value,
        "ended_ms": task.ended_ms or None,
        "attempts": [_attempt_fields(attempt) for attempt in task.attempts],
    }


def instruction_fields(task: Task) -> Fields | None:
    """Returns the newest instruction of a task and what its newest placement says of it; None without one."""
    given = task.instruction
    if given is None:
        return None
    answered = task.acknowledged == given.number
    ok, detail = task.acknowledgement if answered and task.acknowledgement is not None else (None, None)
    return {
        "number": given.number,
        "body": given.body,
        "acknowledged": answered,
        "ok": ok,
        "detail": detail,
    }


def _checkpoint_text(checkpoint: CheckpointReference) -> str:
    """Returns a checkpoint in few words: `checkpoint@3, step 12`."""
    name = checkpoint.source.rpartition("/")[2] or checkpoint.uri
    return f"{name}, step {checkpoint.step}"


def _past_text(past: PastPlacement) -> str:
    """Returns how a placement ended: `1: preempted`, with the checkpoint that it had resumed from."""
    resumed = "" if past.resumed is None else f" (resumed from {_checkpoint_text(past.resumed)})"
    return f"{past.placement}: {past.end}{resumed}"


def _name_of(task: Task) -> str:
    return "" if task.part is None else task.part.name


def _attempt_fields(attempt: Attempt) -> Fields:
    error = attempt.error
    return {
        "attempt": attempt.number,
        "placement": attempt.placement,
        "status": attempt.status.name,
        "worker_id": attempt.worker_id,
        "started_by": attempt.incarnations[0] if attempt.incarnations else None,
        "adopted_by": list(attempt.incarnations[1:]),
        "device_ids": list(attempt.device_ids),
        "reserved_memory_bytes": attempt.reserved.memory_bytes,
        "reserved_cuda_memory_bytes": attempt.reserved.cuda_memory_bytes,
        "behind": attempt.behind,
        "stopping": None if attempt.stopping is None else attempt.stopping.value,
        "interrupts": dict(sorted(attempt.interrupts.items())),
        "given_up_placements": [_past_text(past) for past in attempt.past],
        "resumed_from": None if attempt.resumed is None else _checkpoint_text(attempt.resumed),
        "ready_ms": attempt.ready_ms or None,
        "ready": attempt.ready,
        "end": None if attempt.end is None else attempt.end.value,
        "error": None if error is None else f"{error.stage}: {error.type}: {error.message}",
        "exit_code": attempt.exit_code,
        "assigned_ms": attempt.assigned_ms or None,
        "accepted_ms": attempt.accepted_ms or None,
        "ended_ms": attempt.ended_ms or None,
    }


def summary_of(task: Fields) -> list[Any]:
    """Returns the state or end of a task, its number of attempts, and the device of the newest."""
    attempt = task["attempts"][-1]
    where = f"{attempt['worker_id']}/{','.join(attempt['device_ids'])}" if attempt["worker_id"] else ""
    return [task["end"] or task["state"], len(task["attempts"]), where]


def fields_table(tasks: Mapping[str, Fields]) -> TextTable:
    """Returns the table of tasks, given as `task_fields` returns them, by their ids."""
    columns = [Column("task", keep=True), Column("type"), Column("task is"), Column("tries", right=True)]
    columns += [Column("where"), Column("reports", right=True), Column("error")]
    rows = []
    for name, task in tasks.items():
        error = task["attempts"][-1]["error"] or task["unschedulable"]
        rows.append([name, task["task_type"], *summary_of(task), len(task["reports"]), error])
    return TextTable(columns, rows)
