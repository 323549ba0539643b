"""What the log says of a task and the read models don't: kept checkpoints, readiness, its instruction."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed
from trackside.contracts.artifacts import CHECKPOINT
from trackside.contracts.codec import UndecodableError
from trackside.contracts.instructions import InstructTask
from trackside.contracts.memory import shown
from trackside.domain.display.task_state import Fields, instruction_fields
from trackside.domain.fold import UnsupportedRulesError
from trackside.domain.table import ViewRow
from trackside.domain.task import Task, TaskState
from trackside.eventlog.clock import rfc3339
from trackside.eventlog.errors import OffsetGoneError, TransientError
from trackside.sdk.async_client import AsyncClient
from trackside.sdk.errors import ClientError

LIMIT_S = 5.0
"""How long the log is read: a task is shown without what it says if that takes longer."""
UNKNOWN: Fields = {"kept_checkpoints": None, "service": None, "instruction": None}
"""The fields of a task whose log could not be read."""
NOTHING: Fields = {**UNKNOWN, "kept_checkpoints": []}
"""The fields of a task that never saved a checkpoint, is no service, and got no instruction."""
MAX_TEXT = 200
"""How many characters of an instruction and of what a task says are shown; JSON has all."""


def is_worth_reading(
    spec: Mapping[str, Any] | None, artifacts: Sequence[ViewRow], commands: Sequence[ViewRow]
) -> bool:
    """Says whether the log may have more of a task, given the spec of its stream and rows.

    It has if the task saved checkpoints, or if its stream was sent instructions or has a service.
    """
    if any(row["kind"] == CHECKPOINT for row in artifacts):
        return True
    if any(row["command_type"] == InstructTask.wire_type() for row in commands):
        return True
    groups = (spec or {}).get("groups", ())
    tasks = (task for group in groups for task in group.get("tasks", ()))
    return any(each.get("service") is not None for each in (spec or {}, *tasks))


async def read(stream_id: str, task_id: str) -> Task | None:
    """Returns a task as it is in the log now; None if that can't be read within 5 s, or has no such task."""
    addresses = Addresses()
    try:
        async with (
            asyncio.timeout(LIMIT_S),
            AsyncClient(addresses.bootstrap, addresses.prefix, name="cli") as client,
        ):
            return await task_in(client, stream_id, task_id)
    except (
        CommandFailed,
        ClientError,
        TransientError,
        OffsetGoneError,
        UndecodableError,
        UnsupportedRulesError,
        TimeoutError,
    ):
        return None


async def task_in(client: AsyncClient, stream_id: str, task_id: str) -> Task | None:
    """Returns a task of a stream as it is in the log now; None if there is none."""
    stream = await client.state(stream_id)
    return None if stream is None else stream.tasks.get(task_id)


def fields_of(task: Task, artifacts: Sequence[ViewRow]) -> Fields:
    """Returns what the log says of a task, for programs; `artifacts`: the rows of what it has saved."""
    attempt_of = {row["source"]: row["attempt"] for row in artifacts}
    kept = [
        {
            "artifact": each.reference.source,
            "step": each.reference.step,
            "size_bytes": each.reference.size_bytes,
            "attempt": attempt_of.get(each.reference.source),
        }
        for each in task.checkpoints
    ]
    service = None if task.needs.service is None else _service(task)
    return {"kept_checkpoints": kept, "service": service, "instruction": instruction_fields(task)}


def _service(task: Task) -> Fields:
    attempt = task.attempt
    is_ready = task.state is TaskState.ACTIVE and attempt.ready_ms > 0
    return {
        "ready_since": rfc3339(attempt.ready_ms) if is_ready else None,
        "ready": attempt.ready if is_ready else None,
        "restarts": attempt.number - 1,
    }


def facts_of(fields: Fields) -> list[tuple[str, str]]:
    """Returns the same for people, as names and texts; nothing of what there is nothing to say of."""
    kept, service, instruction = fields["kept_checkpoints"], fields["service"], fields["instruction"]
    facts = [("kept checkpoints", ", ".join(map(_checkpoint_text, kept)))] if kept else []
    if service is not None:
        since = service["ready_since"]
        detail = f": {_json(service['ready'])}" if service["ready"] else ""
        facts += [("ready", "no" if since is None else f"since {since}{detail}")]
        facts += [("restarts", str(service["restarts"]))]
    if instruction is not None:
        body = f"{instruction['number']}: {_json(instruction['body'])}"
        facts += [("instruction", body), ("acknowledged", _said(instruction))]
    return facts


def _checkpoint_text(kept: Fields) -> str:
    name, attempt = kept["artifact"].rpartition("/")[2], kept["attempt"]
    of = "" if attempt is None else f", attempt {attempt}"
    return f"{name} (step {kept['step']}, {shown(kept['size_bytes'])}{of})"


def _said(instruction: Fields) -> str:
    if not instruction["acknowledged"]:
        return "no"
    done = "carried out" if instruction["ok"] else "not carried out"
    detail = instruction["detail"]
    return f"{done}: {_json(detail)}" if detail else done


def _json(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


def result_text(result: Mapping[str, Any] | None) -> object:
    """Returns a result for people: one too large for the log as the artifact that it became."""
    if result is None or result.keys() != {"artifact", "sha256", "size_bytes"}:
        return result
    size = result["size_bytes"]
    return f"artifact {result['artifact']}, {shown(size)}" if isinstance(size, int) else result


def resumed_lines(task: ViewRow, placements: Sequence[ViewRow]) -> list[str]:
    """Returns which placements resumed at which step, and from which checkpoint, as lines."""
    own = f"{task['stream_id']}/{task['task_id']}/"
    attempts = [row["attempt"] for row in placements]
    lines = []
    for row in placements:
        if row["resumed_step"] is None:
            continue
        again = attempts.count(row["attempt"]) > 1
        which = f"placement {row['attempt']}.{row['placement']}" if again else f"attempt {row['attempt']}"
        source = str(row["resumed_from"]).removeprefix(own)
        lines.append(f"{which} resumed at step {row['resumed_step']} from {source}")
    return lines
