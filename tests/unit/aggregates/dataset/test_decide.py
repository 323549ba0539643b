"""Datasets: what may be registered, their watchers, and what people change of them."""

from typing import Any

import pytest

from tests.unit.aggregates.dataset import given
from tests.unit.aggregates.given import problems, published, refusal, the
from tests.unit.aggregates.pipeline.given import ask
from tests.unit.domain.given import Told, search_running
from trackside.aggregates.dataset import messages
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Command, Json
from trackside.contracts.fleet.fleet import WATCH_DATASET
from trackside.contracts.tasks.instructions import InstructionGiven
from trackside.contracts.tasks.resources import ServicePolicy
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested, TaskSubmitted
from trackside.domain.folding.lookup import NO_LOOKUP

DRIFT: Json = {"detector": "ks", "parameters": {"combine": "max"}, "reference": 50, "columns": ["x"]}


@pytest.mark.parametrize("has_drift", [False, True])
def test_a_dataset_that_is_registered_is_watched_by_a_service(has_drift: bool) -> None:
    """I34: a credential is named, and its worker's host must have it."""
    log = given.DatasetLog()
    more = {"url": "s3://b/k.csv", "format": "csv", "credential": "bucket", "drift": DRIFT}
    body = more if has_drift else given.BODY
    event = the(messages.DatasetRegistered, log.do(messages.RegisterDataset, body))
    task = the(TaskSubmitted, log.settle())
    assert (task.task_id, task.task_type) == ("digits-1.watch.1", WATCH_DATASET)
    expected: Json = {"url": event.dataset.url, "format": "csv" if has_drift else "txt", "look_s": 1.0}
    expected |= {"credential": "bucket", "drift": DRIFT | {"window": 200}} if has_drift else {}
    assert (task.parameters, task.needs.credentials) == (expected, ["bucket"] if has_drift else [])
    assert (task.needs.service, task.needs.resources.devices) == (ServicePolicy(), 0)


@pytest.mark.parametrize(
    ("changed", "code", "path"),
    [
        ({"credential": "buckets"}, "unknown_credential", "$.credential"),
        ({"url": "digits.txt"}, "bad_url", "$.url"),
        ({"url": "http://h/digits.txt"}, "bad_url", "$.url"),
        ({"url": "s3://bucket"}, "bad_url", "$.url"),
        ({"url": "s3://me:x@bucket/k"}, "credentials_in_url", "$.url"),
        ({"url": ""}, "bad_length", "$.url"),
        ({"format": "parquet"}, "unknown_value", "$.format"),
        ({"look_s": 0}, "look_s_range", "$.look_s"),
        ({"drift": {}}, "missing_field", "$.drift.detector"),
        ({"drift": DRIFT}, "unknown_field", "$.drift.columns"),
        ({"drift": {"detector": "ks", "reference": 1}}, "reference_range", "$.drift.reference"),
        ({"drift": {"detector": "ks", "window": True}}, "wrong_type", "$.drift.window"),
        ({"drift": {"detector": "ks", "columns": []}, "format": "csv"}, "bad_length", "$.drift.columns"),
    ],
)
def test_a_dataset_that_cannot_be_watched_is_refused(changed: Json, code: str, path: str) -> None:
    assert (code, path) in problems(given.DatasetLog().ask(messages.RegisterDataset, given.BODY | changed))


def test_all_that_is_wrong_with_a_dataset_is_said_at_once() -> None:
    body = {"url": "ftp://h/f", "credential": "buckets", "drift": DRIFT}
    found = [path for _, path in problems(given.DatasetLog().ask(messages.RegisterDataset, body))]
    assert found == ["$.url", "$.drift.columns", "$.credential"]


def test_an_id_that_leaves_no_room_for_those_of_its_watchers_is_refused() -> None:
    command, told = published(1, messages.RegisterDataset.wire_type(), given.BODY), Told()
    told.tell(command, stream="d" * 120)
    stream = told.streams.by_id["d" * 120]
    decided: Any = AGGREGATES.by_kind["dataset"].commands[messages.RegisterDataset]

    [problem] = decided(stream, messages.RegisterDataset.model_validate(given.BODY), "c-1", NO_LOOKUP)
    assert (problem.code, problem.path) == ("bad_identifier", "$partitionkey")


def test_a_name_that_is_taken_is_refused() -> None:
    for told in (given.registered(), search_running()):
        found = refusal(ask(told, messages.RegisterDataset, given.BODY))
        assert found[:2] == ("already_exists", "$partitionkey")


@pytest.mark.parametrize("kind", [messages.PauseDataset, messages.ResumeDataset, messages.DeleteDataset])
def test_what_is_no_dataset_is_refused(kind: type[Command]) -> None:
    for told in (Told(), search_running()):
        assert refusal(ask(told, kind))[:2] == ("unknown_dataset", "$partitionkey")


def test_a_watcher_is_given_the_end_that_is_known_and_what_it_reports_is_observed() -> None:
    log = given.registered()
    log.place()
    order = the(InstructionGiven, log.say())
    assert (order.body, log.acknowledge()) == ({"end": messages.DatasetEnd().model_dump(mode="json")}, [])
    first = the(messages.DatasetObserved, log.say(end=given.end_of(5)))
    assert (first.begin, first.end, first.begin_byte, first.end_byte) == (0, 5, 0, 50)
    second = the(messages.DatasetObserved, log.say(end=given.end_of(7)))
    assert (second.begin, second.end, second.begin_byte, second.end_byte) == (5, 7, 50, 70)
    assert log.dataset.end == messages.DatasetEnd(lines=7, size=70, sha256=given.digest(7))


def test_an_end_counts_only_once_the_watcher_has_found_what_it_was_given() -> None:
    log = given.registered()
    log.place()
    log.say()
    assert log.say(end=given.end_of(5)) == []
    the(messages.DatasetObserved, log.acknowledge())
    log = given.registered()
    log.place()
    log.say()
    assert (log.acknowledge(ok=False), log.say(end=given.end_of(5))) == ([], [])


def test_another_placement_begins_at_what_was_observed_before() -> None:
    log = given.watched(5)
    log.lose()
    assert log.settle() == []
    log.place()
    order = the(InstructionGiven, log.say())
    assert (order.number, order.body["end"]) == (2, given.end_of(5))
    log.acknowledge()
    event = the(messages.DatasetObserved, log.say(end=given.end_of(6)))
    assert (event.attempt, event.placement, event.begin) == (2, 1, 5)


def test_an_instruction_of_a_user_to_the_watcher_is_replaced_by_the_end() -> None:
    log = given.watched(5)
    number = log.watcher.instruction.number if log.watcher.instruction else 0
    other = InstructionGiven(
        command_id="c-9", task_id=log.watcher.task_id, number=number + 1, body={"end": given.end_of(1)}
    )
    log.tell(other)
    order = the(InstructionGiven, log.settle())
    assert (order.number, order.body["end"]) == (number + 2, given.end_of(5))


def test_a_dataset_that_is_paused_is_not_watched_until_it_is_resumed() -> None:
    log = given.watched(5)
    the(messages.DatasetPaused, log.do(messages.PauseDataset, {"reason": "the disk is replaced"}))
    assert (log.dataset.status, log.dataset.reason) == (messages.DatasetStatus.PAUSED, "the disk is replaced")
    the(TaskStopRequested, log.settle())
    assert log.do(messages.PauseDataset) == []
    log.lose(AttemptEnd.CANCELLED)
    assert (log.settle(), log.dataset.over) == ([], True)
    the(messages.DatasetResumed, log.do(messages.ResumeDataset))
    assert log.dataset.reason == ""
    task = the(TaskSubmitted, log.settle())
    assert task.task_id == "digits-1.watch.2"
    log.place()
    order = the(InstructionGiven, log.say())
    assert (order.body["end"], log.do(messages.ResumeDataset)) == (given.end_of(5), [])


def test_one_that_is_resumed_before_its_watcher_has_ended_waits_for_that_end() -> None:
    """What the watcher has reported before does not stop it a second time."""
    log = given.stopped_with(code="bad_line", line=5, message="not JSON")
    the(messages.DatasetResumed, log.do(messages.ResumeDataset))
    assert log.settle() == [] and log.dataset.status is messages.DatasetStatus.ACTIVE
    log.lose(AttemptEnd.CANCELLED)
    task = the(TaskSubmitted, log.settle())
    assert task.task_id == "digits-1.watch.2"


def test_one_that_is_resumed_before_its_watcher_was_asked_to_end_gets_another_one() -> None:
    log = given.watched(5)
    log.do(messages.PauseDataset)
    log.do(messages.ResumeDataset)
    stop = the(TaskStopRequested, log.settle())
    assert stop.task_id == "digits-1.watch.1"


def test_a_dataset_that_was_deleted_is_not_changed_any_more() -> None:
    """I37: its id stays taken."""
    log = given.watched(5)
    the(messages.DatasetDeleted, log.do(messages.DeleteDataset, {"reason": "enough"}))
    the(TaskStopRequested, log.settle())
    log.lose(AttemptEnd.CANCELLED)
    assert (log.settle(), log.do(messages.DeleteDataset)) == ([], [])
    for kind in (messages.PauseDataset, messages.ResumeDataset):
        assert refusal(log.ask(kind))[:2] == ("already_terminal", "$partitionkey")
    assert refusal(log.ask(messages.RegisterDataset, given.BODY))[:2] == ("already_exists", "$partitionkey")
    assert (log.dataset.over, log.dataset.closed) == (True, False)


def test_others_can_wait_for_how_far_it_was_observed_and_for_its_status() -> None:
    log, kind = given.watched(), AGGREGATES.by_kind["dataset"]
    assert [signal.name for signal in kind.signals(log.dataset)] == ["status"]
    log.say(end=given.end_of(5), metrics={"drift": 0.5})
    status, signal = kind.signals(log.dataset)
    assert (signal.name, signal.key, signal.offset) == ("observed", "5", log.dataset.observed_at)
    assert signal.values == {"dataset": "digits-1", **given.end_of(5), "metrics": {"drift": 0.5}}
    log.do(messages.PauseDataset, {"reason": "holidays"})
    paused = next(iter(kind.signals(log.dataset)))
    assert paused.key != status.key
    assert (paused.values["status"], paused.values["reason"]) == ("PAUSED", "holidays")
