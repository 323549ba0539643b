"""A worker that is killed while tasks run: they run on, and the next worker takes them over."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.given import worker_with
from tests.integration.worker.harness import (
    SCRIPTED,
    Gate,
    WorkerHarness,
    alive,
    of,
    parent_of,
    scripted_settings,
)
from tests.integration.worker.processes import killable_worker, next_line, wait_until_gone
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.telemetry import context
from trackside.worker.attempts.forkservers import held_forkservers
from trackside.worker.messages.forkserver_messages import PROTOCOL


def killed_while_it_waits(data_dir: Path, gate: Gate, **more: Any) -> tuple[str, int]:
    """Kills a worker whose task `a` waits at a gate; returns its incarnation, and the pid of the task."""
    parameters = {"tell_pid": True, **gate.waits, **more}
    with killable_worker(data_dir, parameters, str(SCRIPTED), "scripted", adopt=True) as process:
        incarnation, pid = next_line(process), int(float(next_line(process)))
        process.kill()
        process.wait()
    assert alive(pid)
    return incarnation, pid


def next_worker(data_dir: Path, **more: Any) -> AbstractAsyncContextManager[WorkerHarness]:
    """Runs another worker on the folder of one that was killed; its log is empty at first."""
    return worker_with(scripted_settings(data_dir, **more))


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "w1"


@pytest.fixture
def spans() -> Iterator[list[context.Span]]:
    """Spans that a worker in this process exports, in their order."""
    exported: list[context.Span] = []
    context.set_recorder(exported.append)
    yield exported
    context.set_recorder(None)


async def test_a_task_outlives_its_worker_and_the_next_one_reports_all_of_it(
    data_dir: Path, gate: Gate, spans: list[context.Span]
) -> None:
    earlier, pid = await asyncio.to_thread(killed_while_it_waits, data_dir, gate, report=[0.5, 0.25])
    [entry] = (data_dir / "journal").iterdir()
    accepted_ns = entry.stat().st_mtime_ns
    async with next_worker(data_dir) as harness:
        joined = await harness.joined()
        adopted = await harness.event(AttemptAdopted, "a")
        taken_over = (adopted.worker_id, adopted.earlier, adopted.incarnation)
        assert taken_over == ("w1", (earlier,), joined.incarnation)
        assert joined.after, "the adoption counts before the join does"
        assert alive(pid)
        await gate.pass_one()
        story = await harness.events_until_end("a")
        end = story[-1]
        assert isinstance(end, AttemptEnded)
        ended = (end.end, end.incarnation, end.recovered)
        assert ended == (AttemptEnd.FINISHED, joined.incarnation, False)
        assert end.result is not None and end.result["pid"] == pid, "it is the same process"
        told = {event.step: event.value for event in of(story, MetricReported)}
        assert told == {0: pid, 1: 0.5, 2: 0.25}
        entered = [event.status for event in of(story, TaskStatusChanged)]
        assert entered[-1] is TaskStatus.TRAINING
    assert [(span.name, span.failure) for span in spans] == [("report", None), ("run task", None)]
    assert spans[-1].start_ns == accepted_ns
    assert list((data_dir / "journal").iterdir()) == []
    assert list((data_dir / "placements").iterdir()) == []


async def test_a_task_that_ended_while_there_was_no_worker_is_reported_with_its_result_and_what_it_printed(
    data_dir: Path, gate: Gate
) -> None:
    train = ["wait_say"]
    _, pid = await asyncio.to_thread(killed_while_it_waits, data_dir, gate, report=[0.5], train=train)
    await gate.pass_one()
    assert await asyncio.to_thread(wait_until_gone, pid)
    async with next_worker(data_dir) as harness:
        story = await harness.events_until_end("a")
        assert "line 1999" in await harness.output("a", lambda text: "line 1999" in text)
    end = story[-1]
    assert isinstance(end, AttemptEnded)
    assert (end.end, end.exit_code) == (AttemptEnd.FINISHED, 0)
    assert len(of(story, AttemptAdopted)) == 1
    told = [(event.kind, event.step) for event in of(story, MetricReported)]
    assert end.reports == len(set(told)), "what is sent again counts once"


@pytest.mark.long
async def test_a_task_that_died_while_there_was_no_worker_has_failed_by_its_signal(
    data_dir: Path, gate: Gate
) -> None:
    _, pid = await asyncio.to_thread(killed_while_it_waits, data_dir, gate)
    os.kill(pid, signal.SIGSEGV)
    assert await asyncio.to_thread(wait_until_gone, pid)
    async with next_worker(data_dir) as harness:
        end = await harness.end("a")
    assert (end.end, end.exit_code) == (AttemptEnd.FAILED, -signal.SIGSEGV)


def spoil(data_dir: Path, line: str) -> None:
    [progress] = (data_dir / "placements").glob("*.progress")
    progress.write_text(f"{line}\n")


LOSES: dict[str, Callable[[Path, int, pytest.MonkeyPatch], object]] = {
    "the forkserver died": lambda _, pid, __: os.kill(parent_of(pid), signal.SIGKILL),
    "another protocol": lambda _, __, patch: patch.setattr(held_forkservers, "PROTOCOL", PROTOCOL + 1),
    "no such device": lambda _, __, ___: None,
    "unreadable progress": lambda data_dir, _, __: spoil(data_dir, "no message"),
    "progress that is nonsense": lambda data_dir, _, __: spoil(
        data_dir, '{"type": "reports", "reports": [["x", 1, 2]]}'
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("why", LOSES)
async def test_a_task_that_can_not_be_taken_over_is_ended_and_lost_and_the_worker_works(
    data_dir: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch, spans: list[context.Span], why: str
) -> None:
    device = "cpu-1" if why == "no such device" else "cpu-0"
    _, pid = await asyncio.to_thread(killed_while_it_waits, data_dir, gate, device=device)
    LOSES[why](data_dir, pid, monkeypatch)
    async with next_worker(data_dir, cpu_slots=1) as harness:
        assert (await harness.end("a")).end is AttemptEnd.LOST
        monkeypatch.undo()
        assert (await harness.ended("b", task_type="scripted")).end is AttemptEnd.FINISHED
    of_a = [span.name for span in spans if span.attributes["trackside.task"] == "a"]
    assert of_a == ["report", "recover task"], "the scheduler may have told its end before"
    assert await asyncio.to_thread(wait_until_gone, pid)


@pytest.mark.long
async def test_a_task_is_taken_over_again_by_the_worker_after_the_next_one(
    data_dir: Path, gate: Gate
) -> None:
    first, pid = await asyncio.to_thread(killed_while_it_waits, data_dir, gate)
    again = await asyncio.to_thread(adopt_and_die, data_dir)
    assert alive(pid)
    async with next_worker(data_dir) as harness:
        adopted = await harness.event(AttemptAdopted, "a")
        assert adopted.earlier == (first, again)
        await gate.pass_one()
        assert (await harness.end("a")).end is AttemptEnd.FINISHED


def adopt_and_die(data_dir: Path) -> str:
    """Runs a worker that adopts the task `a`, and kills it; returns its incarnation."""
    with killable_worker(data_dir, {"adopts": "a"}, str(SCRIPTED), "scripted", adopt=True) as process:
        incarnation = next_line(process)
        process.kill()
        process.wait()
    return incarnation


async def test_a_task_whose_next_worker_does_not_come_ends_with_its_lease(data_dir: Path, gate: Gate) -> None:
    _, pid = await asyncio.to_thread(killed_while_it_waits, data_dir, gate, lease_s=0.5)
    assert await asyncio.to_thread(wait_until_gone, pid)
    async with next_worker(data_dir) as harness:
        end = await harness.end("a")
        assert (end.end, end.recovered) == (AttemptEnd.LOST, True)
        assert await harness.joined()
    assert not of(await harness.events_so_far("a"), AttemptAdopted)


@pytest.mark.long
async def test_an_adopted_task_can_be_stopped(data_dir: Path, gate: Gate) -> None:
    _, pid = await asyncio.to_thread(killed_while_it_waits, data_dir, gate)
    async with next_worker(data_dir) as harness:
        joined = await harness.joined()
        command = await harness.run("a", {}, task_type="scripted", incarnation=joined.incarnation)
        await harness.stop(command)
        assert (await harness.end("a")).end is AttemptEnd.CANCELLED
    assert await asyncio.to_thread(wait_until_gone, pid)


@pytest.mark.long
async def test_what_is_in_the_log_is_not_reported_again(data_dir: Path, gate: Gate) -> None:
    """The next worker begins with another log here: what the last one has written would be missing in it."""
    await asyncio.to_thread(killed_while_it_waits, data_dir, gate, report=[0.5, 0.25], settles=True)
    async with next_worker(data_dir) as harness:
        await harness.event(AttemptAdopted, "a")
        await gate.pass_one()
        story = await harness.events_until_end("a")
    assert of(story, TaskStatusChanged) == [], "only the last message may be reported again"
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED
