"""A worker and a warm process hold after many tasks what they have held after a few."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.growth import Held, assert_keeps_nothing, counted_from_here, held_here
from tests.integration.worker.given import TaskType, catalogue_of
from tests.integration.worker.harness import WorkerHarness, running, settings_for
from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded
from trackside.eventlog.log import Entry
from trackside.eventlog.memory import MemoryLog
from trackside.worker.placements import fencing

SCRIPT = """
import gc, os, threading
from trackside.sdk import Task, trial
class Counted(Task):
    def train(self, device):
        trial.report(1.0)
        trial.log(loss=1.0)
        gc.collect()
        print("counted")
        held = len(gc.get_objects()), len(os.listdir("/proc/self/fd")), threading.active_count()
        return {"held": held}
"""
KINDS = {
    "warm": TaskType(SCRIPT, "entry: 'script:Counted', runner: warm, max_tasks: 1000000"),
    "process": TaskType(SCRIPT, "entry: 'script:Counted'"),
    "program": TaskType("say(report=1.0, step=0)\n"),
}
DEVICES = {"warm": "cpu-0", "process": "cpu-1", "program": "cpu-1"}
"""A warm process ends when a task of another type gets its device."""
AT_ONCE = 10


class ForgettingLog(MemoryLog):
    """A log in memory that can drop what everybody has read: it is not what is counted."""

    def forget(self) -> None:
        """Drops all entries there are."""
        forgotten = Entry("", 0, -1, 0, None, None, [])
        for entries in self._entries.values():
            entries[:] = [forgotten] * len(entries)


class Runs:
    """Runs of tasks, and what the worker, in this process, and its warm process hold after them."""

    def __init__(self, log: ForgettingLog, harness: WorkerHarness, incarnation: str) -> None:
        self._log, self._harness, self._incarnation = log, harness, incarnation
        self._number = 0
        self._in_warm = Held()

    async def run(self, kinds: tuple[str, ...], count: int) -> None:
        """Runs so many tasks of each kind."""
        for _ in range(0, count, AT_ONCE):
            ends = await self._log.ends(self._harness.topics.events.name)
            names = [f"{kind}-{self._number + at}" for kind in kinds for at in range(AT_ONCE)]
            self._number += AT_ONCE
            for name in names:
                kind = name.partition("-")[0]
                placed: Any = {"device": DEVICES[kind], "wait": True, "incarnation": self._incarnation}
                await self._harness.run(name, task_type=kind, **placed)
            await self._until_ended(set(names), ends)
            self._log.forget()

    async def _until_ended(self, names: set[str], starts: Mapping[int, int]) -> None:
        topic = self._harness.topics.events.name
        reader = self._log.reader({(topic, partition): start for partition, start in starts.items()})
        while names:
            for entry in await reader.read(1.0):
                message = CODEC.decode(CODEC.envelope(entry.headers), entry.value)
                if isinstance(message, AttemptEnded):
                    assert message.end is AttemptEnd.FINISHED and message.result is not None, message
                    names.discard(message.task_id)
                    if message.task_id.startswith("warm"):
                        objects, descriptors, threads = message.result["held"]
                        self._in_warm = Held({"object": objects}, descriptors, threads)

    async def held(self, folder: Path) -> dict[str, Held]:
        """Counts what the worker and its warm process hold."""
        self._log.forget()
        return {"worker": held_here(folder), "warm process": self._in_warm}


@asynccontextmanager
async def counted_runs(folder: Path) -> AsyncIterator[Runs]:
    """Yields runs of a worker, without what was in this process before."""
    topics, log = Topics("t."), ForgettingLog()
    await log.ensure(topics.shared)
    catalogue = catalogue_of(folder, KINDS)
    with counted_from_here():
        async with running(log, topics, settings_for(folder / "worker", catalogue=catalogue)) as harness:
            yield Runs(log, harness, (await harness.joined()).incarnation)


async def assert_equal(folder: Path, kinds: tuple[str, ...], first: int, last: int) -> None:
    async with counted_runs(folder) as runs:
        run: Callable[[int], Awaitable[None]] = partial(runs.run, kinds)
        await assert_keeps_nothing(run, partial(runs.held, folder / "worker"), first, last)


async def test_a_worker_and_a_warm_process_keep_nothing_of_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencing, "REMEMBERED_ANSWERS", 10)
    await assert_equal(tmp_path, ("warm", "process"), 20, 80)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kind", ["warm", "process"])
async def test_a_worker_holds_after_3000_tasks_what_it_has_held_after_1000(tmp_path: Path, kind: str) -> None:
    await assert_equal(tmp_path, (kind,), 1_000, 3_000)


@pytest.mark.long
async def test_a_worker_keeps_nothing_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing, "REMEMBERED_ANSWERS", 100)
    await assert_equal(tmp_path, ("program",), 100, 300)
