"""The scheduler as a process on real Kafka: placements, repeated commands, strays, and kills."""

from collections.abc import AsyncIterator
from itertools import count

import pytest

from tests.integration.scheduler.harness import ProcessHarness, command_received
from tests.service_processes import ServiceProcess
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.fleet.draining import DeviceDrained, DeviceResumed
from trackside.contracts.fleet.fleet import WorkerHeartbeat, WorkerHeartbeatDigest
from trackside.contracts.tasks.device_commands import RecallTask, RunTask, StopTask
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskAccepted, TaskAssigned, TaskReturned
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.settings import StackSettings


@pytest.fixture
async def harness(settings: StackSettings, scheduler: ServiceProcess) -> AsyncIterator[ProcessHarness]:
    async with KafkaLog(settings.kafka_bootstrap, "harness") as log:
        yield ProcessHarness(log, settings.topics, scheduler, new_id("q"))


def accepted(run: RunTask) -> TaskAccepted:
    return TaskAccepted(
        task_id=run.task_id, attempt=run.attempt, placement=run.placement, incarnation=run.incarnation
    )


def finished(run: RunTask) -> AttemptEnded:
    return AttemptEnded(**accepted(run).model_dump(), end=AttemptEnd.FINISHED)


async def test_tasks_are_placed_first_come_first_served_and_sent_again_until_they_are_answered(
    harness: ProcessHarness,
) -> None:
    """One that waits is told again only once its device is free."""
    incarnation = await harness.join_worker("w1")
    await harness.submit("a", "b")
    first = await harness.run_of("a")
    assert (first.wait, first.incarnation, first.attempt) == (False, incarnation, 1)
    behind = await harness.run_of("b")
    assert (behind.wait, behind.device_ids) == (True, first.device_ids)
    assert await harness.run_of("a", nth=3) == first
    assert [run.task_id for run in harness.of(RunTask)].count(harness.own("b")) == 1
    assert len(harness.of(TaskAssigned)) == 2
    await harness.publish("worker", accepted(first), finished(first))
    await harness.run_of("b", nth=2)


async def test_a_task_that_waits_is_asked_back_for_a_device_that_is_free(harness: ProcessHarness) -> None:
    await harness.join_worker("w1")
    await harness.submit("a", "b")
    behind = await harness.run_of("b")
    other = await harness.join_worker("w2")
    recall = await harness.until(RecallTask)
    assert (recall.task_id, recall.placement) == (behind.task_id, 1)
    assert recall.incarnation == behind.incarnation
    await harness.until(RecallTask, nth=2)
    await harness.publish("worker", TaskReturned(**accepted(behind).model_dump()))
    again = await harness.run_of("b", placement=2)
    assert (again.incarnation, again.wait, again.attempt) == (other, False, 1)


@pytest.mark.parametrize("restarts", [False, True], ids=["runs", "starts between heartbeats"])
async def test_a_placement_that_the_log_has_left_behind_is_stopped_and_an_unknown_one_left_alone(
    harness: ProcessHarness, restarts: bool
) -> None:
    """One that starts later learns from the next whole heartbeat and its digests."""
    incarnation = await harness.join_worker("w1", slots=2)
    await harness.submit("a", "b")
    run = await harness.run_of("a")
    await harness.publish("worker", accepted(run), finished(run))
    if restarts:
        harness.scheduler.restart()
    numbers, runs = count(3), [harness.placement(name) for name in ("unheard-of", "b", "a")]

    async def beat() -> None:
        """Beats again and again, as a worker does: the first may be read before the end of the task is."""
        number = next(numbers)
        behind = number % 5
        whole = WorkerHeartbeat(
            worker_id=harness.own("w1"), incarnation=incarnation, running=runs, sequence=number
        )
        digest = WorkerHeartbeatDigest(incarnation=incarnation, sequence=number, whole=number - behind)
        await harness.publish_sign_of_life("w1", digest if behind else whole)

    await harness.until(StopTask, before_each_read=beat)
    assert {(stop.task_id, stop.reason) for stop in harness.of(StopTask)} == {(run.task_id, "stray")}


async def test_fm_6_a_scheduler_killed_amid_its_decisions_loses_no_task_and_gives_none_to_two_devices(
    harness: ProcessHarness,
) -> None:
    names = [f"t{number:02}" for number in range(12)]
    await harness.join_worker("w1", slots=12)
    await harness.submit(*names)
    await harness.until(TaskAssigned)
    harness.scheduler.restart()
    for name in names:
        run = await harness.run_of(name)
        await harness.publish("worker", accepted(run), finished(run))
    runs = harness.of(RunTask)
    placed = {(run.task_id, run.attempt, run.placement, tuple(run.device_ids)) for run in runs}
    own = [harness.own(name) for name in names]
    assert sorted(place[0] for place in placed) == own, "each had one place, and no second one"


async def test_fm_7_a_decision_that_no_device_was_told_is_told_by_the_next_scheduler(
    harness: ProcessHarness,
) -> None:
    incarnation = await harness.join_worker("w1")
    harness.scheduler.kill()
    await harness.submit("a")
    fields = {"attempt": 1, "placement": 1, "device_ids": ["cpu-0"], "seen": 1}
    place = {"task_id": harness.own("a"), "worker_id": harness.own("w1"), "incarnation": incarnation}
    assigned = TaskAssigned.model_validate(fields | place)
    await harness.publish("scheduler", assigned)
    harness.scheduler.start()
    assert (await harness.run_of("a")).incarnation == incarnation
    assert harness.of(TaskAssigned) == [assigned], "it is told, not decided again"


async def test_a_device_stays_drained_when_the_scheduler_starts_again(harness: ProcessHarness) -> None:
    await harness.join_worker("w1", slots=2)
    drained = DeviceDrained(command_id="drain", device_id="cpu-0")
    await harness.publish("dispatcher", command_received("drain"), drained, stream=harness.own("w1"))
    harness.scheduler.restart()
    await harness.submit("a")
    placed = await harness.run_of("a")
    assert placed.device_ids == ["cpu-1"]
    await harness.publish("worker", accepted(placed), finished(placed))
    resumed = DeviceResumed(command_id="resume", device_id="cpu-0")
    await harness.publish("dispatcher", command_received("resume"), resumed, stream=harness.own("w1"))
    await harness.submit("b", "c")
    await harness.until(RunTask, lambda run: run.device_ids == ["cpu-0"])
