import pytest

from trackside.summary_indexer.stall_detector import StallDetector, StalledError


def test_the_lag_is_nothing_at_the_end_of_the_log() -> None:
    detector = StallDetector(10)
    assert detector.lag_s({0: 5, 1: 0}, {0: 5, 1: 0}, now_s=100) == 0


def test_the_lag_grows_while_the_log_has_more() -> None:
    detector = StallDetector(10)
    detector.lag_s({0: 5}, {0: 5}, now_s=100)
    assert detector.lag_s({0: 9}, {0: 5}, now_s=103) == 3
    assert detector.lag_s({0: 9}, {0: 8}, now_s=104) == 4
    assert detector.lag_s({0: 9}, {0: 9}, now_s=105) == 0


def test_an_index_that_stands_still_while_the_log_has_more_is_stuck() -> None:
    detector = StallDetector(10)
    for now_s in (100, 109):
        detector.lag_s({0: 9}, {0: 5}, now_s)
        detector.check(now_s)
    with pytest.raises(StalledError, match="for 11 s nothing was read"):
        detector.check(111)


def test_slow_progress_is_progress() -> None:
    detector = StallDetector(10)
    for step in range(10):
        detector.lag_s({0: 100}, {0: step}, now_s=100 + 9 * step)
        detector.check(100 + 9 * step)


def test_an_index_at_the_end_of_the_log_is_never_stuck() -> None:
    detector = StallDetector(10)
    detector.lag_s({0: 5}, {0: 5}, now_s=100)
    detector.lag_s({0: 5}, {0: 5}, now_s=1_000)
    detector.check(1_000)


def test_reading_that_never_begins_is_stuck_too() -> None:
    detector = StallDetector(10)
    detector.lag_s({0: 5}, {}, now_s=100)
    detector.lag_s({0: 5}, {}, now_s=129)
    detector.check(129)
    with pytest.raises(StalledError):
        detector.check(131)


def test_an_outage_excuses_standing_still() -> None:
    detector = StallDetector(10)
    detector.lag_s({0: 9}, {0: 5}, now_s=100)
    detector.suspend(now_s=150)
    detector.check(155)
