"""How fast the parts of a stream end, and how long the rest takes."""

import pytest

from trackside.domain.display.end_rate import WINDOW, EndRate

START_MS = 1_800_000_000_000


def test_the_time_left_is_that_of_the_parts_that_have_not_ended() -> None:
    assert EndRate(START_MS).text(20, START_MS + 60_000) == "", "nothing has ended"
    ends = [START_MS + 5_000 * number for number in range(1, 7)]
    assert EndRate(START_MS, ends).text(18, ends[-1]) == "12/min, 1 min 30 s left"
    assert EndRate(START_MS, ends).text(None, ends[-1]) == "12/min"
    assert EndRate(START_MS, ends).text(0, ends[-1]) == ""


def test_the_rate_is_that_of_the_newest_ends_and_falls_while_nothing_ends() -> None:
    rate = EndRate(START_MS)
    slow = [START_MS + 600_000 * number for number in range(1, 11)]
    fast = [slow[-1] + 1_000 * number for number in range(1, WINDOW + 2)]
    for moment in (*slow, *fast):
        rate.add(moment)
    assert rate.per_minute(fast[-1]) == pytest.approx(60)
    rate = EndRate(START_MS, [START_MS + 10_000])
    assert rate.text(6, START_MS + 10_000) == "6/min, 1 min 00 s left"
    assert rate.text(6, START_MS + 60_000) == "1/min, 6 min 00 s left"
    assert rate.text(6, START_MS + 600_000) == "6/h, 1 h 00 min left"
    assert rate.text(6, 0) == "6/min, 1 min 00 s left", "as of a clock that is behind"


@pytest.mark.parametrize(("ends_in_a_minute", "shown"), [(90, "90/min"), (600, "10/s"), (60_000, "1000/s")])
def test_a_high_rate_is_that_of_a_second(ends_in_a_minute: int, shown: str) -> None:
    ends = [START_MS + 60_000 * number // ends_in_a_minute for number in range(1, ends_in_a_minute + 1)]
    assert EndRate(START_MS, ends).text(None, ends[-1]) == shown
