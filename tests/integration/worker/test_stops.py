"""Stopped means stopped: as what it was asked for, by force if need be, and before a lease runs out."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.worker.rig import (
    Gate,
    Rig,
    alive,
    hungry_settings,
    memory_log,
    of,
    running,
    settings_for,
    stream_of,
)
from trackside.contracts.summaries import OutputWritten
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, MetricReported, TaskAccepted, TaskReturned
from trackside.contracts.topics import Topics
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.worker.protocol import spoken


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(tmp_path)) as made:
        yield made


@pytest.mark.parametrize("end", ["cancelled", "preempted", "timed_out_run"])
async def test_a_stop_says_as_what_the_attempt_ends(rig: Rig, end: str) -> None:
    command = await rig.run("a", {"tell_pid": True, "seconds": 600})
    pid = await rig.pid("a")
    await rig.stop(command, end=end)
    ended = await rig.end("a")
    assert (ended.end, ended.exit_code) == (end, -signal.SIGTERM)
    assert not alive(pid)


async def test_fm_15_t10_a_task_that_ignores_sigterm_is_killed_and_that_is_seen(rig: Rig) -> None:
    """The reference let it live on."""
    command = await rig.run("a", {"ignore_sigterm": True, "tell_pid": True, "seconds": 600})
    pid = await rig.pid("a")
    await rig.stop(command)
    ended = await rig.end("a")
    assert (ended.end, ended.exit_code) == (AttemptEnd.CANCELLED, -signal.SIGKILL)
    written = await rig.first(OutputWritten, rig.topics.logs, "a")
    assert written.lines == ["trackside: still there 2 s after SIGTERM: killed"]
    assert not alive(pid)


async def test_a_result_that_was_written_counts_though_a_stop_came(rig: Rig) -> None:
    command = await rig.run("a", {"wait_for_stop": True, "value": 0.5})
    await rig.statuses("a", 4)
    await rig.stop(command, end="preempted")
    story = await rig.story("a")
    ended = of(story, AttemptEnded)[0]
    assert ended.end in (AttemptEnd.FINISHED, AttemptEnd.PREEMPTED)
    assert (ended.end is AttemptEnd.FINISHED) == any(
        event.kind == "FINAL" for event in of(story, MetricReported)
    )


async def test_fm_8_a_command_that_comes_twice_starts_one_process(rig: Rig) -> None:
    command = await rig.run("a", {"tell_pid": True})
    await rig.send(command)
    await rig.end("a")
    await rig.send(command)
    story = await rig.story("a", ends=2)
    assert len(of(story, MetricReported)) == 1


async def test_fm_9_a_command_that_comes_late_is_passed_over(rig: Rig) -> None:
    command = await rig.run("a", {}, placement=2)
    await rig.end("a")
    await rig.send(command.model_copy(update={"placement": 1}))
    await rig.send(command)
    story = await rig.story("a", ends=2)
    assert {event.placement for event in of(story, TaskAccepted) + of(story, AttemptEnded)} == {2}


@pytest.mark.parametrize("wait", [False, True])
async def test_the_next_task_on_a_device_waits_until_the_process_of_the_last_is_gone(
    tmp_path: Path, wait: bool
) -> None:
    """Though the log has the end of the last one: so nobody is refused who was placed upon that."""
    topics = Topics("t.")
    gate = Gate(tmp_path / "gate")
    settings = hungry_settings(tmp_path / "worker", stop_grace_s=600)
    async with running(await memory_log(topics), topics, settings) as rig:
        asked = {"tell_pid": True, "linger": True, "gate": str(gate.path)}
        await rig.run("a", asked, task_type="hungry")
        pid = await rig.pid("a")
        await rig.end("a")
        await rig.run("b", {"tell_pid": True}, task_type="hungry", wait=wait)
        await rig.run("c", {}, task_type="hungry", device="cpu-1")
        await rig.end("c")
        assert alive(pid)
        assert of(await rig.so_far("b"), TaskAccepted) == []
        await gate.pass_one()
        assert (await rig.end("b")).end is AttemptEnd.FINISHED
        assert not alive(pid)


class Forgetful(MemoryLog):
    """A log that takes no heartbeats while it is silent."""

    silent = False

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends a record, or doesn't answer."""
        if self.silent and topic.endswith("heartbeats"):
            raise TransientError("no answer")
        return await super().publish(topic, partition, record)


async def test_an_exclusive_task_ends_before_the_lease_of_a_silent_log(tmp_path: Path) -> None:
    """Rule 4: where two copies must never run, the worker doesn't wait to be told that it was lost."""
    topics, log = Topics("t."), Forgetful()
    await log.ensure(topics.shared)
    gate = Gate(tmp_path / "gate")
    settings = hungry_settings(tmp_path / "worker")
    async with running(log, topics, settings) as rig:
        asked = {"train": ["wait"], "gate": str(gate.path)}
        await rig.run("a", asked, task_type="hungry", exclusive=True, lease_s=2.0)
        await rig.run("b", asked, task_type="hungry", device="cpu-1")
        await rig.run("c", {}, task_type="hungry", exclusive=True, wait=True, lease_s=2.0)
        await asyncio.gather(rig.statuses("a", 4), rig.statuses("b", 4))
        log.silent = True
        assert (await rig.end("a")).end is AttemptEnd.LOST
        await rig.first(TaskReturned, topics.events, stream_of("c"))
        await gate.pass_one()
        assert (await rig.end("b")).end is AttemptEnd.FINISHED


async def test_an_exclusive_task_runs_while_the_log_answers(tmp_path: Path) -> None:
    topics = Topics("t.")
    settings = settings_for(tmp_path, heartbeat_interval_s=0.05)
    async with running(await memory_log(topics), topics, settings) as rig:
        await rig.run("a", {"seconds": 2.5}, exclusive=True, lease_s=4.0)
        assert (await rig.end("a")).end is AttemptEnd.FINISHED


async def test_t13_a_second_order_to_train_is_turned_away_in_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker never says it twice; so here one that stutters."""
    monkeypatch.setattr("trackside.worker.runner.spoken", lambda word: spoken(word) * 2)
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(tmp_path)) as rig:
        await rig.run("a")
        assert (await rig.end("a")).end is AttemptEnd.FINISHED
        written = await rig.first(OutputWritten, rig.topics.logs, "a")
    assert written.lines == [
        "trackside: LOAD is rejected: the task has been told to load, and waits for its device",
        "trackside: TRAIN is rejected: the task has been told to train",
    ]
