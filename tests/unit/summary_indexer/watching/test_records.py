import json
import math

from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.tasks.summaries import MetricPointsReported
from trackside.summaries.event_files.values import Columns, Decoded, Segment
from trackside.summary_indexer.watching.records import MAX_BYTES, MAX_POINTS, TagLimit, point_messages

JOB = "summary-0123456789abcdef"
Points = list[tuple[int, str, int, float | str | None]]


def decoded(**columns: Columns) -> Decoded:
    return Decoded([Segment(scalars=columns)])


def points_of(messages: list[MetricPointsReported]) -> Points:
    """Returns session, tag, step and value of each point; a value that is not finite by its name."""
    return [
        (message.attempt, series.tag, step, series.non_finite.get(at, value))
        for message in messages
        for series in message.series
        for at, (step, value) in enumerate(zip(series.steps, series.values, strict=True))
    ]


def test_each_session_has_a_number_of_its_own_and_what_is_not_finite_is_named() -> None:
    columns = Columns([5, 6, 1, 2], [0] * 4, [1.0, 2.0, 3.0, 4.0], restarts=1, falls=[2])
    found = points_of(list(point_messages(JOB, 3, decoded(loss=columns), TagLimit())))
    first, second = (30_001, "loss"), (30_002, "loss")
    assert found == [(*first, 5, 1.0), (*first, 6, 2.0), (*second, 1, 3.0), (*second, 2, 4.0)]
    values = [1.0, math.nan, math.inf, -math.inf, 5e-324, 1e308, 1e308]
    columns = Columns([*range(7)], [0] * 7, values)
    written = [each.model_dump_json() for each in point_messages(JOB, 1, decoded(loss=columns), TagLimit())]
    found = points_of(list(map(MetricPointsReported.model_validate_json, written)))
    assert [value for *_, value in found] == [1.0, "nan", "inf", "-inf", 5e-324, 1e308, 1e308]


@given(st.lists(st.integers(1, 9_000), max_size=5), st.text(max_size=50))
def test_records_are_bounded_and_hold_each_point_once(counts: list[int], name: str) -> None:
    point = [-(2**62)], [10**12], [-1.2345678901234567e-300]
    columns = {
        f"{name or 'a'}{number}": Columns(*(each * count for each in point))  # type: ignore[arg-type]
        for number, count in enumerate(counts)
    }
    limit = TagLimit()
    messages = list(point_messages(JOB, 1, decoded(**columns), limit))
    assert sum(len(series.steps) for each in messages for series in each.series) + limit.bad == sum(counts)
    for message in messages:
        assert 0 < sum(len(series.steps) for series in message.series) <= MAX_POINTS
        assert len(message.model_dump_json()) < 1.25 * MAX_BYTES


def test_records_of_a_hundred_thousand_tags_are_bounded() -> None:
    columns = {f"{'t' * 900}{n}": Columns([1], [1], [1.0]) for n in range(3_000)}
    messages = list(point_messages(JOB, 1, decoded(**columns), TagLimit()))
    assert max(len(json.dumps(message.model_dump())) for message in messages) < 1.25 * MAX_BYTES
    assert sum(len(message.series) for message in messages) == 3_000


def test_tags_that_are_no_names_and_tags_over_the_limit_are_counted() -> None:
    limit = TagLimit(most=2)
    two = Columns([1, 2], [0, 0], [1.0, 1.0])
    tags = ["a", "b\0", "\n", "x" * 1_001, "", "b", "c", "a"]
    for tag in tags:
        list(point_messages(JOB, 1, decoded(**{tag: two}), limit))
    assert (limit.bad, limit.beyond) == (8, 2)
    assert limit.admits("scalar", "b")
    assert not limit.admits("histogram", "b")
