"""Fetches as bytes: the same as the client writes and reads by its schemas, whatever they hold."""

from io import BytesIO
from typing import Any

import pytest
from aiokafka.protocol.fetch import FetchRequest_v10, FetchRequest_v11, FetchResponse_v11
from aiokafka.protocol.struct import Struct
from hypothesis import given
from hypothesis import strategies as st

from trackside.eventlog import fetches
from trackside.eventlog.kafka import KafkaLog

SMALL = st.integers(-1, 2**31 - 1)
LONG = st.integers(-1, 2**63 - 1)
TOPICS = st.text("abcé.-", min_size=1, max_size=20)
ASKED = st.lists(
    st.tuples(TOPICS, st.lists(st.tuples(SMALL, SMALL, LONG, LONG, SMALL), max_size=4)), max_size=3
)
ABORTED = st.none() | st.lists(st.tuples(LONG, LONG), max_size=3)
PART = st.tuples(
    *(SMALL, st.integers(-1, 90), LONG, LONG, LONG, ABORTED, SMALL, st.none() | st.binary(max_size=30))
)
ANSWERED = st.lists(st.tuples(TOPICS, st.lists(PART, max_size=4)), max_size=3)


CLIENT = KafkaLog
"""Its module lets the client's classes use what is tested here."""


def by_schema(answer: bytes) -> Any:
    """Reads an answer as the client would, field by field."""
    return Struct.decode.__func__(FetchResponse_v11, answer)


@given(ASKED, st.tuples(SMALL, SMALL, SMALL, SMALL, st.integers(0, 1), SMALL, SMALL), TOPICS)
def test_a_request_is_the_bytes_that_the_client_writes(topics: Any, head: Any, rack: str) -> None:
    request = FetchRequest_v11(*head, topics, [], rack)
    assert request.encode() == Struct.encode(request)


def test_a_request_that_forgets_topics_is_left_to_the_client() -> None:
    request = FetchRequest_v11(-1, 500, 1, 9, 1, 0, -1, [], [("events", [1, 2])], "")
    assert request.encode() == Struct.encode(request)


@given(ANSWERED, SMALL)
def test_an_answer_is_what_the_client_reads(topics: Any, throttle_ms: int) -> None:
    octets = Struct.encode(FetchResponse_v11(throttle_ms, 0, 7, topics))
    answer = by_schema(octets)
    assert FetchResponse_v11.decode(octets) == answer
    behind_a_header = BytesIO(b"head" + octets)
    behind_a_header.read(4)
    assert FetchResponse_v11.decode(behind_a_header) == answer


def test_the_client_s_classes_use_what_is_tested_here() -> None:
    """Else the tests above would compare the client with itself."""
    assert (
        FetchResponse_v11.decode.__func__.__module__ == FetchRequest_v11.encode.__module__ == fetches.__name__
    )


@given(ANSWERED, st.data())
def test_an_answer_that_is_cut_is_never_taken_for_a_whole_one(topics: Any, data: st.DataObject) -> None:
    octets = Struct.encode(FetchResponse_v11(0, 0, 0, topics))
    cut = octets[: data.draw(st.integers(0, len(octets) - 1))]
    with pytest.raises(ValueError, match="cut at"):
        fetches.decoded(cut)


def test_classes_with_other_fields_are_left_as_they_are() -> None:
    before = FetchRequest_v10.encode
    fetches.take_over(FetchRequest_v10, FetchResponse_v11)
    assert FetchRequest_v10.encode is before
