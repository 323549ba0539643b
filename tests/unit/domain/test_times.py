"""Times of rows: what is no date is its seconds, and is compared with dates."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.domain.display.text import as_text, duration
from trackside.domain.display.times import FarTime, time_of_ms, time_of_us

YEAR_10000_MS = 253_402_300_800_000


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, "1970-01-01 00:00:00+00:00"),
        (1_700_000_000_123, "2023-11-14 22:13:20.123000+00:00"),
        (500_000_000_000_000, "500000000000 s"),
        (YEAR_10000_MS, "253402300800 s"),
        (-(2**63) + 1, "-9223372036854776 s"),
    ],
)
def test_a_time_that_is_no_date_is_its_seconds(ms: int, shown: str) -> None:
    assert as_text(time_of_ms(ms)) == shown


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**14), 10**15), max_size=8))
def test_any_times_are_shown_sorted_and_subtracted(times_ms: list[int]) -> None:
    times = [time_of_ms(ms) for ms in times_ms]
    assert sorted(times) == [time_of_ms(ms) for ms in sorted(times_ms)]
    for time in times:
        shown = (
            time.astimezone(ZoneInfo("Pacific/Kiritimati"))
            if isinstance(time, datetime)
            else time.astimezone()
        )
        assert shown.strftime("%Y-%m-%d %H:%M:%S") and time.isoformat() and f"{time:%H:%M}" and as_text(time)
        assert time_of_us(round(time.timestamp() * 1e6)).timestamp() == pytest.approx(time.timestamp())


def test_the_time_between_a_date_and_one_that_is_none_is_a_duration() -> None:
    began = datetime(1970, 1, 1, tzinfo=UTC)
    far = FarTime(5e11)
    assert far - began == timedelta(seconds=5e11) and began - far == timedelta(seconds=-5e11)
    assert began < far and far > began and max(began, far) is far
    assert duration((far - began).total_seconds()) == "138888888 h 53 min"
    assert [duration(each) for each in (float("inf"), float("nan"), -1e308)] == [
        "inf s",
        "nan s",
        "-1e+308 s",
    ]
