import pytest

from trackside.replay.history.errors import BadRangeError
from trackside.replay.history.point_in_time import NOW, PointInTime, parse_point_in_time

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("", NOW),
        ("now", NOW),
        ("1204", PointInTime(offset=1204)),
        ("2023-11-14T22:13:19Z", PointInTime(time_ms=NOW_MS - 1_000)),
        ("2023-11-14T23:13:19.5+01:00", PointInTime(time_ms=NOW_MS - 500)),
        ("10m", PointInTime(time_ms=NOW_MS - 600_000)),
        ("1h30m", PointInTime(time_ms=NOW_MS - 5_400_000)),
        ("1.5 s ago", PointInTime(time_ms=NOW_MS - 1_500)),
        ("250ms", PointInTime(time_ms=NOW_MS - 250)),
        ("2d", PointInTime(time_ms=NOW_MS - 172_800_000)),
    ],
)
def test_an_offset_a_time_and_a_duration_ago_are_moments(text: str, moment: PointInTime) -> None:
    assert parse_point_in_time(text, NOW_MS) == moment


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("yesterday", "expected an offset such as 1204"),
        ("-5", "expected an offset"),
        ("10x", "expected an offset"),
        ("ago", "expected an offset"),
        ("2023-11-14T22:13:19", "write 2023-11-14T22:13:19Z for UTC"),
        ("2024-01-01T00:00:00Z", "has not come yet"),
    ],
)
def test_what_is_no_moment_is_refused_with_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(BadRangeError, match=said) as caught:
        parse_point_in_time(text, NOW_MS)
    assert str(caught.value).startswith("bad_range: ")
