"""A worker that runs tasks of datasets, and what they say."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.integration.worker.given import started, task_of
from tests.integration.worker.harness import WorkerHarness
from trackside.aggregates.dataset.messages import DatasetEnd
from trackside.contracts.envelope.message import Message
from trackside.contracts.fleet.fleet import WATCH_DATASET, WRITE_MANIFEST
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.instructions import InstructionAcknowledged, TaskReady

NOTHING = DatasetEnd()


@asynccontextmanager
async def dataset_worker(folder: Path, **settings: Any) -> AsyncIterator[WorkerHarness]:
    """Runs a worker whose catalogue has nothing of datasets."""
    async with started(folder, task_of(folder), **settings) as harness:
        yield harness


async def watch(
    harness: WorkerHarness, parameters: dict[str, Any], told: DatasetEnd = NOTHING, **more: Any
) -> RunTask:
    """Starts a watcher, and tells it how far its dataset was observed once it is ready."""
    task_id = more.pop("task_id", "a")
    more = {"task_type": WATCH_DATASET, "service": True, "device_ids": [], "device": "host", **more}
    command = await harness.run(task_id, parameters, **more)
    await harness.events(task_id, lambda all_: bool(said(all_, command)))
    await harness.instruct(command, 1, device="host", end=told.model_dump(mode="json"))
    return command


def said(messages: list[Message], command: RunTask) -> list[TaskReady]:
    """Returns what the watcher of a placement has said."""
    token = (command.attempt, command.placement)
    ready = [each for each in messages if isinstance(each, TaskReady)]
    return [each for each in ready if (each.attempt, each.placement) == token]


async def seen_up_to(harness: WorkerHarness, command: RunTask, lines: int) -> DatasetEnd:
    """Waits until a watcher has seen so many samples; returns how far it has come."""

    def ends(messages: list[Message]) -> list[DatasetEnd]:
        details = [each.detail for each in said(messages, command)]
        return [DatasetEnd.model_validate(each["end"]) for each in details if "end" in each]

    def enough(messages: list[Message]) -> bool:
        return any(end.lines >= lines for end in ends(messages))

    messages = await harness.events(command.task_id, enough)
    return ends(messages)[-1]


async def problem(harness: WorkerHarness, command: RunTask) -> dict[str, Any]:
    """Waits until a watcher says what is wrong; returns that."""

    def problems(messages: list[Message]) -> list[dict[str, Any]]:
        return [each.detail["problem"] for each in said(messages, command) if "problem" in each.detail]

    messages = await harness.events(command.task_id, lambda all_: bool(problems(all_)))
    return problems(messages)[0]


async def acknowledged(harness: WorkerHarness, nth: int = 1, task_id: str = "a") -> InstructionAcknowledged:
    """Waits for the nth answer of a watcher to what it was told."""
    return await harness.event(InstructionAcknowledged, task_id, nth)


async def write_manifest(harness: WorkerHarness, parameters: dict[str, Any], task_id: str = "m") -> RunTask:
    """Starts the task that writes a manifest."""
    return await harness.run(task_id, parameters, task_type=WRITE_MANIFEST, device_ids=[], device="host")
