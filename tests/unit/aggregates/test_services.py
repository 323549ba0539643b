"""What a command that submits a service may ask for, and what of it is refused with a hint."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.aggregates.batch.test_decide import SUBMIT, body, tasks
from tests.unit.aggregates.given import (
    CAPABILITIES,
    SPEC,
    START,
    answered,
    of_kind,
    published,
    react,
    refusal,
)
from tests.unit.domain.given import Told, record_of
from tests.unit.scheduler.given import worker
from trackside.aggregates.batch.messages import BatchStarted
from trackside.contracts.envelope.message import Json
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks.resources import ServicePolicy
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.fleet import fleet
from trackside.domain.fleet.capabilities import capabilities_of
from trackside.domain.fleet.fleet import Fleet

FACES_SERVE = replace(CAPABILITIES, services=frozenset({"faces"}))


def answer_to(given: Json, kind: str = SUBMIT) -> Any:
    events = answered(Told(), published(1, kind, given), FACES_SERVE)
    if len(events) > 1:
        return None
    (event,) = events
    assert isinstance(event, CommandRefused)
    return (*refusal(events)[:2], event.message)


def test_true_asks_for_a_service_with_its_defaults_and_false_for_none() -> None:
    told = Told()
    given = body([{"task_type": "faces", "service": True}, {"task_type": "digits", "service": False}])
    assert isinstance(answered(told, published(1, SUBMIT, given), FACES_SERVE)[-1], BatchStarted)
    assert [event.needs.service for event in of_kind(TaskSubmitted, react(told))] == [ServicePolicy(), None]


@pytest.mark.parametrize("rule", ["run_timeout_s", "queue_timeout_s", "retry"])
def test_a_service_has_no_time_limit_and_no_rules_for_tries(rule: str) -> None:
    value: Any = {"failed": 3} if rule == "retry" else 60
    task = {"task_type": "faces", "service": True, rule: value}
    code, path, message = answer_to(body([task]))
    assert (code, path) == ("bad_service", "$.groups[0].tasks[0].service")
    assert f"leave {rule} out" in message
    of_batch = body([{"task_type": "faces", "service": {"unresponsive_s": 30}}], **{rule: value})
    assert answer_to(of_batch)[:2] == ("bad_service", "$.groups[0].tasks[0].service")


TASK = "$.groups[0].tasks[0].task_type"


def test_a_task_is_a_service_if_its_type_is_or_is_told_what_to_write() -> None:
    for given, kind, code, path, says in (
        (body([{"task_type": "faces"}]), SUBMIT, "service_expected", TASK, "write `service: true`"),
        (body(tasks("a"), service=True), SUBMIT, "not_a_service", TASK, "`runner: service`"),
        (SPEC | {"service": True}, START, "bad_service", "$.service", "kind task"),
        (SPEC | {"task_type": "faces"}, START, "bad_service", "$.task_type", "kind task"),
    ):
        found, where, message = answer_to(given, kind)
        assert (found, where) == (code, path)
        assert says in message


def test_a_type_that_is_a_service_in_one_catalogue_only_is_accepted_either_way() -> None:
    state = Fleet()
    first = worker("w1", "i-1", types=["faces"]).model_copy(update={"services": ["faces"]})
    for offset, event in enumerate((first, worker("w2", "i-2", types=["faces", "digits"]))):
        fleet.evolve(state, record_of(event, offset))
    found = capabilities_of(state)
    assert (found.services, found.mixed) == (frozenset(), frozenset({"faces"}))
    for service in (True, False):
        events = answered(
            Told(), published(1, SUBMIT, body([{"task_type": "faces"}], service=service)), found
        )
        assert isinstance(events[-1], BatchStarted)


def test_a_task_without_devices_asks_for_nothing_of_a_gpu() -> None:
    for wanted in ({"kind": "gpu"}, {"whole_device": True}, {"estimate_cuda_memory": 1}, {"device": "gpu-1"}):
        given = body(tasks("a", resources={"devices": 0} | wanted))
        assert answer_to(given)[:2] == ("bad_resources", "$.groups[0].tasks[0].resources")
    assert answer_to(body(tasks("a", resources={"devices": 0}))) is None
