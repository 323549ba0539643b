"""When the console says that rows are older than the log."""

from trackside.console.live.log_state import PATIENCE_S, RowDelay


def test_rows_that_follow_a_log_that_grows_are_not_late() -> None:
    delay = RowDelay()
    for second in range(20):
        assert delay.missing({0: 10 * second}, {0: 10 * second + 8}, float(second)) == 0


def test_rows_that_stand_still_are_late_with_all_events_that_they_lack() -> None:
    delay = RowDelay()
    ends = [{0: 10, 1: 5}, {0: 20, 1: 5}, {0: 30, 1: 5}]
    found = [
        delay.missing({0: 10, 1: 3}, each, number * (PATIENCE_S - 1)) for number, each in enumerate(ends)
    ]
    assert found == [0, 0, 22]


def test_rows_that_catch_up_are_late_no_more() -> None:
    delay = RowDelay()
    assert delay.missing({0: 0}, {0: 9}, 0.0) == 0
    assert delay.missing({0: 0}, {0: 9}, PATIENCE_S + 1) == 9
    assert delay.missing({0: 9}, {0: 12}, PATIENCE_S + 2) == 0


def test_rows_of_an_empty_log_are_never_late() -> None:
    delay = RowDelay()
    assert delay.missing({}, {}, 0.0) == 0
    assert delay.missing({}, {}, 1000.0) == 0
