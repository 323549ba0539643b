"""Faults for a running stack: each waits for its moment in the log, and returns after the recovery."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from tests.chaos.harness import ChaosHarness, rival, until_file
from tests.chaos.history import TIMEOUT_S
from tests.integration.worker.harness import parent_of
from trackside.aggregates.search.messages import TrialEnded
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.fleet.fleet import WorkerJoined, WorkerLost
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnd,
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskSubmitted,
)
from trackside.domain.tasks.task import TaskState
from trackside.embedded import processes

Fault = Callable[[ChaosHarness], Awaitable[None]]
PROGRAMS = ("dispatcher", "scheduler", "worker", "summary-indexer", "kafka", "postgres")
READERS = ("dispatcher", "scheduler", "worker")
NO_ANSWER = "reader got no response"
"""The log message of a service that replaces its consumer because the broker does not answer."""
MAX_EVENTS_AFTER_END = 12
"""About how many events follow one end of a trial: its own, the next suggestion, the next attempt's."""


async def dispatcher_with_an_end_unanswered(harness: ChaosHarness) -> None:
    """Kills the dispatcher when an attempt has ended and its trial has not."""
    await harness.pause("dispatcher")
    position, number = harness.history.position, harness.release_trials()
    await harness.history.next(AttemptEnded, position, lambda e, _: e.end is AttemptEnd.FINISHED)
    assert harness.history.search is not None
    assert number in harness.history.search.active, "the dispatcher was stopped, yet the trial has ended"
    await harness.kill_and_wait("dispatcher")
    await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)


async def scheduler_with_a_task_unanswered(harness: ChaosHarness) -> None:
    """Kills the scheduler when a task was submitted and not assigned."""
    await harness.pause("scheduler")
    position = harness.history.position
    harness.release_trials()
    entry = await harness.history.next(TaskSubmitted, position)
    assert isinstance(entry.record.message, TaskSubmitted)
    task_id = entry.record.message.task_id
    assert harness.history.tasks[task_id].state is TaskState.QUEUED
    await harness.kill_and_wait("scheduler")
    await harness.history.next(TaskAssigned, position, lambda e, _: e.task_id == task_id)


async def scheduler_before_it_commands_the_device(harness: ChaosHarness) -> None:
    """Kills the scheduler as soon as an assignment is in the log: between append and act."""
    position = harness.history.position
    harness.release_trials()
    await harness.history.next(TaskAssigned, position)
    await harness.kill_and_wait("scheduler")


async def worker_with_attempts(harness: ChaosHarness) -> None:
    """Kills the worker when attempts run that can't have ended: they are adopted, or lost and run again.

    Both happens: on a busy machine a worker is not always back before their lease ends.
    """
    running = {task.task_id for task in harness.history.in_flight}
    position = harness.history.position
    await harness.kill_and_wait("worker")
    await _until_run_again(harness, running, position)


async def _until_run_again(harness: ChaosHarness, task_ids: set[str], position: int) -> None:
    def missing() -> set[str]:
        messages = [each.record.message for each in harness.history.records[position:]]
        begun = [each for each in messages if isinstance(each, AttemptAdopted | TaskAccepted)]
        return task_ids - {each.task_id for each in begun}

    await harness.history.until("each task runs again", lambda: not missing())


async def forkserver_with_attempts(harness: ChaosHarness) -> None:
    """Kills the process that would keep attempts beyond their worker: they are lost and run again."""
    await _kill_forkserver(harness, with_worker=False)


async def forkserver_and_worker_with_attempts(harness: ChaosHarness) -> None:
    """Kills the worker and the process that would keep its attempts: they are lost and run again."""
    await _kill_forkserver(harness, with_worker=True)


async def _kill_forkserver(harness: ChaosHarness, with_worker: bool) -> None:
    running = harness.history.in_flight
    numbers = [number for task in running if (number := number_of(task.part, "trial")) is not None]
    lost, position = {task.task_id for task in running}, harness.history.position
    for pid in {parent_of(await harness.task_pid(number)) for number in numbers}:
        os.kill(pid, signal.SIGKILL)
        harness.note(f"SIGKILL forkserver {pid}")
    if with_worker:
        await harness.kill_and_wait("worker")
    await _until_run_again(harness, lost, position)


async def worker_with_an_unreported_end(harness: ChaosHarness) -> None:
    """Kills the worker when a task's process has written its end and the log does not have it."""
    pid = await harness.task_pid(harness.released)
    await harness.pause("worker")
    position, number = harness.history.position, harness.release_trials()
    await harness.until_exited(pid)
    await harness.kill_and_wait("worker")
    await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)


async def task_process(harness: ChaosHarness) -> None:
    """Kills the process of a task that runs."""
    number = harness.rng.choice(
        [trial for task in harness.history.in_flight if (trial := number_of(task.part, "trial")) is not None]
    )
    task = harness.task(number)
    assert task is not None
    task_id, position = task.task_id, harness.history.position
    pid = await harness.task_pid(number)
    with suppress(ProcessLookupError):  # a worker that was late just now is lost, and its attempts with it
        os.kill(pid, signal.SIGKILL)
    harness.note(f"SIGKILL process {pid} of trial {number}")
    await harness.history.next(AttemptEnded, position, lambda e, _: e.task_id == task_id)


async def summary_indexer_behind(harness: ChaosHarness) -> None:
    """Kills the summary-indexer when there are points after its position."""
    await harness.pause("summary-indexer")
    topic = harness.topics.metrics.name
    ends = await harness.log.ends(topic)
    points = harness.log.reader({(topic, partition): end for partition, end in ends.items()})
    harness.release_trials()
    async with asyncio.timeout(TIMEOUT_S):
        while not await points.read(1.0):
            pass
    await points.close()
    await harness.kill_and_wait("summary-indexer")


async def console_while_pages_follow(harness: ChaosHarness) -> None:
    """Kills the console when an end is in the log."""
    position, number = harness.history.position, harness.release_trials()
    await harness.history.next(AttemptEnded, position)
    await harness.kill_and_wait("console")
    await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)


async def broker_with_an_append_unanswered(harness: ChaosHarness) -> None:
    """Kills the broker when the worker has appended an end and got no answer."""
    pid = await harness.task_pid(harness.released)
    await harness.pause("kafka")
    position, number = harness.history.position, harness.release_trials()
    await harness.until_exited(pid)
    await harness.kill_and_wait("kafka")
    await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)


async def broker_paused_until_consumers_are_replaced(harness: ChaosHarness) -> None:
    """Pauses the broker until services have replaced their consumers, resumes it, and kills it."""
    await _until_read_by_all(harness)
    folder, position = harness.running.folder / "logs", harness.history.position
    before = {name: _times_given_up(folder / f"{name}.log") for name in READERS}
    pid = await harness.pause("kafka")
    number = harness.release_trials()
    for name in READERS:
        await until_file(folder / f"{name}.log", lambda path, was=before[name]: _times_given_up(path) > was)  # type: ignore[misc]
    harness.resume("kafka", pid)
    await harness.kill_and_wait("kafka")
    await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)


async def _until_read_by_all(harness: ChaosHarness) -> None:
    """Waits until every service has read from the broker: after a kill just before, that takes a moment."""
    position, number = harness.history.position, harness.release_trials()
    await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)
    await harness.until_devices_busy()


def _times_given_up(log: Path) -> int:
    return log.read_text("utf-8", "replace").count(NO_ANSWER)


async def postgres_while_rows_are_written(harness: ChaosHarness) -> None:
    """Kills Postgres as soon as an end is in the log, before the read models have it."""
    position = harness.history.position
    harness.release_trials()
    await harness.history.next(AttemptEnded, position)
    await harness.kill_and_wait("postgres")


async def worker_paused_past_its_lease(harness: ChaosHarness) -> None:
    """Pauses the worker until its attempts are lost, then resumes it: what it still reports has no effect."""
    lost = [task.task_id for task in harness.history.in_flight]
    position = harness.history.position
    pid = await harness.pause("worker")
    await harness.history.next(WorkerLost, position)
    for task_id in lost:
        await harness.history.next(AttemptEnded, position, lambda e, _, task=task_id: e.task_id == task)  # type: ignore[misc]
    harness.publish()
    harness.resume("worker", pid)
    await harness.history.next(WorkerJoined, position)


async def dispatcher_paused_next_to_a_second_one(harness: ChaosHarness) -> None:
    """Pauses a dispatcher while a second instance decides, then resumes it in the middle of its decision."""
    second_instance = processes.spawn(rival(harness.running, "dispatcher"))
    try:
        harness.note(f"a second dispatcher starts ({second_instance.pid})")
        pid = await harness.pause("dispatcher")
        position, number = harness.history.position, harness.release_trials()
        await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)
        harness.resume("dispatcher", pid)
        await harness.until_devices_busy()
        position, number = harness.history.position, harness.release_trials()
        await harness.history.until_more(position, harness.rng.randrange(1, MAX_EVENTS_AFTER_END))
        pid = await harness.pause("dispatcher")
        await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)
        await harness.until_devices_busy()
        harness.resume("dispatcher", pid)
    finally:
        await _ended(harness, second_instance)


async def _ended(harness: ChaosHarness, second_instance: subprocess.Popen[bytes]) -> None:
    second_instance.terminate()
    await harness.until_exited(second_instance.pid)
    code = second_instance.wait()
    harness.note(f"the second dispatcher ended with {code}")
    assert code == 0


def at_a_record(name: str) -> Fault:
    """Returns a fault that kills a process at a random event among those after the end of a trial."""

    async def fault(harness: ChaosHarness) -> None:
        position, number = harness.history.position, harness.release_trials()
        await harness.history.until_more(position, harness.rng.randrange(1, MAX_EVENTS_AFTER_END))
        await harness.kill_and_wait(name)
        await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)

    fault.__name__ = f"{name}_at_a_record"
    return fault


async def two_at_once(harness: ChaosHarness) -> None:
    """Kills two processes at a random event among those after the end of a trial."""
    position, number = harness.history.position, harness.release_trials()
    await harness.history.until_more(position, harness.rng.randrange(1, MAX_EVENTS_AFTER_END))
    await asyncio.gather(*(harness.kill_and_wait(name) for name in harness.rng.sample(PROGRAMS, 2)))
    await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)


async def again_while_it_starts(harness: ChaosHarness) -> None:
    """Kills a process, and its successor as soon as that has a pid, before it is ready."""
    name = harness.rng.choice(PROGRAMS)
    position, number = harness.history.position, harness.release_trials()
    victim = await harness.kill_at_once(name)
    await harness.until(f"{name} starts", lambda: harness.running.pid(name) not in (victim, None))
    await harness.kill_and_wait(name)
    await harness.history.next(TrialEnded, position, lambda e, _: e.trial == number)


TARGETED: tuple[Fault, ...] = (
    dispatcher_with_an_end_unanswered,
    scheduler_with_a_task_unanswered,
    scheduler_before_it_commands_the_device,
    worker_with_attempts,
    forkserver_with_attempts,
    forkserver_and_worker_with_attempts,
    worker_with_an_unreported_end,
    task_process,
    summary_indexer_behind,
    console_while_pages_follow,
    broker_with_an_append_unanswered,
    postgres_while_rows_are_written,
    worker_paused_past_its_lease,
    dispatcher_paused_next_to_a_second_one,
)
ONE_KILL_EACH: tuple[Fault, ...] = (
    dispatcher_with_an_end_unanswered,
    scheduler_before_it_commands_the_device,
    worker_with_attempts,
    task_process,
    summary_indexer_behind,
    console_while_pages_follow,
    broker_with_an_append_unanswered,
    postgres_while_rows_are_written,
    worker_paused_past_its_lease,  # without it no event might be ignored
)
"""A kill of each kind of process of a stack, for the short run."""
ANY_MOMENT: tuple[Fault, ...] = tuple(at_a_record(name) for name in PROGRAMS)
SLOW_FAULTS: tuple[Fault, ...] = (
    broker_paused_until_consumers_are_replaced,
    two_at_once,
    two_at_once,
    again_while_it_starts,
    again_while_it_starts,
)
"""Slower faults, for the long runs."""
