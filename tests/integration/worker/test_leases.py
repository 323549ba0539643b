"""A task that is exclusive ends before the lease of a log that does not answer, and not while it does."""

import asyncio
from pathlib import Path

import pytest

from tests.integration.worker.given import worker_with
from tests.integration.worker.harness import Gate, WorkerHarness, running, scripted_settings
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.tasks import AttemptEnd, TaskReturned
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog


class LogWithoutHeartbeats(MemoryLog):
    """A log that takes no heartbeats while it is silent."""

    silent = False

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends a record, or doesn't answer."""
        if self.silent and topic.endswith("heartbeats"):
            raise TransientError("no answer")
        return await super().publish(topic, partition, record)


class Clock:
    """A monotonic clock that stands still until it is moved on: a busy host delays nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1_000.0
        monkeypatch.setattr("trackside.worker.incarnation.monotonic_s", lambda: self.now_s)


async def test_an_exclusive_task_ends_before_the_lease_of_a_silent_log(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 4: where two copies must never run, the worker doesn't wait to be told that it was lost."""
    topics, log, clock = Topics("t."), LogWithoutHeartbeats(), Clock(monkeypatch)
    await log.ensure(topics.shared)
    settings = scripted_settings(tmp_path / "worker")
    async with running(log, topics, settings) as harness:
        await harness.run("a", gate.waits, task_type="scripted", exclusive=True, lease_s=20.0)
        await harness.run("b", gate.waits, task_type="scripted", device="cpu-1")
        await harness.run("c", {}, task_type="scripted", exclusive=True, wait=True, lease_s=20.0)
        await asyncio.gather(harness.statuses("a", 4), harness.statuses("b", 4))
        log.silent = True
        clock.now_s += 17.5
        assert (await harness.end("a")).end is AttemptEnd.LOST
        await harness.event(TaskReturned, "c")
        await gate.pass_one()
        assert (await harness.end("b")).end is AttemptEnd.FINISHED


async def beats(harness: WorkerHarness, count: int) -> int:
    """Waits until there have been so many signs of life; gives how many there are."""
    found = await harness.messages(
        harness.topics.heartbeats, harness.worker_id, lambda all_: len(all_) >= count
    )
    return len(found)


async def test_an_exclusive_task_runs_while_the_log_answers(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    async with worker_with(scripted_settings(tmp_path / "worker", heartbeat_interval_s=0.05)) as harness:
        await harness.run("a", gate.waits, task_type="scripted", exclusive=True, lease_s=20.0)
        await harness.statuses("a", 4)
        seen = 0
        for _ in range(4):
            clock.now_s += 8
            # The second one was begun now, and heard when there is a third.
            seen = await beats(harness, seen + 3)
        await gate.pass_one()
        assert (await harness.end("a")).end is AttemptEnd.FINISHED
