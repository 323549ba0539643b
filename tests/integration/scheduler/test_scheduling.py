"""The scheduler as a process on real Kafka: placements, repeated commands, lost workers, orphans."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from tests.integration.scheduler.harness import STREAM, ProcessHarness, command_received
from tests.service_processes import ServiceProcess, service_process
from tests.stack import Servers
from trackside.cli.setup import prepare
from trackside.contracts.device_commands import GiveInstruction, RecallTask, RunTask, StopTask
from trackside.contracts.draining import DeviceDrained, DeviceResumed
from trackside.contracts.fleet import (
    DeviceReading,
    RunningPlacement,
    WorkerHeartbeat,
    WorkerHeartbeatDigest,
)
from trackside.contracts.instructions import InstructionAcknowledged, InstructionGiven
from trackside.contracts.resources import Needs, Resources
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskRefused,
    TaskReturned,
    TaskUnschedulable,
    TimeLimitReached,
)
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.settings import StackSettings


@pytest.fixture
def settings(stack: Servers, database: str) -> StackSettings:
    prefix = f"t{secrets.token_hex(4)}."
    made = StackSettings(kafka_bootstrap=stack.kafka_bootstrap, postgres_dsn=database, topic_prefix=prefix)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, prepare(made)).result()
    return made


@pytest.fixture
def lease_s() -> str:
    """Returns the lease: workers of these tests send no heartbeats by themselves."""
    return "3600"


@pytest.fixture
def scheduler(settings: StackSettings, lease_s: str, tmp_path: Path) -> Iterator[ServiceProcess]:
    variables = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "TRACKSIDE_POSTGRES_DSN": settings.postgres_dsn,
        "TRACKSIDE_TOPIC_PREFIX": settings.topic_prefix,
        "TRACKSIDE_SCHEDULER_LEASE_S": lease_s,
        "TRACKSIDE_SCHEDULER_HEARTBEAT_S": "0.2",
        "TRACKSIDE_SCHEDULER_RESEND_S": "0.3",
    }
    with service_process("scheduler", variables, tmp_path) as running:
        yield running


@pytest.fixture
async def harness(settings: StackSettings, scheduler: ServiceProcess) -> AsyncIterator[ProcessHarness]:
    async with KafkaLog(settings.kafka_bootstrap, "harness") as log:
        yield ProcessHarness(log, settings.topics, scheduler)


def accepted(run: RunTask) -> TaskAccepted:
    return TaskAccepted(
        task_id=run.task_id, attempt=run.attempt, placement=run.placement, incarnation=run.incarnation
    )


def finished(run: RunTask) -> AttemptEnded:
    return AttemptEnded(**accepted(run).model_dump(), end=AttemptEnd.FINISHED)


async def test_tasks_are_placed_first_come_first_served(harness: ProcessHarness) -> None:
    incarnation = await harness.join_worker("w1", slots=2)
    await harness.submit("a", "b", "c")
    first = await harness.until(RunTask, lambda run: not run.wait)
    second = await harness.until(RunTask, lambda run: not run.wait, nth=2)
    assert {first.task_id, second.task_id} == {"a", "b"}
    assert first.incarnation == incarnation
    third = await harness.until(RunTask, lambda run: run.wait)
    assert (third.task_id, third.attempt) == ("c", 1)
    assert third.device_ids in (first.device_ids, second.device_ids)


async def test_a_task_that_waits_is_told_again_only_once_its_device_is_free(harness: ProcessHarness) -> None:
    await harness.join_worker("w1")
    await harness.submit("a", "b")
    first = await harness.until(RunTask, lambda run: run.task_id == "a")
    await harness.until(RunTask, lambda run: run.task_id == "b")
    await harness.until(RunTask, lambda run: run.task_id == "a", nth=3)
    assert len([run for _, run in harness.seen if isinstance(run, RunTask) and run.task_id == "b"]) == 1
    await harness.publish("worker", accepted(first), finished(first))
    await harness.until(RunTask, lambda run: run.task_id == "b", nth=2)


async def test_a_task_that_waits_is_asked_back_for_a_device_that_is_free(harness: ProcessHarness) -> None:
    await harness.join_worker("w1")
    await harness.submit("a", "b")
    behind = await harness.until(RunTask, lambda run: run.task_id == "b")
    other = await harness.join_worker("w2")
    recall = await harness.until(RecallTask)
    assert (recall.task_id, recall.placement, recall.incarnation) == ("b", 1, behind.incarnation)
    await harness.until(RecallTask, nth=2)
    await harness.publish("worker", TaskReturned(**accepted(behind).model_dump()))
    again = await harness.until(RunTask, lambda run: run.task_id == "b" and run.placement == 2)
    assert (again.incarnation, again.wait, again.attempt) == (other, False, 1)


async def test_a_running_task_is_given_its_newest_instruction_again_until_it_has_acknowledged_it(
    harness: ProcessHarness,
) -> None:
    await harness.join_worker("w1")
    await harness.submit("a")
    run = await harness.until(RunTask)
    await harness.publish("worker", accepted(run))
    for number in (1, 2):
        given = InstructionGiven(command_id=f"c-{number}", task_id="a", number=number, body={"n": number})
        await harness.publish("dispatcher", given)
    third = await harness.until(GiveInstruction, lambda command: command.instruction.number == 2, nth=3)
    assert third.instruction.body == {"n": 2}
    said = InstructionAcknowledged(**accepted(run).model_dump(), number=2, ok=True)
    await harness.publish("worker", said)
    await harness.until(InstructionAcknowledged)
    given = InstructionGiven(command_id="c-3", task_id="a", number=3, body={})
    await harness.publish("dispatcher", given)
    await harness.until(GiveInstruction, lambda command: command.instruction.number == 3, nth=3)
    sent = [each.instruction.number for _, each in harness.seen if isinstance(each, GiveInstruction)]
    assert sent == sorted(sent), "the second one was not sent again after its acknowledgement"


async def test_a_task_makes_room_for_one_of_higher_priority_and_runs_again(harness: ProcessHarness) -> None:
    await harness.join_worker("w1")
    await harness.submit("low", needs=Needs(priority=1))
    low = await harness.until(RunTask)
    await harness.publish("worker", accepted(low))
    await harness.submit("high", needs=Needs(priority=9, preempt=True))
    stop = await harness.until(StopTask)
    assert (stop.task_id, stop.end) == ("low", "preempted")
    await harness.publish("worker", AttemptEnded(**accepted(low).model_dump(), end=AttemptEnd.PREEMPTED))
    high = await harness.until(RunTask, lambda run: run.task_id == "high" and not run.wait)
    await harness.publish("worker", accepted(high), finished(high))
    again = await harness.until(RunTask, lambda run: run.task_id == "low" and run.placement > 1)
    assert again.attempt == 1


async def test_bi_30_a_task_that_no_device_can_hold_is_told_so_and_ends_at_its_time_limit(
    harness: ProcessHarness,
) -> None:
    await harness.join_worker("w1", gpu_gib=24)
    resources = Resources(kind="gpu", estimate_cuda_memory=80 * 1024**3)
    await harness.submit("a", needs=Needs(resources=resources, queue_timeout_s=2))
    said = await harness.until(TaskUnschedulable)
    assert said.message == "needs 80 GiB on one device, the largest has 24 GiB (w1/gpu-0)"
    reached = await harness.until(TimeLimitReached)
    assert (reached.task_id, reached.limit) == ("a", "queue")


async def test_t18_a_gpu_is_shared_by_what_fits_as_heartbeats_tell(harness: ProcessHarness) -> None:
    incarnation = await harness.join_worker("w1", gpu_gib=24)
    resources = Resources(kind="gpu", estimate_cuda_memory=7 * 1024**3)
    await harness.submit("a", needs=Needs(resources=resources))
    first = await harness.until(RunTask)
    await harness.publish("worker", accepted(first))
    reading = DeviceReading(device_id="gpu-0", foreign_bytes=10 * 1024**3)
    stray = running("a").model_copy(update={"placement": 0, "device_ids": ["gpu-0"]})
    for _ in range(2):  # a single heartbeat that lists it may be older than its end
        await harness.publish_heartbeat("w1", incarnation, stray, devices=(reading,))
    await harness.until(StopTask)  # so the heartbeats were read
    await harness.submit("b", "c", needs=Needs(resources=resources))
    second = await harness.until(RunTask, lambda run: run.task_id == "b")
    assert (second.wait, second.device_ids) == (False, ["gpu-0"])
    assert second.reserved.cuda_memory_bytes == 7 * 1024**3
    assert (await harness.until(RunTask, lambda run: run.task_id == "c")).wait


async def test_an_unanswered_device_command_is_sent_again(harness: ProcessHarness) -> None:
    await harness.join_worker("w1")
    await harness.submit("a")
    first = await harness.until(RunTask)
    assert await harness.until(RunTask, nth=2) == first
    assigned = [message for _, message in harness.seen if isinstance(message, TaskAssigned)]
    assert len(assigned) == 1


async def test_a_refused_task_is_placed_again_as_the_same_attempt(harness: ProcessHarness) -> None:
    await harness.join_worker("w1")
    await harness.submit("a")
    run = await harness.until(RunTask)
    refused = TaskRefused(**accepted(run).model_dump(), code="device_busy", message="busy")
    await harness.publish("worker", refused)
    again = await harness.until(RunTask, lambda other: other.placement == 2)
    assert again.attempt == 1


@pytest.mark.parametrize("lease_s", ["4"])
async def test_a_silent_worker_is_lost_and_its_task_given_back_as_a_new_attempt(
    harness: ProcessHarness,
) -> None:
    await harness.join_worker("w1")
    await harness.submit("a")
    run = await harness.until(RunTask)
    await harness.publish("worker", accepted(run))
    lost = await harness.until(AttemptEnded)
    assert (lost.end, lost.attempt, lost.incarnation) == (AttemptEnd.LOST, 1, run.incarnation)
    other = await harness.join_worker("w2")
    again = await harness.until(RunTask, lambda next_: next_.attempt == 2)
    assert again.incarnation == other


async def test_a_worker_that_joins_anew_gives_its_tasks_back_at_once(harness: ProcessHarness) -> None:
    await harness.join_worker("w1")
    await harness.submit("a")
    run = await harness.until(RunTask)
    await harness.publish("worker", accepted(run))
    anew = await harness.join_worker("w1")
    again = await harness.until(RunTask, lambda next_: next_.attempt == 2)
    assert again.incarnation == anew


async def test_a_placement_that_the_log_has_left_behind_is_stopped_and_an_unknown_one_left_alone(
    harness: ProcessHarness,
) -> None:
    incarnation = await harness.join_worker("w1", slots=2)
    await harness.submit("a", "b")
    run = await harness.until(RunTask, lambda run: run.task_id == "a")
    await harness.publish("worker", accepted(run), finished(run))
    runs = (running("unheard-of"), running("b"), running("a"))
    # Again and again, as a worker does: the first may be read before the end of the task is.
    stop = await harness.until(
        StopTask, before_each_read=lambda: harness.publish_heartbeat("w1", incarnation, *runs)
    )
    assert stop.task_id == "a"
    stops = [message for _, message in harness.seen if isinstance(message, StopTask)]
    assert {(stop.task_id, stop.reason) for stop in stops} == {("a", "stray")}


async def test_a_scheduler_that_starts_between_heartbeats_learns_from_the_next_whole_one_and_its_digests(
    harness: ProcessHarness,
) -> None:
    incarnation = await harness.join_worker("w1", slots=2)
    await harness.submit("a", "b")
    run = await harness.until(RunTask, lambda run: run.task_id == "a")
    await harness.publish("worker", accepted(run), finished(run))
    harness.scheduler.restart()
    numbers, runs = count(3), [running("a"), running("b")]

    async def beat() -> None:
        number = next(numbers)
        whole, behind = WorkerHeartbeat(worker_id="w1", incarnation=incarnation, running=runs), number % 5
        digest = WorkerHeartbeatDigest(incarnation=incarnation, sequence=number, whole=number - behind)
        again = whole.model_copy(update={"sequence": number})
        await harness.publish_sign_of_life("w1", digest if behind else again)

    stop = await harness.until(StopTask, before_each_read=beat)
    assert (stop.task_id, stop.reason) == ("a", "stray")


def running(task_id: str) -> RunningPlacement:
    return RunningPlacement(stream=STREAM, task_id=task_id, attempt=1, placement=1, device_ids=["cpu-0"])


async def test_fm_6_a_scheduler_killed_amid_its_decisions_loses_no_task_and_gives_none_to_two_devices(
    harness: ProcessHarness,
) -> None:
    names = [f"t{number:02}" for number in range(12)]
    await harness.join_worker("w1", slots=12)
    await harness.submit(*names)
    await harness.until(TaskAssigned)
    harness.scheduler.restart()
    for name in names:
        run = await harness.until(RunTask, lambda run, name=name: run.task_id == name)  # type: ignore[misc]
        await harness.publish("worker", accepted(run), finished(run))
    runs = [message for _, message in harness.seen if isinstance(message, RunTask)]
    placed = {(run.task_id, run.attempt, run.placement, tuple(run.device_ids)) for run in runs}
    assert sorted(place[0] for place in placed) == names, "each had one place, and no second one"


async def test_fm_7_a_decision_that_no_device_was_told_is_told_by_the_next_scheduler(
    harness: ProcessHarness,
) -> None:
    incarnation = await harness.join_worker("w1")
    harness.scheduler.kill()
    await harness.submit("a")
    assigned = TaskAssigned(
        task_id="a",
        attempt=1,
        placement=1,
        worker_id="w1",
        incarnation=incarnation,
        device_ids=["cpu-0"],
        seen=1,
    )
    await harness.publish("scheduler", assigned)
    harness.scheduler.start()
    run = await harness.until(RunTask)
    assert (run.task_id, run.placement, run.incarnation) == ("a", 1, incarnation)
    said = [message for _, message in harness.seen if isinstance(message, TaskAssigned)]
    assert said == [assigned], "it is told, not decided again"


async def test_a_killed_scheduler_tells_the_device_what_it_had_decided(harness: ProcessHarness) -> None:
    await harness.submit("a")
    incarnation = await harness.join_worker("w1")
    await harness.until(TaskAssigned)
    harness.scheduler.restart()
    run = await harness.until(RunTask)
    await harness.publish_heartbeat("w1", incarnation)
    assert (run.task_id, run.placement) == ("a", 1)


async def test_a_device_stays_drained_when_the_scheduler_starts_again(harness: ProcessHarness) -> None:
    await harness.join_worker("w1", slots=2)
    command = command_received("drain")
    drained = DeviceDrained(command_id="drain", device_id="cpu-0")
    await harness.publish("dispatcher", command, drained, stream="w1")
    harness.scheduler.kill()
    harness.scheduler.start()
    await harness.submit("a")
    placed = await harness.until(RunTask)
    assert placed.device_ids == ["cpu-1"]
    await harness.publish("worker", accepted(placed), finished(placed))
    resumed = DeviceResumed(command_id="resume", device_id="cpu-0")
    await harness.publish("dispatcher", command_received("resume"), resumed, stream="w1")
    await harness.submit("b", "c")
    await harness.until(RunTask, lambda run: run.task_id != "a" and run.device_ids == ["cpu-0"])
