from dataclasses import replace

import pytest

from tests.unit.domain.test_forgetting import ended_search
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.standing import Standing
from trackside.domain.outcome import Outcome, no_effect, standing_of


@pytest.fixture
def record() -> Record:
    """Returns a record of the dispatcher."""
    return ended_search().records[1]


def with_header(record: Record, name: str, octets: bytes) -> Record:
    envelope = record.envelope
    return replace(record, envelope=type(envelope)({**envelope.headers, name: octets}))


def test_a_record_had_an_effect_or_says_why_it_had_none(record: Record) -> None:
    forged = replace(record, distrust="unsigned")
    by_worker = with_header(record, "ce_source", b"trackside/worker/w1")
    without_place = with_header(record, "ce_index", b"first")
    assert [
        standing_of(record, Outcome.APPLIED),
        standing_of(record, Outcome.DUPLICATE),
        standing_of(record, Outcome.OVERTAKEN),
        standing_of(record, Outcome.PARKED),
        standing_of(forged, Outcome.OVERTAKEN),
        standing_of(by_worker, Outcome.OVERTAKEN),
        standing_of(without_place, Outcome.OVERTAKEN),
    ] == [
        Standing.APPLIED,
        Standing.DUPLICATE,
        Standing.OVERTAKEN,
        Standing.PARKED,
        Standing.FORGED,
        Standing.VOID,
        Standing.VOID,
    ]


def test_only_what_had_no_effect_is_said_to_have_none() -> None:
    assert (no_effect(None), no_effect(Standing.APPLIED)) == ("", "")
    assert no_effect(Standing.OVERTAKEN) == "overtaken"
    assert no_effect(Standing.FORGED, "unsigned") == "forged: unsigned"
