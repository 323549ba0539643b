import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trackside.summaries.axes import (
    clock_labels,
    duration_labels,
    log_ticks,
    number_labels,
    short_number,
    ticks,
    time_ticks,
)

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
DAY = 86_400


@given(FLOATS, FLOATS, st.integers(2, 12))
def test_ticks_are_few_and_in_range(one: float, other: float, count: int) -> None:
    low, high = min(one, other), max(one, other)
    found = ticks(low, high, count)
    assert 1 <= len(found) <= 2 * count + 2 and found == sorted(found)
    assert all(low <= value <= high for value in found)
    assert len(number_labels(found)) == len(found)


@given(st.floats(5e-324, 1.7e308), st.floats(5e-324, 1.7e308), st.integers(2, 12))
@example(2.0, 200.0, 2)
def test_ticks_of_logarithmic_axes_are_few_and_in_range(one: float, other: float, count: int) -> None:
    low, high = min(one, other), max(one, other)
    found = log_ticks(low, high, count)
    assert 1 <= len(found) <= 3 * count and all(low <= value <= high for value in found)


@given(st.floats(-1e12, 1e12), st.floats(0, 1e12), st.integers(2, 12))
def test_ticks_of_times_are_few_and_in_range(low: float, span: float, count: int) -> None:
    found = time_ticks(low, low + span, count)
    assert 1 <= len(found) <= 2 * count + 2 and all(low <= value <= low + span for value in found)
    assert len(clock_labels(found)) == len(duration_labels(found)) == len(found)


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e9))
def test_labels_tell_ticks_apart(low: float, span: float) -> None:
    found = ticks(low, low + span)
    assert len(set(number_labels(found))) == len(found)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, "0 0.2 0.4 0.6 0.8 1"),
        (-3, 2, "-3 -2 -1 0 1 2"),
        (0, 4_321, "0 1000 2000 3000 4000"),
        (0, 12_345, "0 5k 10k"),
        (0, 1_500_000, "0 500k 1M 1.5M"),
        (1_000_000, 1_000_500, "1M 1.0001M 1.0002M 1.0003M 1.0004M 1.0005M"),
        (1e-5, 5e-5, "1e-05 2e-05 3e-05 4e-05 5e-05"),
        (7, 7, "7"),
    ],
)
def test_numbers_are_short(low: float, high: float, labels: str) -> None:
    assert " ".join(number_labels(ticks(low, high))) == labels


def test_numbers_are_short_and_a_logarithmic_axis_has_powers_of_ten_unless_it_is_short() -> None:
    assert log_ticks(1e-3, 50) == pytest.approx([1e-3, 1e-2, 1e-1, 1, 10])
    assert log_ticks(1e-30, 1) == pytest.approx([1e-28, 1e-21, 1e-14, 1e-7, 1])
    assert log_ticks(0.9, 6) == [1, 2, 5]
    assert log_ticks(3, 4) == pytest.approx([3, 3.2, 3.4, 3.6, 3.8, 4])
    shown = [short_number(value) for value in (0.03125, 1234.5, -20_000, 1.25e6, 3e-9, 0.0, 9.9e17, 2e300)]
    assert shown == ["0.03125", "1234", "-20k", "1.25M", "3e-09", "0", "9.9e+17", "2e+300"]
    assert [short_number(value) for value in (math.nan, math.inf)] == ["nan", "inf"]


def test_times_are_in_the_largest_unit_without_fractions_and_moments_have_their_date_once_a_day() -> None:
    assert duration_labels(time_ticks(0, 100)) == ["0 s", "30 s", "60 s", "90 s"]
    assert duration_labels(time_ticks(0, 3_000)) == [f"{minute} min" for minute in range(0, 60, 10)]
    assert duration_labels(time_ticks(0, 4 * DAY)) == ["0 d", "1 d", "2 d", "3 d", "4 d"]
    assert duration_labels(time_ticks(0, 0.5)) == ["0 s", "0.1 s", "0.2 s", "0.3 s", "0.4 s", "0.5 s"]
    begin = 1_700_000_000.0  # 2023-11-14 22:13:20
    hours = clock_labels(time_ticks(begin, begin + 4 * 3_600, 4))
    assert hours == ["11-14 23:00", "11-15 00:00", "01:00", "02:00"]
    assert clock_labels(time_ticks(begin, begin + 3 * DAY, 3)) == ["2023-11-15", "2023-11-16", "2023-11-17"]
    assert clock_labels([begin, begin + 5]) == ["11-14 22:13:20", "22:13:25"]
    assert clock_labels([0.0, DAY]) == ["1970-01-01", "1970-01-02"]
    assert clock_labels([1e15]) == ["1000T"], "a number that is no date"
