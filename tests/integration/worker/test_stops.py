"""Stopped means stopped: as what it was asked for, by force if need be, and before a lease runs out."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.worker.harness import (
    Gate,
    WorkerHarness,
    alive,
    memory_log,
    of,
    running,
    scripted_settings,
    settings_for,
    stream_of,
)
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, MetricReported, TaskAccepted, TaskReturned
from trackside.contracts.topics import Topics
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.worker.assignment import Assignment
from trackside.worker.process_messages import ProcessMessage, encode


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[WorkerHarness]:
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(tmp_path)) as made:
        yield made


@pytest.mark.parametrize("end", ["cancelled", "preempted", "timed_out_run"])
async def test_a_stop_says_as_what_the_attempt_ends(harness: WorkerHarness, end: str) -> None:
    command = await harness.run("a", {"tell_pid": True, "seconds": 600})
    pid = await harness.pid("a")
    await harness.stop(command, end=end)
    ended = await harness.end("a")
    assert (ended.end, ended.exit_code) == (end, -signal.SIGTERM)
    assert not alive(pid)


async def test_fm_15_t10_a_task_that_ignores_sigterm_is_killed_and_that_is_seen(tmp_path: Path) -> None:
    """The reference let it live on."""
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(tmp_path, stop_grace_s=0.5)) as harness:
        command = await harness.run("a", {"ignore_sigterm": True, "tell_pid": True, "seconds": 600})
        pid = await harness.pid("a")
        await harness.stop(command)
        ended = await harness.end("a")
        assert (ended.end, ended.exit_code) == (AttemptEnd.CANCELLED, -signal.SIGKILL)
        assert not alive(pid)
        next_line = await harness.output("a", bool)
    assert next_line == "trackside: still there 0.5 s after SIGTERM: killed"


async def test_a_result_that_was_written_counts_though_a_stop_came(harness: WorkerHarness) -> None:
    command = await harness.run("a", {"wait_for_stop": True, "value": 0.5})
    await harness.statuses("a", 4)
    await harness.stop(command, end="preempted")
    story = await harness.events_until_end("a")
    ended = of(story, AttemptEnded)[0]
    assert ended.end in (AttemptEnd.FINISHED, AttemptEnd.PREEMPTED)
    assert (ended.end is AttemptEnd.FINISHED) == any(
        event.kind == "FINAL" for event in of(story, MetricReported)
    )


async def test_fm_8_a_command_that_comes_twice_starts_one_process(harness: WorkerHarness) -> None:
    command = await harness.run("a", {"tell_pid": True})
    await harness.send(command)
    await harness.end("a")
    await harness.send(command)
    story = await harness.events_until_end("a", ends=2)
    assert len(of(story, MetricReported)) == 1


async def test_fm_9_a_command_that_comes_late_is_passed_over(harness: WorkerHarness) -> None:
    command = await harness.run("a", {}, placement=2)
    await harness.end("a")
    await harness.send(command.model_copy(update={"placement": 1}))
    await harness.send(command)
    story = await harness.events_until_end("a", ends=2)
    assert {event.placement for event in of(story, TaskAccepted) + of(story, AttemptEnded)} == {2}


@pytest.mark.parametrize("wait", [False, True])
async def test_the_next_task_on_a_device_waits_until_the_process_of_the_last_is_gone(
    tmp_path: Path, wait: bool
) -> None:
    """The log has the end of the previous task, so a task that was placed on it must not be refused."""
    topics = Topics("t.")
    gate = Gate(tmp_path / "gate")
    settings = scripted_settings(tmp_path / "worker", stop_grace_s=600)
    async with running(await memory_log(topics), topics, settings) as harness:
        requested = {"tell_pid": True, "linger": True, "gate": str(gate.path)}
        await harness.run("a", requested, task_type="scripted")
        pid = await harness.pid("a")
        await harness.end("a")
        await harness.run("b", {"tell_pid": True}, task_type="scripted", wait=wait)
        await harness.run("c", {}, task_type="scripted", device="cpu-1")
        await harness.end("c")
        assert alive(pid)
        assert of(await harness.events_so_far("b"), TaskAccepted) == []
        await gate.pass_one()
        assert (await harness.end("b")).end is AttemptEnd.FINISHED
        assert not alive(pid)


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 4: where two copies must never run, the worker doesn't wait to be told that it was lost."""
    topics, log, clock = Topics("t."), LogWithoutHeartbeats(), Clock(monkeypatch)
    await log.ensure(topics.shared)
    gate = Gate(tmp_path / "gate")
    settings = scripted_settings(tmp_path / "worker")
    async with running(log, topics, settings) as harness:
        requested = {"train": ["wait"], "gate": str(gate.path)}
        await harness.run("a", requested, task_type="scripted", exclusive=True, lease_s=20.0)
        await harness.run("b", requested, task_type="scripted", device="cpu-1")
        await harness.run("c", {}, task_type="scripted", exclusive=True, wait=True, lease_s=20.0)
        await asyncio.gather(harness.statuses("a", 4), harness.statuses("b", 4))
        log.silent = True
        clock.now_s += 17.5
        assert (await harness.end("a")).end is AttemptEnd.LOST
        await harness.first(TaskReturned, topics.events, stream_of("c"))
        await gate.pass_one()
        assert (await harness.end("b")).end is AttemptEnd.FINISHED


async def beats(harness: WorkerHarness, count: int) -> int:
    """Waits until there have been so many signs of life; gives how many there are."""
    found = await harness.messages(
        harness.topics.heartbeats, harness.worker_id, lambda all_: len(all_) >= count
    )
    return len(found)


async def test_an_exclusive_task_runs_while_the_log_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, clock, gate = Topics("t."), Clock(monkeypatch), Gate(tmp_path / "gate")
    settings = scripted_settings(tmp_path / "worker", heartbeat_interval_s=0.05)
    async with running(await memory_log(topics), topics, settings) as harness:
        requested = {"train": ["wait"], "gate": str(gate.path)}
        await harness.run("a", requested, task_type="scripted", exclusive=True, lease_s=20.0)
        await harness.statuses("a", 4)
        seen = 0
        for _ in range(4):
            clock.now_s += 8
            seen = await beats(
                harness, seen + 3
            )  # the second one was begun now, and heard when there is a third
        await gate.pass_one()
        assert (await harness.end("a")).end is AttemptEnd.FINISHED


async def test_t13_a_second_command_to_train_is_rejected_in_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker sends each command once: here one that sends each twice."""

    def twice(message: ProcessMessage) -> bytes:
        return encode(message) * (1 if isinstance(message, Assignment) else 2)

    monkeypatch.setattr("trackside.worker.attempts.attempt.encode", twice)
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(tmp_path)) as harness:
        await harness.run("a")
        assert (await harness.end("a")).end is AttemptEnd.FINISHED
        next_line = await harness.output("a", lambda text: "TRAIN" in text)
    assert next_line.splitlines() == [
        "trackside: LOAD is rejected: the task has been told to load, and waits for its device",
        "trackside: TRAIN is rejected: the task has been told to train",
    ]
