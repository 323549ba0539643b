import pytest

from trackside.summary_indexer.stall_detector import StallDetector, StalledError


def test_the_lag_grows_while_the_log_has_more_and_is_nothing_at_its_end() -> None:
    detector = StallDetector(10)
    assert detector.lag_s({0: 5, 1: 0}, {0: 5, 1: 0}, now_s=100) == 0
    assert detector.lag_s({0: 9}, {0: 5}, now_s=103) == 3
    assert detector.lag_s({0: 9}, {0: 8}, now_s=104) == 4
    assert detector.lag_s({0: 9}, {0: 9}, now_s=105) == 0


@pytest.mark.parametrize(("positions", "holds", "stuck"), [({0: 5}, 109, 111), ({}, 129, 131)])
def test_an_index_that_stands_still_or_never_begins_while_the_log_has_more_is_stuck(
    positions: dict[int, int], holds: int, stuck: int
) -> None:
    detector = StallDetector(10)
    for now_s in (100, holds):
        detector.lag_s({0: 9}, positions, now_s)
        detector.check(now_s)
    with pytest.raises(StalledError, match=f"for {stuck - 100} s nothing was read"):
        detector.check(stuck)


def test_slow_progress_an_index_at_the_end_and_one_after_an_outage_are_not_stuck() -> None:
    slow, at_end, after_outage = StallDetector(10), StallDetector(10), StallDetector(10)
    for step in range(10):
        slow.lag_s({0: 100}, {0: step}, now_s=100 + 9 * step)
        slow.check(100 + 9 * step)
    for now_s in (100, 1_000):
        at_end.lag_s({0: 5}, {0: 5}, now_s)
    at_end.check(1_000)
    after_outage.lag_s({0: 9}, {0: 5}, now_s=100)
    after_outage.suspend(now_s=150)
    after_outage.check(155)
