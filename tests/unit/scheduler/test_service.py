"""The scheduler reads several topics, between which there is no order; and what it counts of services."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from prometheus_client import REGISTRY

from tests.small_disk import small_disk
from tests.unit.domain.given import STREAM, Told, ended, over, record_of, task_active, task_id
from tests.unit.domain.test_services import answered, given, ready
from tests.unit.scheduler.given import worker
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Envelope, Event, Message
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet import fleet
from trackside.contracts.tasks.device_commands import GiveInstruction, StopTask
from trackside.contracts.tasks.tasks import AttemptEnd, TaskAssigned
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.eventlog.clock import now_ms
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.reactor.decider import DecisionContext
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.scheduler.service import Scheduler
from trackside.scheduler.settings import SchedulerSettings

TOPICS = Topics()
Said = TypeVar("Said", bound=Event)
CONTEXT = DecisionContext(now_ms=1_700_000_100_000, busy=lambda topic, stream: False)


class ServiceHarness:
    def __init__(self, watched: Path | None = None, recovered: Streams | None = None) -> None:
        self.log = MemoryLog()
        self.service = ServiceContext.on(self.log, TOPICS, "scheduler")
        if watched is not None:
            low = {"disk_folders": str(watched), "disk_low_percent": 100.0, "disk_low_free": "50MiB"}
            self.service.settings = self.service.settings.model_copy(update=low)
        self.scheduler = Scheduler(self.service, recovered or Streams(AGGREGATES), SchedulerSettings())
        self._next_offset = 0

    def fold(self, *events: Event, append_time_ms: int = 0) -> None:
        for event in events:
            topic = TOPICS.heartbeats if "Heartbeat" in type(event).__name__ else TOPICS.fleet
            record = replace(record_of(event, self._next_offset), topic=topic.name)
            self.scheduler.fold(replace(record, append_time_ms=append_time_ms))
            self._next_offset += 1

    def fold_all(self, told: Told) -> None:
        for record in told.records:
            self.scheduler.fold(record)

    async def sent(self) -> list[Message]:
        device = TOPICS.device("w1", "cpu-0")
        await self.log.ensure([TOPICS.heartbeats, device])
        self.scheduler.act(CONTEXT)
        await asyncio.gather(*self.service.background._tasks)
        reader = self.log.reader({(device.name, 0): 0})
        entries = await reader.read(0.0)
        return [record.message for entry in entries if (record := decode(entry)) is not None]

    def decided(self, kind: type[Said], context: DecisionContext = CONTEXT) -> list[Said]:
        events = [event for decision in self.scheduler.decide(context) for event in decision.proposal.events]
        return [event for event in events if isinstance(event, kind)]

    def assignments(self, *events: Event) -> list[str]:
        self.fold(*events)
        return [event.incarnation for event in self.decided(TaskAssigned)]


def heartbeat(**more: Any) -> fleet.WorkerHeartbeat:
    """Returns the heartbeat of a worker that runs attempt 1 of trial 0."""
    runs = fleet.RunningPlacement(
        stream=STREAM, task_id=task_id(0), attempt=1, placement=1, device_ids=["cpu-0"]
    )
    return idle(**more, running=[runs])


def idle(**more: Any) -> fleet.WorkerHeartbeat:
    return fleet.WorkerHeartbeat.model_validate(
        {"worker_id": "w1", "incarnation": "i-1", "running": [], **more}
    )


async def test_a_heartbeat_that_was_read_too_early_or_sent_just_before_an_end_stops_nothing() -> None:
    harness, told = ServiceHarness(), task_active()
    harness.fold(heartbeat())
    harness.fold_all(told)
    harness.fold(heartbeat())
    assert await harness.sent() == []
    harness, told = ServiceHarness(), task_active()
    told.tell(ended(AttemptEnd.FINISHED))
    harness.fold_all(told)
    harness.fold(heartbeat(), idle(), heartbeat())
    assert await harness.sent() == []


async def test_a_placement_that_was_given_up_or_settled_is_stopped_when_heartbeats_list_it() -> None:
    harness, told = ServiceHarness(), task_active()
    told.tell(ended(AttemptEnd.LOST), role="scheduler")
    harness.fold_all(told)
    for _ in range(2):  # the first may have been sent before the log gave the placement up
        harness.fold(heartbeat())
    (stop,) = await harness.sent()
    assert isinstance(stop, StopTask) and (stop.attempt, stop.placement, stop.reason) == (1, 1, "stray")
    harness, told, streams = ServiceHarness(), task_active(), Streams(AGGREGATES)
    harness.scheduler = Scheduler(harness.service, streams, SchedulerSettings())
    assert told.tell(ended(), over(0)) == [Outcome.APPLIED] * 2
    harness.fold_all(told)
    harness.scheduler.act(CONTEXT)
    assert streams.by_id[STREAM].tasks == {}, "it is forgotten"
    harness.fold(heartbeat(), heartbeat())
    (stop,) = await harness.sent()
    assert isinstance(stop, StopTask) and (stop.attempt, stop.placement, stop.reason) == (1, 1, "stray")


async def test_digests_list_what_their_whole_heartbeat_lists() -> None:
    harness, told = ServiceHarness(), task_active()
    harness.fold_all(told)
    whole = heartbeat(sequence=7)
    digest = fleet.WorkerHeartbeatDigest(incarnation="i-1", sequence=8, whole=7)
    harness.fold(digest)  # it is not known what this one means
    harness.fold(whole)
    told.tell(ended(AttemptEnd.LOST), role="scheduler")
    harness.fold_all(told)
    harness.fold(digest)
    assert await harness.sent() == []
    harness.fold(digest.model_copy(update={"sequence": 9}))
    (stop,) = await harness.sent()
    assert isinstance(stop, StopTask) and stop.reason == "stray"


@pytest.mark.parametrize("whole", [None, 1])
def test_digests_renew_a_lease_also_if_their_whole_heartbeat_is_not_known(whole: int | None) -> None:
    harness, limit_ms = ServiceHarness(), int(SchedulerSettings().lease_s * 1000)
    harness.fold(worker(), worker("w2", "i-2"))
    if whole is not None:
        harness.fold(idle(sequence=whole))
    own = fleet.SchedulerHeartbeat(instance=harness.service.writer.instance)
    lost: set[str] = set()
    for at in range(2 * limit_ms // 1_000):
        lost |= {event.worker_id for event in harness.decided(fleet.WorkerLost)}
        digest = fleet.WorkerHeartbeatDigest(incarnation="i-1", sequence=2 + at, whole=1)
        harness.fold(digest)
        harness.fold(own, append_time_ms=1_000 * at)
    assert lost == {"w2"}


def test_the_whole_heartbeat_of_a_worker_that_joins_later_is_kept_while_others_join() -> None:
    harness = ServiceHarness()
    reading = fleet.DeviceReading(device_id="cpu-0", foreign_bytes=5)
    harness.fold(idle(devices=(reading,), sequence=1), worker("w2", "i-2"))
    digest = fleet.WorkerHeartbeatDigest(incarnation="i-1", sequence=2, whole=1, cpu_percent=70.0)
    harness.fold(digest, worker())
    host = harness.scheduler._cluster.hosts.by_id["w1"]
    assert (host.cpu_percent, host.devices["cpu-0"].foreign_bytes) == (70.0, 5)


def test_an_incarnation_whose_endings_were_recovered_gets_nothing_more_also_if_it_joins_later() -> None:
    harness, told = ServiceHarness(), task_active()
    harness.fold(worker())
    told.tell(ended(AttemptEnd.LOST).model_copy(update={"recovered": True}))
    harness.fold_all(told)
    assert harness.assignments() == []
    assert harness.assignments(worker(incarnation="i-2")) == ["i-2"]
    harness, told = ServiceHarness(), task_active()
    told.tell(ended(AttemptEnd.LOST).model_copy(update={"recovered": True}))
    harness.fold_all(told)
    for joined in (worker("w2", "i-9", types=()), worker()):
        assert harness.assignments(joined) == []
    assert harness.assignments(worker(incarnation="i-2")) == ["i-2"]


def waiting_task(harness: ServiceHarness) -> None:
    """Folds a worker, and a task whose placement was lost: it waits for a device."""
    told = task_active()
    harness.fold(worker())
    told.tell(ended(AttemptEnd.LOST), role="scheduler")
    harness.fold_all(told)


def test_a_worker_whose_disk_is_low_gets_no_task_until_its_heartbeats_say_it_is_over() -> None:
    harness, full = ServiceHarness(), "the disk of /data is nearly full"
    waiting_task(harness)
    assert harness.assignments(idle(disk_low=full)) == []
    assert harness.assignments(idle()) == ["i-1"]


async def test_no_task_is_placed_while_a_watched_disk_is_low(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "100m") as disk:
        harness = ServiceHarness(disk.folder)
        disk.fill(leave_bytes=40 * 2**20)
        waiting_task(harness)
        await harness.sent()
        assert (harness.assignments(), harness.service.health.disk_low != "") == ([], True)
        disk.empty()
        harness.scheduler._heartbeat_due_ms = 0
        await harness.sent()
        assert (harness.assignments(), harness.service.health.disk_low) == (["i-1"], "")


def test_an_assignment_that_came_too_early_is_not_repeated_at_once_after_the_clock_was_set_back() -> None:
    harness, hour_ms = ServiceHarness(), 3_600_000
    waiting_task(harness)
    ahead = replace(CONTEXT, now_ms=now_ms() + hour_ms)
    (decision,) = harness.scheduler.decide(ahead)
    (assigned,) = decision.proposal.events
    record = record_of(assigned, 100, "scheduler", STREAM)
    envelope = Envelope({**record.envelope.headers, "ce_source": harness.scheduler._writer.source.encode()})
    harness.scheduler.fold(replace(record, envelope=envelope, append_time_ms=0))
    assert [*harness.scheduler.decide(replace(ahead, now_ms=ahead.now_ms + 10))] == []
    assert len([*harness.scheduler.decide(replace(ahead, now_ms=ahead.now_ms + 250))]) == 1


ANSWERED = "trackside_scheduler_instruction_seconds_count"
RESTARTS = "trackside_scheduler_restarted_services_tasks_total"


def sample(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


async def test_the_time_of_an_instruction_is_counted_once_by_the_scheduler_that_sent_it() -> None:
    told, harness, standby = task_active(service=True), ServiceHarness(), ServiceHarness()
    harness.fold(worker())
    standby.fold(worker())
    told.tell(ready())
    told.tell(given())
    harness.fold_all(told)
    before, total_s = sample(ANSWERED), sample("trackside_scheduler_instruction_seconds_sum")
    (command,) = await harness.sent()
    assert isinstance(command, GiveInstruction) and sample("trackside_scheduler_ready_services_tasks") == 1
    assert sample("trackside_scheduler_unacknowledged_instructions") == 1
    told.next_offset += 250
    told.tell(answered())
    harness.scheduler.fold(told.records[-1])
    harness.scheduler.fold(told.records[-1])
    standby.fold_all(told)
    assert sample(ANSWERED) == before + 1
    assert 0.25 <= sample("trackside_scheduler_instruction_seconds_sum") - total_s < 0.3


async def test_a_service_that_is_placed_again_is_counted_and_its_first_placement_is_not() -> None:
    told, harness = task_active(service=True), ServiceHarness()
    harness.fold(worker())
    told.tell(ended(AttemptEnd.FAILED))
    harness.fold_all(told)
    before = sample(RESTARTS)
    later = replace(CONTEXT, now_ms=told.task().not_before_ms + 1)
    (placed,) = harness.decided(TaskAssigned, later)
    assert placed.attempt == 2
    assert sample(RESTARTS) == before, "the log does not have it yet"
    told.next_offset += later.now_ms  # an append time later than the pause before the attempt
    told.tell(placed, role="scheduler")
    assert harness.scheduler.fold(told.records[-1]) is Outcome.APPLIED
    assert sample(RESTARTS) == before, "any scheduler may have decided it"
    harness.scheduler.count(told.records[-1])
    assert sample(RESTARTS) == before + 1
