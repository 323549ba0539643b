"""INV-18: what a named cause may be."""

from collections.abc import Sequence

import pytest

from tests.unit.domain.given import STREAM, Told, search_running, submitted, suggested
from trackside.contracts.message import Envelope, Record
from trackside.contracts.topics import Topics, partition_of
from trackside.domain.proposal import cause_of
from trackside.verify.verifier import Verifier

BEFORE = 3  # CommandReceived, CommandAccepted, SearchStarted


def history(*causes: str) -> list[Record]:
    """Returns the records of a search; those after its start name these causes."""
    told: Told = search_running(max_trials=2, concurrency=2)
    told.tell(suggested(0), submitted(0))
    told.tell(suggested(1), submitted(1))
    for record, cause in zip(told.records[BEFORE:], causes, strict=False):
        record.envelope = Envelope({**record.envelope.headers, "ce_causationid": cause.encode()})
    return told.records


def found(records: Sequence[Record], *, whole: bool = True) -> tuple[list[str], int]:
    """Returns what is wrong with the causes of records, and how many were checked."""
    verifier = Verifier(whole=whole)
    for record in records:
        verifier.take(record)
    findings = [finding for finding in verifier.finish() if finding.invariant == "INV-18"]
    assert all(finding.offset == BEFORE for finding in findings)
    return [finding.message for finding in findings], verifier.findings.checked["INV-18"]


def test_a_cause_that_lies_before_its_event_is_right() -> None:
    assert found(history(*[cause_of(STREAM, 2)] * 4)) == ([], 4)


def test_a_log_without_causes_is_right() -> None:
    assert found(history()) == ([], 0)


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (cause_of(STREAM, BEFORE), "its cause, offset 3, is not before it"),
        (cause_of(STREAM, 90), "its cause, offset 90, is not before it"),
        ("m-17", "its cause 'm-17' names no event"),
        ("another@1", "its cause is an event of stream another, which is not there"),
    ],
)
def test_a_cause_that_can_not_be_one_is_found(cause: str, message: str) -> None:
    assert found(history(cause)) == ([message], 1)


def test_an_event_that_was_not_applied_causes_nothing() -> None:
    records = history()
    copy = Record(records[2].topic, records[2].partition, 3, 0, records[2].envelope, records[2].message)
    late = [
        Record(each.topic, each.partition, each.offset + 1, 0, each.envelope, each.message)
        for each in records[3:]
    ]
    late[0].envelope = Envelope({**late[0].envelope.headers, "ce_causationid": cause_of(STREAM, 3).encode()})
    verifier = Verifier()
    for record in [*records[:3], copy, *late]:
        verifier.take(record)
    findings = [finding.message for finding in verifier.finish() if finding.invariant == "INV-18"]
    assert findings == ["its cause, offset 3, is not an applied event of its stream"]


def test_of_one_stream_alone_causes_in_others_are_not_checked() -> None:
    assert found(history("another@1"), whole=False) == ([], 1)


def test_a_cause_in_a_partition_that_was_not_read_that_far_is_open() -> None:
    partitions = 3
    other = next(
        name for name in "abcdef" if partition_of(name, partitions) != partition_of(STREAM, partitions)
    )
    records = history(f"{other}@0")
    for record in records:
        record.partition = partition_of(STREAM, partitions)
    verifier = Verifier(topics=Topics(event_partitions=partitions))
    for record in records:
        verifier.take(record)
    found = [finding for finding in verifier.finish() if finding.invariant == "INV-18"]
    assert (found, [finding.invariant for finding in verifier.findings.open]) == ([], ["INV-18"])
