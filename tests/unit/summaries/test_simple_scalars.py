import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.summaries.event_files import simple_scalars
from trackside.summaries.event_files.protos.tensorboard_pb2 import Event, SessionLog, Summary
from trackside.summaries.event_files.simple_scalars import SimpleScalars
from trackside.summaries.event_files.tensorboard import TensorBoardDecoder

Points = dict[str, list[tuple[int, int, float]]]

TAGS = st.sampled_from(["", "loss", "a/b", "\u00e9\u4e00", "t" * 300, "t" * 118, "t" * 119])
STEPS = st.one_of(st.integers(0, 300), st.integers(-(2**63), 2**63 - 1))
TIMES = st.one_of(st.floats(1e9, 4e9), st.floats(1e11, 1e13), st.floats())


@st.composite
def scalars(draw: st.DrawFn) -> bytes:
    """Draws the record of a scalar, as most writers have it."""
    value = Summary.Value(tag=draw(TAGS), simple_value=draw(st.floats(width=32)))
    return Event(wall_time=draw(TIMES), step=draw(STEPS), summary=Summary(value=[value])).SerializeToString()


@st.composite
def others(draw: st.DrawFn) -> bytes:
    """Draws a record that has more than a scalar, its fields in another order, or is damaged."""
    body = draw(scalars())
    other = draw(scalars())
    summary = Event(summary=Event.FromString(other).summary).SerializeToString()
    start = Event(wall_time=draw(TIMES), session_log=SessionLog(status=SessionLog.START)).SerializeToString()
    return draw(
        st.sampled_from(
            [
                body + other,
                Event(file_version="brain.Event:2").SerializeToString() + body,
                Event(step=7).SerializeToString() + body,
                body + Event(step=7).SerializeToString(),
                body[9:],
                body[9:] + body[:9],
                body[:9] + b"\x10\x85\x80\x00" + summary,
                body[:9] + b"\x10" + b"\x80" * draw(st.integers(0, 10)) + b"\x01" + summary,
                body[: draw(st.integers(0, len(body)))],
                body + draw(st.binary(max_size=6)),
                start,
                b"",
            ]
        )
    )


def points_of(bodies: list[bytes]) -> tuple[list[Points], int]:
    """Returns (step, milliseconds, value) by tag in each segment, and how many records were decoded."""
    decoded, count = TensorBoardDecoder().decode(bodies)
    segments = [
        {
            tag: list(zip(it.steps, it.times_ms, map(_comparable, it.values), strict=True))
            for tag, it in segment.scalars.items()
        }
        for segment in decoded.segments
    ]
    return segments, count


def _comparable(value: float) -> float:
    return 1e300 if math.isnan(value) else value


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(scalars(), scalars(), others()), max_size=12))
def test_what_is_read_without_the_parser_is_what_the_parser_reads(bodies: list[bytes]) -> None:
    found = points_of([*bodies, *bodies])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simple_scalars, "MAX_TAGS", 0)  # no tag is learned
        assert found == points_of([*bodies, *bodies])


def scalar(tag: str, step: int, wall_time: float = 1.5) -> bytes:
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=step)])
    return Event(wall_time=wall_time, step=step, summary=summary).SerializeToString()


def test_a_time_that_is_no_date_is_kept_whether_the_parser_reads_it_or_not() -> None:
    times = (5e11, 2.6e11, 1e13, -5e11, -math.inf, math.inf, math.nan, 1.5)
    expected = [500 * 10**12, 260 * 10**12, 0, -500 * 10**12, 0, 0, 0, 1_500]
    for first, time_ms in zip(times, expected, strict=True):
        [points], _ = points_of([scalar("loss", step, time) for step, time in enumerate((first, *times))])
        assert [point[1] for point in points["loss"]] == [time_ms, *expected]


def test_records_of_known_tags_need_no_parser_up_to_a_number_of_tags() -> None:
    known = SimpleScalars()
    known.learn("loss")
    bodies = [scalar("loss", step) for step in (0, 1, 127, 128, 20_000, 2**40, 2**63 - 1)]
    assert known.take(bodies, 0) == len(bodies)
    assert known.take([*bodies, b"\x09"], 2) == len(bodies)
    known = SimpleScalars()
    for number in range(simple_scalars.MAX_TAGS + 1):
        known.learn(f"tag-{number}")
    last, beyond = (scalar(f"tag-{number}", 1) for number in (number - 1, number))
    assert known.take([last, beyond], 0) == 1
