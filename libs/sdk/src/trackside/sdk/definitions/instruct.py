"""Instructions from outside: gives one to a task, and waits until it is acknowledged."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from trackside.contracts.tasks.instructions import InstructionGiven, InstructTask
from trackside.domain.tasks.task import TaskState
from trackside.sdk.connection.log_client import LogClient
from trackside.sdk.errors import NotOverError


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What a task said of an instruction: its number, whether it was carried out, and in its own words."""

    number: int
    ok: bool
    detail: dict[str, Any]


def whole_task_id(stream_id: str, task_id: str) -> str:
    """Returns the id of a task, which may be given without its stream: `1.serve`, `.1.serve` or `7`."""
    return task_id if task_id.startswith(f"{stream_id}.") else f"{stream_id}.{task_id.removeprefix('.')}"


async def instruct(
    client: LogClient,
    stream_id: str,
    task_id: str,
    body: Mapping[str, Any],
    timeout_s: float,
    command_id: str | None = None,
) -> Acknowledgement:
    """Returns a task an instruction and returns its word on it, or on a later one that has replaced it.

    Raises RefusedError, and NotOverError if the task ends before or says nothing for so long.
    """
    task_id = whole_task_id(stream_id, task_id)
    command = InstructTask(task=task_id, body=dict(body))
    sent = await client.send(command, stream_id, timeout_s, command_id)
    try:
        async with asyncio.timeout(timeout_s):
            found = await _acknowledgement(client, stream_id, task_id, sent.command_id)
    except TimeoutError as error:
        text = f"{task_id} did not acknowledge the instruction within {timeout_s:g} s; it still gets it"
        raise NotOverError(text) from error
    if found is None:
        raise NotOverError(f"{task_id} has ended, and did not acknowledge the instruction")
    return found


async def _acknowledgement(
    client: LogClient, stream_id: str, task_id: str, command_id: str
) -> Acknowledgement | None:
    """Waits for the answer to the instruction of a command; None if its task ends without one."""
    number = 0
    async with aclosing(client.follow(stream_id)) as changes:
        async for record, stream in changes:
            message = record.message
            if isinstance(message, InstructionGiven) and message.command_id == command_id:
                number = message.number
            task = stream.tasks.get(task_id)
            if not number or task is None:
                continue
            if task.acknowledged >= number and task.acknowledgement is not None:
                return Acknowledgement(task.acknowledged, *task.acknowledgement)
            if task.state is TaskState.ENDED:
                return None
    return None
