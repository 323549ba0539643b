"""INV-18: what a named cause may be."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.domain.given import STREAM, Told, search_running, submitted, suggested
from tests.unit.replay.given import name_causes
from tests.unit.verify.mutants import verified
from trackside.aggregates.search.messages import SearchStopRequested
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.tasks import TaskAssigned, TaskStopRequested
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import cause_of
from trackside.verify.verifier import Verifier

BEFORE = 3  # CommandReceived, CommandAccepted, SearchStarted


def two_trials() -> Told:
    told = search_running(max_trials=2, concurrency=2)
    told.tell(suggested(0), submitted(0))
    told.tell(suggested(1), submitted(1))
    return told


def history(*causes: str) -> list[Record]:
    """Returns the records of a search; those after its start name these causes."""
    told = two_trials()
    name_causes(told.records[BEFORE : BEFORE + len(causes)], *causes)
    return told.records


def found(records: Sequence[Record], *, whole: bool = True) -> tuple[list[str], int]:
    verifier = verified(records, whole=whole)
    findings = [each for each in verifier.finish() if (each.invariant, each.offset) == ("INV-18", BEFORE)]
    return [each.message for each in findings], verifier.findings.checked["INV-18"]


def test_causes_that_lie_before_their_events_and_a_log_without_causes_are_right() -> None:
    assert found(history(*[cause_of(STREAM, 2)] * 4)) == ([], 4)
    assert found(history()) == ([], 0)


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (cause_of(STREAM, BEFORE), "its cause, offset 3, is not before it"),
        (cause_of(STREAM, 90), "its cause, offset 90, is not before it"),
        ("m-17", "its cause 'm-17' names no event"),
        (
            cause_of(STREAM, 0),
            "its cause, offset 0, is a command trackside.start-search, which leads to no TrialSuggested",
        ),
    ],
)
def test_a_cause_that_can_not_be_one_is_found(cause: str, message: str) -> None:
    assert found(history(cause)) == ([message], 1)


def test_an_event_that_was_not_applied_causes_nothing() -> None:
    records = history()
    copy = Record(records[2].topic, records[2].partition, 3, 0, records[2].envelope, records[2].message)
    late = [Record(it.topic, it.partition, it.offset + 1, 0, it.envelope, it.message) for it in records[3:]]
    name_causes(late[:1], cause_of(STREAM, 3))
    found = verified([*records[:3], copy, *late]).finish()
    findings = [each.message for each in found if (each.invariant, each.offset) == ("INV-18", 4)]
    assert findings == ["its cause, offset 3, is not an applied event of its stream"]


def test_a_cause_in_another_stream_is_of_few_types_of_events_and_looked_up_if_all_streams_are_read() -> None:
    (first, second), _ = found(history("another@1"))
    assert first == "its cause is in stream another; TrialSuggested rests on its own stream"
    assert second == "its cause is an event of stream another, which is not there"
    assert found(history("another@1"), whole=False)[0] == [first]


def test_an_event_names_a_cause_once_its_stream_has_causes() -> None:
    found = verified(history(cause_of(STREAM, 2))).finish()
    (first, *_) = [finding for finding in found if finding.invariant == "INV-18"]
    message = "TaskSubmitted names no cause, and events before it by the dispatcher do"
    assert (first.offset, first.message) == (BEFORE + 1, message)


def forged(event: Event, cause: str, role: str) -> list[str]:
    """Returns what is found of one more event after those of a search, which names a cause."""
    told = two_trials()
    told.tell(event, role=role)
    assert told.outcomes[-1] is Outcome.APPLIED
    name_causes(told.records[-1:], cause)
    return [each.message for each in verified(told.records).finish() if each.invariant == "INV-18"]


STOP = SearchStopRequested(command_id="c-1", reason="tired")
PLACED: Any = {"attempt": 1, "placement": 1, "worker_id": "w1", "incarnation": "i1", "device_ids": ["d"]}
ASSIGNED = TaskAssigned(task_id=f"{STREAM}.0", seen=1, **PLACED)


@pytest.mark.parametrize(
    ("event", "cause", "role", "message"),
    [
        (STOP, 0, "dispatcher", "a command trackside.start-search, which leads to no SearchStopRequested"),
        (STOP, 2, "dispatcher", "SearchStarted; SearchStopRequested follows only from trackside.stop-search"),
        (ASSIGNED, 3, "scheduler", "TrialSuggested, which leads to no TaskAssigned"),
        (ASSIGNED, 6, "scheduler", "TaskSubmitted of another task than that of TaskAssigned"),
    ],
)
def test_a_cause_leads_to_such_an_event(event: Event, cause: int, role: str, message: str) -> None:
    assert forged(event, cause_of(STREAM, cause), role) == [f"its cause, offset {cause}, is {message}"]


def test_a_cause_in_a_partition_that_was_not_read_that_far_is_open() -> None:
    partitions = 3
    own = partition_of(STREAM, partitions)
    other = next(name for name in "abcdef" if partition_of(name, partitions) != own)
    records = history(f"{other}@0")
    for record in records:
        record.partition = partition_of(STREAM, partitions)
    verifier = Verifier(topics=Topics(event_partitions=partitions))
    for record in records:
        verifier.take(record)
    found = [finding for finding in verifier.finish() if finding.invariant == "INV-18"]
    assert "is not there" not in str(found)
    assert [finding.invariant for finding in verifier.findings.open] == ["INV-18", "INV-27"]


@pytest.mark.parametrize(("seen", "held"), [(4, True), (6, True), (90, False)])
def test_an_assessor_may_answer_after_a_newer_report_has_come(seen: int, held: bool) -> None:
    told = two_trials()
    told.tell(TaskStopRequested(task_id=f"{STREAM}.0", reason="assessor", seen=seen))
    name_causes(told.records[-1:], cause_of(STREAM, 6))
    verifier = verified(told.records)
    found = [each for each in verifier.finish() if each.invariant == "INV-18"]
    assert (not any("it was decided on offset" in each.message for each in found)) is held
