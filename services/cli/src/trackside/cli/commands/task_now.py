"""What is shown of a task: kept checkpoints, which only the log has, readiness, its newest instruction."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed
from trackside.contracts.envelope.memory import shown
from trackside.contracts.wire.codec import UndecodableError
from trackside.domain.display.task_state import Fields
from trackside.domain.rows.table import ViewRow
from trackside.domain.tasks.task import Task
from trackside.eventlog.errors import OffsetGoneError, TransientError
from trackside.sdk.errors import ClientError

if TYPE_CHECKING:
    from trackside.sdk.async_client import AsyncClient

LIMIT_S = 5.0
"""How long the log is read: a task is shown without what it says if that takes longer."""
MAX_TEXT = 200
"""How many characters of an instruction and of what a task says are shown; JSON has all."""


async def read(stream_id: str, task_id: str) -> Task | None:
    """Returns a task as it is in the log now; None if that can't be read within 5 s, or has no such task."""
    from trackside.sdk.async_client import AsyncClient  # what shows no checkpoints starts without it

    addresses = Addresses()
    try:
        async with (
            asyncio.timeout(LIMIT_S),
            AsyncClient(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client,
        ):
            return await task_in(client, stream_id, task_id)
    except (
        CommandFailed,
        ClientError,
        TransientError,
        OffsetGoneError,
        UndecodableError,
        TimeoutError,
    ):
        return None


async def task_in(client: "AsyncClient", stream_id: str, task_id: str) -> Task | None:
    """Returns a task of a stream as it is in the log now; None if there is none."""
    stream = await client.state(stream_id)
    return None if stream is None else stream.tasks.get(task_id)


def kept_checkpoints(task: Task, artifacts: Sequence[ViewRow]) -> list[Fields]:
    """Returns the checkpoints of a task that are kept; `artifacts`: the rows of what it has saved."""
    attempt_of = {row["source"]: row["attempt"] for row in artifacts}
    return [
        {
            "artifact": each.reference.source,
            "step": each.reference.step,
            "size_bytes": each.reference.size_bytes,
            "attempt": attempt_of.get(each.reference.source),
        }
        for each in task.checkpoints
    ]


def checkpoint_facts(kept: Sequence[Fields]) -> list[tuple[str, str]]:
    """Returns the kept checkpoints for people, as a name and a text; nothing if there are none."""
    return [("kept checkpoints", ", ".join(map(_checkpoint_text, kept)))] if kept else []


def service_facts(task: ViewRow) -> list[tuple[str, str]]:
    """Returns whether a service is ready, how often it was tried again, and its instruction, from its row.

    Any task has an instruction, if it was given one; there is nothing to say of others.
    """
    facts = []
    if task["service"]:
        since = task["ready_at"]
        detail = f": {_json(task['ready'])}" if task["ready"] else ""
        later = task["state"] == "queued" and task["not_before"] is not None
        waits = f", waits until {screen.cell(task['not_before'])}" if later else ""
        facts += [("ready", f"no{waits}" if since is None else f"since {screen.cell(since)}{detail}")]
        facts += [("restarts", str(task["attempts"] - 1))]
    if task["instruction_number"] is not None:
        body = f"{task['instruction_number']}: {_json(task['instruction_body'])}"
        facts += [("instruction", body), ("acknowledged", _said(task))]
    return facts


def _checkpoint_text(kept: Fields) -> str:
    name, attempt = kept["artifact"].rpartition("/")[2], kept["attempt"]
    of = "" if attempt is None else f", attempt {attempt}"
    return f"{name} (step {kept['step']}, {shown(kept['size_bytes'])}{of})"


def _said(task: ViewRow) -> str:
    if task["acknowledged_number"] != task["instruction_number"]:
        return "no"
    done = "carried out" if task["acknowledged_ok"] else "not carried out"
    detail = task["acknowledged_detail"]
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
