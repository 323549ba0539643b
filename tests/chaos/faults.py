"""What is done to a running stack: each fault finds its moment in the log and ends when all is well again."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from tests.chaos import noticing
from tests.chaos.history import PATIENCE_S
from tests.chaos.scene import Scene
from trackside.contracts.fleet import WorkerJoined, WorkerLost
from trackside.contracts.searches import TrialEnded
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, TaskAccepted, TaskAssigned, TaskSubmitted
from trackside.domain.task import TaskState
from trackside.embedded import processes

Fault = Callable[[Scene], Awaitable[None]]
PROGRAMS = ("dispatcher", "scheduler", "worker", "summary-indexer", "kafka", "postgres")
READERS = ("dispatcher", "scheduler", "worker")
GIVEN_UP = "reader got no answer"
"""What a service's log says when a consumer is made anew because the broker doesn't answer."""
AFTER_AT_MOST = 12
"""About as many events follow from one end of a trial: its own, the next suggestion, the next attempt's."""


async def dispatcher_with_an_end_unanswered(scene: Scene) -> None:
    """Kills the dispatcher when an attempt has ended and its trial has not."""
    await scene.freeze("dispatcher")
    mark, number = scene.history.mark, scene.rise()
    await scene.history.next(AttemptEnded, mark, lambda e, _: e.end is AttemptEnd.FINISHED)
    assert scene.history.search is not None
    assert number in scene.history.search.active, "the dispatcher was stopped, yet the trial has ended"
    await scene.kill("dispatcher")
    await scene.history.next(TrialEnded, mark, lambda e, _: e.trial == number)


async def scheduler_with_a_task_unanswered(scene: Scene) -> None:
    """Kills the scheduler when a task was submitted and not assigned."""
    await scene.freeze("scheduler")
    mark = scene.history.mark
    scene.rise()
    line = await scene.history.next(TaskSubmitted, mark)
    assert isinstance(line.record.message, TaskSubmitted)
    task_id = line.record.message.task_id
    assert scene.history.tasks[task_id].state is TaskState.QUEUED
    await scene.kill("scheduler")
    await scene.history.next(TaskAssigned, mark, lambda e, _: e.task_id == task_id)


async def scheduler_that_has_not_told_the_device(scene: Scene) -> None:
    """Kills the scheduler as soon as an assignment is in the log: between append and act."""
    mark = scene.history.mark
    scene.rise()
    await scene.history.next(TaskAssigned, mark)
    await scene.kill("scheduler")


async def worker_with_attempts(scene: Scene) -> None:
    """Kills the worker when attempts run that can't have ended: they are lost and begin again."""
    lost = {task.task_id for task in scene.history.in_flight}
    mark = scene.history.mark
    await scene.kill("worker")
    for task_id in lost:
        await scene.history.next(TaskAccepted, mark, lambda e, _, task=task_id: e.task_id == task)  # type: ignore[misc]


async def worker_with_an_unsaid_end(scene: Scene) -> None:
    """Kills the worker when a task's process has left its ending and the log doesn't have it."""
    pid = await scene.task_pid(scene.tide)
    await scene.freeze("worker")
    mark, number = scene.history.mark, scene.rise()
    await scene.gone(pid)
    await scene.kill("worker")
    await scene.history.next(TrialEnded, mark, lambda e, _: e.trial == number)


async def task_process(scene: Scene) -> None:
    """Kills the process of a task that runs."""
    number = scene.chance.choice([task.trial for task in scene.history.in_flight if task.trial is not None])
    task = scene.task(number)
    assert task is not None
    task_id, mark = task.task_id, scene.history.mark
    pid = await scene.task_pid(number)
    with suppress(ProcessLookupError):  # a worker that was late just now is lost, and its attempts with it
        os.kill(pid, signal.SIGKILL)
    scene.say(f"SIGKILL process {pid} of trial {number}")
    await scene.history.next(AttemptEnded, mark, lambda e, _: e.task_id == task_id)


async def summary_indexer_behind(scene: Scene) -> None:
    """Kills the summary-indexer when points lie behind its position."""
    await scene.freeze("summary-indexer")
    topic = scene.topics.metrics.name
    ends = await scene.log.ends(topic)
    points = scene.log.reader({(topic, partition): end for partition, end in ends.items()})
    scene.rise()
    async with asyncio.timeout(PATIENCE_S):
        while not await points.read(1.0):
            pass
    await points.close()
    await scene.kill("summary-indexer")


async def broker_with_an_append_unanswered(scene: Scene) -> None:
    """Kills the broker when the worker has an end to append and got no answer."""
    pid = await scene.task_pid(scene.tide)
    await scene.freeze("kafka")
    mark, number = scene.history.mark, scene.rise()
    await scene.gone(pid)
    await scene.kill("kafka")
    await scene.history.next(TrialEnded, mark, lambda e, _: e.trial == number)


async def broker_silent_until_readers_are_made_anew(scene: Scene) -> None:
    """Stops the broker until services have given up their consumers, lets it go on, and kills it."""
    await _read_by_all(scene)
    folder, mark = scene.running.folder / "logs", scene.history.mark
    before = {name: _given_up(folder / f"{name}.log") for name in READERS}
    pid = await scene.freeze("kafka")
    number = scene.rise()
    for name in READERS:
        await noticing.grown(folder / f"{name}.log", lambda path, was=before[name]: _given_up(path) > was)  # type: ignore[misc]
    scene.thaw("kafka", pid)
    await scene.kill("kafka")
    await scene.history.next(TrialEnded, mark, lambda e, _: e.trial == number)


async def _read_by_all(scene: Scene) -> None:
    """Waits until every service has read from the broker: one that was killed just before is not read yet."""
    mark, number = scene.history.mark, scene.rise()
    await scene.history.next(TrialEnded, mark, lambda e, _: e.trial == number)
    await scene.filled()


def _given_up(log: Path) -> int:
    return log.read_text("utf-8", "replace").count(GIVEN_UP)


async def postgres_while_rows_are_written(scene: Scene) -> None:
    """Kills Postgres as soon as an end is in the log, which read models are about to have."""
    mark = scene.history.mark
    scene.rise()
    await scene.history.next(AttemptEnded, mark)
    await scene.kill("postgres")


async def worker_silent_past_its_lease(scene: Scene) -> None:
    """Stops the worker until its attempts were given up, then lets it go on: what it says has no effect."""
    lost = [task.task_id for task in scene.history.in_flight]
    mark = scene.history.mark
    pid = await scene.freeze("worker")
    await scene.history.next(WorkerLost, mark)
    for task_id in lost:
        await scene.history.next(AttemptEnded, mark, lambda e, _, task=task_id: e.task_id == task)  # type: ignore[misc]
    scene.publish()
    scene.thaw("worker", pid)
    await scene.history.next(WorkerJoined, mark)


async def dispatcher_silent_beside_a_rival(scene: Scene) -> None:
    """Stops a dispatcher while a second instance decides, then lets it go on with what it had in mind."""
    rival = processes.spawn(scene.rival())
    try:
        scene.say(f"a second dispatcher starts ({rival.pid})")
        pid = await scene.freeze("dispatcher")
        mark, number = scene.history.mark, scene.rise()
        await scene.history.next(TrialEnded, mark, lambda e, _: e.trial == number)
        scene.thaw("dispatcher", pid)
        await scene.filled()
        mark, number = scene.history.mark, scene.rise()
        await scene.history.more(mark, scene.chance.randrange(1, AFTER_AT_MOST))
        pid = await scene.freeze("dispatcher")
        await scene.history.next(TrialEnded, mark, lambda e, _: e.trial == number)
        await scene.filled()
        scene.thaw("dispatcher", pid)
    finally:
        await _ended(scene, rival)


async def _ended(scene: Scene, rival: subprocess.Popen[bytes]) -> None:
    rival.terminate()
    await scene.gone(rival.pid)
    code = rival.wait()
    scene.say(f"the second dispatcher ended with {code}")
    assert code == 0


def at_a_record(name: str) -> Fault:
    """Gives a fault that kills a program at some event of those that follow from the end of a trial."""

    async def fault(scene: Scene) -> None:
        mark, number = scene.history.mark, scene.rise()
        await scene.history.more(mark, scene.chance.randrange(1, AFTER_AT_MOST))
        await scene.kill(name)
        await scene.history.next(TrialEnded, mark, lambda e, _: e.trial == number)

    fault.__name__ = f"{name}_at_a_record"
    return fault


async def two_at_once(scene: Scene) -> None:
    """Kills two programs at some event of those that follow from the end of a trial."""
    mark, number = scene.history.mark, scene.rise()
    await scene.history.more(mark, scene.chance.randrange(1, AFTER_AT_MOST))
    await asyncio.gather(*(scene.kill(name) for name in scene.chance.sample(PROGRAMS, 2)))
    await scene.history.next(TrialEnded, mark, lambda e, _: e.trial == number)


async def again_while_it_starts(scene: Scene) -> None:
    """Kills a program, and what comes in its place as soon as that has a pid, before it is well."""
    name = scene.chance.choice(PROGRAMS)
    mark, number = scene.history.mark, scene.rise()
    victim = await scene.strike(name)
    await scene.until(f"{name} starts", lambda: scene.running.pid(name) not in (victim, None))
    await scene.kill(name)
    await scene.history.next(TrialEnded, mark, lambda e, _: e.trial == number)


EACH: tuple[Fault, ...] = (
    dispatcher_with_an_end_unanswered,
    scheduler_with_a_task_unanswered,
    scheduler_that_has_not_told_the_device,
    worker_with_attempts,
    worker_with_an_unsaid_end,
    task_process,
    summary_indexer_behind,
    broker_with_an_append_unanswered,
    postgres_while_rows_are_written,
    worker_silent_past_its_lease,
    dispatcher_silent_beside_a_rival,
)
ANY_MOMENT: tuple[Fault, ...] = tuple(at_a_record(name) for name in PROGRAMS)
HARSH: tuple[Fault, ...] = (
    broker_silent_until_readers_are_made_anew,
    two_at_once,
    two_at_once,
    again_while_it_starts,
    again_while_it_starts,
)
"""Faults that take longer, for the long runs."""
