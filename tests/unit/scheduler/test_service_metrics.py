"""What the scheduler counts of services and of instructions, in a registry that all tests share."""

from dataclasses import replace

from prometheus_client import REGISTRY

from tests.unit.domain.given import ended, task_active
from tests.unit.domain.test_services import answered, given, ready
from tests.unit.scheduler.given import worker
from tests.unit.scheduler.test_service import FACTS, TOPICS, ServiceHarness
from trackside.contracts.device_commands import GiveInstruction
from trackside.contracts.tasks import AttemptEnd, TaskAssigned
from trackside.domain.outcome import Outcome

ANSWERED = "trackside_scheduler_instruction_seconds_count"
RESTARTS = "trackside_scheduler_restarted_services_tasks_total"


def sample(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


async def test_the_time_of_an_instruction_is_counted_once_by_the_scheduler_that_sent_it() -> None:
    told, harness, standby = task_active(service=True), ServiceHarness(), ServiceHarness()
    harness.fold(TOPICS.fleet.name, worker())
    standby.fold(TOPICS.fleet.name, worker())
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
    harness.fold(TOPICS.fleet.name, worker())
    told.tell(ended(AttemptEnd.FAILED))
    harness.fold_all(told)
    before = sample(RESTARTS)
    later = replace(FACTS, now_ms=told.task().not_before_ms + 1)
    (placed,) = harness.decided(TaskAssigned, later)
    assert placed.attempt == 2
    assert sample(RESTARTS) == before, "the log does not have it yet"
    told.next_offset += later.now_ms  # an append time later than the pause before the attempt
    told.tell(placed, role="scheduler")
    assert harness.scheduler.fold(told.records[-1]) is Outcome.APPLIED
    assert sample(RESTARTS) == before, "any scheduler may have decided it"
    harness.scheduler.count(told.records[-1])
    assert sample(RESTARTS) == before + 1
