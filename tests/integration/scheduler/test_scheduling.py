"""The scheduler as a process on real Kafka: placements, repeated commands, lost workers, strays."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from tests.processes import Service, service
from tests.stack import Servers
from trackside.cli.setup import prepare
from trackside.contracts.commands import RULES, CommandReceived, Source
from trackside.contracts.fleet import Device, DeviceReading, RunningPlacement, WorkerHeartbeat, WorkerJoined
from trackside.contracts.ids import new_id
from trackside.contracts.message import Message
from trackside.contracts.resources import Needs, Resources
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    RecallTask,
    RunTask,
    StopTask,
    TaskAccepted,
    TaskAssigned,
    TaskRefused,
    TaskReturned,
    TaskSubmitted,
    TaskUnschedulable,
    TimeLimitReached,
)
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.record_writer import RecordWriter
from trackside.eventlog.settings import StackSettings

Kind = TypeVar("Kind", bound=Message)
STREAM = "s"


class Hall:
    """The hall of one test: its topics, one reader of everything, and what a dispatcher or worker says."""

    def __init__(self, log: KafkaLog, topics: Topics, scheduler: Service) -> None:
        self.log = log
        self.topics = topics
        self.scheduler = scheduler
        events = topics.events
        self._reader = log.reader({(events.name, at): 0 for at in range(events.partitions)})
        self.seen: list[tuple[str, Message]] = []

    async def join(self, worker: str, slots: int = 1, gpu_gib: int = 0) -> str:
        incarnation = new_id()
        devices = [
            Device(device_id=f"cpu-{at}", kind="cpu", name="cpu", memory_bytes=1) for at in range(slots)
        ]
        if gpu_gib:
            size = gpu_gib * 1024**3
            devices = [Device(device_id="gpu-0", kind="gpu", name="gpu", memory_bytes=size, index=0)]
        topics = [self.topics.device(worker, device.device_id) for device in devices]
        await self.log.ensure(topics)
        self._reader.assign({(topic.name, 0): 0 for topic in topics})
        joined = WorkerJoined(
            worker_id=worker,
            incarnation=incarnation,
            host="here",
            devices=devices,
            task_types=["noop"],
            queues=["default"],
            after={},
        )
        record = RecordWriter("worker", worker).single(worker, joined)
        await self.log.append(self.topics.fleet.name, 0, [record])
        return incarnation

    async def submit(self, *task_ids: str, needs: Needs | None = None) -> None:
        received = CommandReceived(
            command_id=new_id(),
            command_type="test",
            body={},
            digest="",
            source=Source(topic="t", partition=0, offset=0),
            publisher="test",
            rules=RULES,
        )
        tasks = [
            TaskSubmitted(task_id=task_id, task_type="noop", parameters={}, needs=needs or Needs())
            for task_id in task_ids
        ]
        await self.say("dispatcher", received, *tasks)

    async def say(self, role: str, *messages: Message) -> None:
        writer = RecordWriter(role, "test")
        batch = [writer.single(STREAM, message) for message in messages]
        events = self.topics.events
        await self.log.append(events.name, partition_of(STREAM, events.partitions), batch)

    async def beat(
        self,
        worker: str,
        incarnation: str,
        *running: RunningPlacement,
        devices: tuple[DeviceReading, ...] = (),
    ) -> None:
        heartbeat = WorkerHeartbeat(
            worker_id=worker, incarnation=incarnation, running=list(running), devices=devices
        )
        record = RecordWriter("worker", worker).single(worker, heartbeat)
        await self.log.publish(self.topics.heartbeats.name, 0, record)

    async def until(
        self,
        kind: type[Kind],
        wanted: Callable[[Kind], bool] = lambda _: True,
        nth: int = 1,
        saying: Callable[[], Awaitable[None]] | None = None,
    ) -> Kind:
        """Waits for a message; `saying` is done before each look, for what counts only if it comes late."""
        async with asyncio.timeout(60):
            while True:
                if saying is not None:
                    await saying()
                found = [message for _, message in self.seen if isinstance(message, kind) and wanted(message)]
                if len(found) >= nth:
                    return found[nth - 1]
                for entry in await self._reader.read(1.0):
                    record = decode(entry)
                    if record is not None:
                        self.seen.append((entry.topic, record.message))


@pytest.fixture
def settings(stack: Servers, database: str) -> StackSettings:
    prefix = f"t{secrets.token_hex(4)}."
    made = StackSettings(kafka_bootstrap=stack.kafka_bootstrap, postgres_dsn=database, topic_prefix=prefix)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, prepare(made)).result()
    return made


@pytest.fixture
def lease_s() -> str:
    """Gives how long a worker may be silent: those of these tests say nothing by themselves."""
    return "3600"


@pytest.fixture
def scheduler(settings: StackSettings, lease_s: str, tmp_path: Path) -> Iterator[Service]:
    variables = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "TRACKSIDE_POSTGRES_DSN": settings.postgres_dsn,
        "TRACKSIDE_TOPIC_PREFIX": settings.topic_prefix,
        "TRACKSIDE_SCHEDULER_LEASE_S": lease_s,
        "TRACKSIDE_SCHEDULER_HEARTBEAT_S": "0.2",
        "TRACKSIDE_SCHEDULER_RESEND_S": "0.3",
    }
    with service("scheduler", variables, tmp_path) as running:
        yield running


@pytest.fixture
async def hall(settings: StackSettings, scheduler: Service) -> AsyncIterator[Hall]:
    async with KafkaLog(settings.kafka_bootstrap, "hall") as log:
        yield Hall(log, settings.topics, scheduler)


def accepted(run: RunTask) -> TaskAccepted:
    return TaskAccepted(
        task_id=run.task_id, attempt=run.attempt, placement=run.placement, incarnation=run.incarnation
    )


def finished(run: RunTask) -> AttemptEnded:
    return AttemptEnded(**accepted(run).model_dump(), end=AttemptEnd.FINISHED)


async def test_tasks_are_placed_first_come_first_served(hall: Hall) -> None:
    incarnation = await hall.join("w1", slots=2)
    await hall.submit("a", "b", "c")
    first = await hall.until(RunTask, lambda run: not run.wait)
    second = await hall.until(RunTask, lambda run: not run.wait, nth=2)
    assert {first.task_id, second.task_id} == {"a", "b"}
    assert first.incarnation == incarnation
    third = await hall.until(RunTask, lambda run: run.wait)
    assert (third.task_id, third.attempt) == ("c", 1)
    assert third.device_ids in (first.device_ids, second.device_ids)


async def test_a_task_that_waits_is_told_again_only_once_its_device_is_free(hall: Hall) -> None:
    await hall.join("w1")
    await hall.submit("a", "b")
    first = await hall.until(RunTask, lambda run: run.task_id == "a")
    await hall.until(RunTask, lambda run: run.task_id == "b")
    await hall.until(RunTask, lambda run: run.task_id == "a", nth=3)
    assert len([run for _, run in hall.seen if isinstance(run, RunTask) and run.task_id == "b"]) == 1
    await hall.say("worker", accepted(first), finished(first))
    await hall.until(RunTask, lambda run: run.task_id == "b", nth=2)


async def test_a_task_that_waits_is_asked_back_for_a_device_that_is_free(hall: Hall) -> None:
    await hall.join("w1")
    await hall.submit("a", "b")
    behind = await hall.until(RunTask, lambda run: run.task_id == "b")
    other = await hall.join("w2")
    recall = await hall.until(RecallTask)
    assert (recall.task_id, recall.placement, recall.incarnation) == ("b", 1, behind.incarnation)
    await hall.until(RecallTask, nth=2)
    await hall.say("worker", TaskReturned(**accepted(behind).model_dump()))
    again = await hall.until(RunTask, lambda run: run.task_id == "b" and run.placement == 2)
    assert (again.incarnation, again.wait, again.attempt) == (other, False, 1)


async def test_a_task_makes_room_for_one_of_higher_priority_and_runs_again(hall: Hall) -> None:
    await hall.join("w1")
    await hall.submit("low", needs=Needs(priority=1))
    low = await hall.until(RunTask)
    await hall.say("worker", accepted(low))
    await hall.submit("high", needs=Needs(priority=9, preempt=True))
    stop = await hall.until(StopTask)
    assert (stop.task_id, stop.end) == ("low", "preempted")
    await hall.say("worker", AttemptEnded(**accepted(low).model_dump(), end=AttemptEnd.PREEMPTED))
    high = await hall.until(RunTask, lambda run: run.task_id == "high" and not run.wait)
    await hall.say("worker", accepted(high), finished(high))
    again = await hall.until(RunTask, lambda run: run.task_id == "low" and run.placement > 1)
    assert again.attempt == 1


async def test_bi_30_a_task_that_no_device_can_hold_is_told_so_and_ends_at_its_time_limit(hall: Hall) -> None:
    await hall.join("w1", gpu_gib=24)
    resources = Resources(kind="gpu", estimate_cuda_memory=80 * 1024**3)
    await hall.submit("a", needs=Needs(resources=resources, queue_timeout_s=2))
    said = await hall.until(TaskUnschedulable)
    assert said.message == "needs 80 GiB on one device, the largest has 24 GiB (w1/gpu-0)"
    reached = await hall.until(TimeLimitReached)
    assert (reached.task_id, reached.limit) == ("a", "queue")


async def test_t18_a_gpu_is_shared_by_what_fits_as_heartbeats_tell(hall: Hall) -> None:
    incarnation = await hall.join("w1", gpu_gib=24)
    resources = Resources(kind="gpu", estimate_cuda_memory=7 * 1024**3)
    await hall.submit("a", needs=Needs(resources=resources))
    first = await hall.until(RunTask)
    await hall.say("worker", accepted(first))
    reading = DeviceReading(device_id="gpu-0", foreign_bytes=10 * 1024**3)
    stray = running("a").model_copy(update={"placement": 0, "device_ids": ["gpu-0"]})
    await hall.beat("w1", incarnation, stray, devices=(reading,))
    await hall.until(StopTask)  # so the heartbeat was read
    await hall.submit("b", "c", needs=Needs(resources=resources))
    second = await hall.until(RunTask, lambda run: run.task_id == "b")
    assert (second.wait, second.device_ids) == (False, ["gpu-0"])
    assert second.reserved.cuda_memory_bytes == 7 * 1024**3
    assert (await hall.until(RunTask, lambda run: run.task_id == "c")).wait


async def test_an_unanswered_device_command_is_sent_again(hall: Hall) -> None:
    await hall.join("w1")
    await hall.submit("a")
    first = await hall.until(RunTask)
    assert await hall.until(RunTask, nth=2) == first
    assigned = [message for _, message in hall.seen if isinstance(message, TaskAssigned)]
    assert len(assigned) == 1


async def test_a_refused_task_is_placed_again_as_the_same_attempt(hall: Hall) -> None:
    await hall.join("w1")
    await hall.submit("a")
    run = await hall.until(RunTask)
    refused = TaskRefused(**accepted(run).model_dump(), code="device_busy", message="busy")
    await hall.say("worker", refused)
    again = await hall.until(RunTask, lambda other: other.placement == 2)
    assert again.attempt == 1


@pytest.mark.parametrize("lease_s", ["4"])
async def test_a_silent_worker_is_lost_and_its_task_given_back_as_a_new_attempt(hall: Hall) -> None:
    await hall.join("w1")
    await hall.submit("a")
    run = await hall.until(RunTask)
    await hall.say("worker", accepted(run))
    lost = await hall.until(AttemptEnded)
    assert (lost.end, lost.attempt, lost.incarnation) == (AttemptEnd.LOST, 1, run.incarnation)
    other = await hall.join("w2")
    again = await hall.until(RunTask, lambda next_: next_.attempt == 2)
    assert again.incarnation == other


async def test_a_worker_that_joins_anew_gives_its_tasks_back_at_once(hall: Hall) -> None:
    await hall.join("w1")
    await hall.submit("a")
    run = await hall.until(RunTask)
    await hall.say("worker", accepted(run))
    anew = await hall.join("w1")
    again = await hall.until(RunTask, lambda next_: next_.attempt == 2)
    assert again.incarnation == anew


async def test_a_placement_that_the_log_has_left_behind_is_stopped_and_an_unknown_one_left_alone(
    hall: Hall,
) -> None:
    incarnation = await hall.join("w1", slots=2)
    await hall.submit("a", "b")
    run = await hall.until(RunTask, lambda run: run.task_id == "a")
    await hall.say("worker", accepted(run), finished(run))
    runs = (running("unheard-of"), running("b"), running("a"))
    # Again and again, as a worker does: the first may be read before the end of the task is.
    stop = await hall.until(StopTask, saying=lambda: hall.beat("w1", incarnation, *runs))
    assert stop.task_id == "a"
    stops = [message for _, message in hall.seen if isinstance(message, StopTask)]
    assert {(stop.task_id, stop.reason) for stop in stops} == {("a", "stray")}


def running(task_id: str) -> RunningPlacement:
    return RunningPlacement(stream=STREAM, task_id=task_id, attempt=1, placement=1, device_ids=["cpu-0"])


async def test_fm_6_a_scheduler_killed_amid_its_decisions_loses_no_task_and_gives_none_to_two_devices(
    hall: Hall,
) -> None:
    names = [f"t{number:02}" for number in range(12)]
    await hall.join("w1", slots=12)
    await hall.submit(*names)
    await hall.until(TaskAssigned)
    hall.scheduler.again()
    for name in names:
        run = await hall.until(RunTask, lambda run, name=name: run.task_id == name)  # type: ignore[misc]
        await hall.say("worker", accepted(run), finished(run))
    runs = [message for _, message in hall.seen if isinstance(message, RunTask)]
    placed = {(run.task_id, run.attempt, run.placement, tuple(run.device_ids)) for run in runs}
    assert sorted(place[0] for place in placed) == names, "each had one place, and no second one"


async def test_fm_7_a_decision_that_no_device_was_told_is_told_by_the_next_scheduler(hall: Hall) -> None:
    incarnation = await hall.join("w1")
    hall.scheduler.kill()
    await hall.submit("a")
    assigned = TaskAssigned(
        task_id="a",
        attempt=1,
        placement=1,
        worker_id="w1",
        incarnation=incarnation,
        device_ids=["cpu-0"],
        seen=1,
    )
    await hall.say("scheduler", assigned)
    hall.scheduler.start()
    run = await hall.until(RunTask)
    assert (run.task_id, run.placement, run.incarnation) == ("a", 1, incarnation)
    said = [message for _, message in hall.seen if isinstance(message, TaskAssigned)]
    assert said == [assigned], "it is told, not decided again"


async def test_a_killed_scheduler_tells_the_device_what_it_had_decided(hall: Hall) -> None:
    await hall.submit("a")
    incarnation = await hall.join("w1")
    await hall.until(TaskAssigned)
    hall.scheduler.again()
    run = await hall.until(RunTask)
    await hall.beat("w1", incarnation)
    assert (run.task_id, run.placement) == ("a", 1)
