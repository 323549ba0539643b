"""Stopped means stopped: as what it was asked for, by force if need be; and commands that come again."""

import signal
from pathlib import Path

import pytest

from tests.integration.worker.given import SHARES, shared_worker, worker_with
from tests.integration.worker.harness import Gate, WorkerHarness, alive, of, scripted_settings, settings_for
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskAccepted,
    TaskRefused,
    TaskStatusChanged,
)
from trackside.worker.messages.assignment import Assignment
from trackside.worker.messages.process_messages import ProcessMessage, encode

pytestmark = SHARES
worker = shared_worker(lambda folder: scripted_settings(folder / "worker"))


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
    async with worker_with(settings_for(tmp_path, stop_grace_s=0.5)) as harness:
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
    has_result = any(event.kind == "FINAL" for event in of(story, MetricReported))
    assert (ended.end is AttemptEnd.FINISHED) == has_result


async def test_fm_8_a_command_that_comes_twice_starts_one_process(harness: WorkerHarness) -> None:
    """Its second one is answered as the first was."""
    command = await harness.run("a", {"tell_pid": True})
    await harness.send(command)
    await harness.end("a")
    await harness.send(command)
    story = await harness.events_until_end("a", ends=2)
    first, second = of(story, AttemptEnded)
    assert first == second
    assert (len(of(story, MetricReported)), len(of(story, TaskStatusChanged))) == (1, 4)


async def test_fm_9_a_command_that_comes_late_is_passed_over(harness: WorkerHarness) -> None:
    command = await harness.run("a", {}, placement=2)
    await harness.end("a")
    await harness.send(command.model_copy(update={"placement": 1}))
    await harness.send(command)
    story = await harness.events_until_end("a", ends=2)
    assert {event.placement for event in of(story, TaskAccepted) + of(story, AttemptEnded)} == {2}


@pytest.mark.parametrize("newer", ["is refused", "is called off"])
async def test_a_newer_placement_ends_the_one_before_also_if_it_never_runs(
    harness: WorkerHarness, newer: str
) -> None:
    """The log has gone beyond the first one: no command could stop it any more."""
    command = await harness.run("a", {"tell_pid": True, "seconds": 600})
    pid = await harness.pid("a")
    if newer == "is refused":
        await harness.run("a", placement=2)
        assert (await harness.event(TaskRefused, "a")).code == "device_busy"
    else:
        await harness.stop(command.model_copy(update={"placement": 2}))
        await harness.event(AttemptEnded, "a")
    await harness.event(AttemptEnded, "a", nth=2 if newer == "is called off" else 1)
    assert not alive(pid)
    assert (await harness.ended("b")).end is AttemptEnd.FINISHED


@pytest.mark.parametrize("wait", [False, True])
async def test_the_next_task_on_a_device_waits_until_the_process_of_the_last_is_gone(
    harness: WorkerHarness, gate: Gate, wait: bool
) -> None:
    """The log has the end of the previous task, so a task that was placed on it must not be refused."""
    requested = {"tell_pid": True, "linger": True, "gate": str(gate.path)}
    await harness.run("a", requested, task_type="scripted")
    pid = await harness.pid("a")
    await harness.end("a")
    await harness.run("b", {"tell_pid": True}, task_type="scripted", wait=wait)
    await harness.ended("c", {}, task_type="scripted", device="cpu-1")
    assert alive(pid)
    assert of(await harness.events_so_far("b"), TaskAccepted) == []
    await gate.pass_one()
    assert (await harness.end("b")).end is AttemptEnd.FINISHED
    assert not alive(pid)


async def test_t13_a_second_command_to_train_is_rejected_in_the_output(
    harness: WorkerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker sends each command once: here one that sends each twice."""

    def twice(message: ProcessMessage) -> bytes:
        return encode(message) * (1 if isinstance(message, Assignment) else 2)

    monkeypatch.setattr("trackside.worker.attempts.attempt.encode", twice)
    assert (await harness.ended("a")).end is AttemptEnd.FINISHED
    next_line = await harness.output("a", lambda text: "TRAIN" in text)
    assert next_line.splitlines() == [
        "trackside: LOAD is rejected: the task has been told to load, and waits for its device",
        "trackside: TRAIN is rejected: the task has been told to train",
    ]
