"""S17: a tag begins again where its steps fall or a session starts, however the file is cut."""

import io
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trackside.summaries.event_files import restarts
from trackside.summaries.event_files.framing import frame
from trackside.summaries.event_files.protos.tensorboard_pb2 import Event, SessionLog
from trackside.summaries.event_files.reading import Piece, RecordDecoder, read_from
from trackside.summaries.event_files.values import TextRows
from trackside.summaries.event_files.writing import first_record, record

START = frame(Event(session_log=SessionLog(status=SessionLog.START)).SerializeToString())

Point = tuple[str, int, int]
"""Tag, restarts, step."""


def point(tag: str, step: int) -> bytes:
    return record(tag, step, 0, 1.0)


def found(pieces: list[Piece]) -> list[Point]:
    points: list[Point] = []
    for piece in pieces:
        for segment in piece.decoded.segments:
            for tag, columns in segment.scalars.items():
                for count, part in columns.sessions():
                    points += [(tag, count, step) for step in part.steps]
            points += [(item.tag, item.restarts, item.step) for item in segment.items]
    return sorted(points, key=lambda each: each[0])


def read_whole(*records: bytes) -> list[Point]:
    return found(list(read_from(io.BytesIO(first_record(0) + b"".join(records)), 0)))


def test_a_falling_step_begins_again_and_an_equal_one_does_not() -> None:
    steps = [0, 1, 1, 5, 3, 4, 4, 9, 8]
    assert [(n, step) for _, n, step in read_whole(*(point("a", step) for step in steps))] == [
        (0, 0), (0, 1), (0, 1), (0, 5), (1, 3), (1, 4), (1, 4), (1, 9), (2, 8)
    ]  # fmt: skip


def test_each_tag_and_each_item_begins_again_apart_from_the_others() -> None:
    records = [point("a", 5), point("b", 5), point("a", 2), point("b", 6), point("a", 3)]
    assert read_whole(*records) == [("a", 0, 5), ("a", 1, 2), ("a", 1, 3), ("b", 0, 5), ("b", 0, 6)]
    records = [record("note", step, 0, TextRows(["x"])) for step in (3, 4, 4, 1)]
    assert read_whole(*records) == [("note", 0, 3), ("note", 0, 4), ("note", 0, 4), ("note", 1, 1)]


def test_a_start_of_a_session_begins_each_known_tag_again_once_up_to_a_bound(monkeypatch: Any) -> None:
    records = [START, point("a", 5), START, START, point("a", 2), point("b", 1), point("a", 3)]
    assert read_whole(*records) == [("a", 0, 5), ("a", 1, 2), ("a", 1, 3), ("b", 0, 1)]
    monkeypatch.setattr(restarts, "MAX_RESTARTS", 2)
    steps = [9, 8, 7, 6, 5]
    assert [n for _, n, _ in read_whole(*(point("a", step) for step in steps))] == [0, 1, 2, 2, 2]


RECORDS = st.one_of(
    st.just(START),
    st.builds(point, st.sampled_from("ab"), st.integers(-3, 3)),
    st.builds(lambda step: record("note", step, 0, TextRows(["x"])), st.integers(0, 3)),
)


@given(st.lists(RECORDS, max_size=14), st.randoms(use_true_random=False))
def test_a_file_that_is_read_in_any_pieces_has_the_same_restarts(records: list[bytes], random: Any) -> None:
    """S17: at each cut the decoder is the one before, or a new one that first decodes what is before."""
    parts = [first_record(0), *records]
    whole = b"".join(parts)
    pieces: list[Piece] = []
    decoder: RecordDecoder | None = None
    at = end = 0
    for part in parts:
        end += len(part)
        if random.random() < 0.5 and end < len(whole):
            continue
        for piece in read_from(io.BytesIO(whole[:end]), at, decoder):
            pieces.append(piece)
            at, decoder = piece.end, piece.decoder
        if random.random() < 0.5:
            decoder = None
    assert at == len(whole)
    assert found(pieces) == read_whole(*records)
