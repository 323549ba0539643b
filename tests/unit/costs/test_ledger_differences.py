"""Which counts the ledger accepts."""

from pathlib import Path

import pytest

from tests.costs import ledger
from tests.costs.counting import BATCH, IDLE, STEP, WARM, WORKS


def differences(before: float, after: float, what: str = "fetch requests of worker", work: str = WARM) -> int:
    return len(ledger.differences({work: {what: before}}, {work: {what: after}}))


def test_a_steady_count_may_be_a_twentieth_more_or_less() -> None:
    assert [differences(10.0, after) for after in (9.4, 9.6, 10.4, 10.6)] == [1, 0, 0, 1]
    assert [differences(0.0, after) for after in (0.0, 0.09, 0.2)] == [0, 0, 1]
    assert [differences(0.0, after, "function calls of worker") for after in (40.0, 60.0)] == [0, 1]


def test_with_few_pieces_a_few_occurrences_more_are_no_difference() -> None:
    assert [differences(1.0, after, work=STEP) for after in (1.9, 2.1)] == [0, 1]
    assert [differences(100.0, after, work=STEP) for after in (84.0, 86.0, 114.0, 116.0)] == [1, 0, 0, 1]


def test_a_loose_count_may_be_less_and_somewhat_more() -> None:
    for what, work in (("SQL statements", WARM), ("fetch requests of worker", IDLE)):
        assert [differences(10.0, after, what, work) for after in (1.0, 12.9, 13.1)] == [0, 0, 1]
    wake_ups = "wake-ups of worker"
    assert [differences(10.0, after, wake_ups) for after in (1.0, 17.4, 17.6)] == [0, 0, 1]


def test_what_depends_on_how_much_is_done_at_once_is_only_shown() -> None:
    for what, work in (("fetch requests of worker", BATCH), ("SQL statements", STEP)):
        assert differences(10.0, 20.0, what, work) == 0
    assert differences(10.0, 11.0, "records of events", BATCH) == 1
    assert differences(10.0, 99.0, "wake-ups of console") == 0
    assert differences(900.0, 9_000.0, "function calls of console", IDLE) == 1


def test_what_is_new_or_gone_is_said() -> None:
    found = ledger.differences({WARM: {"records of events": 10.0}}, {WARM: {"records of other": 2.0}})
    assert found == [
        f"{WARM}: records of events: 0.00, the ledger has 10.00",
        f"{WARM}: records of other: 2.00, the ledger has 0.00",
    ]


def test_what_was_written_is_read_without_what_is_only_shown_or_nearly_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "PATH", tmp_path / "ledger.json")
    counts = {"records of events": 10.0204, "records of metrics": 0.01, "fetch requests of worker": 1.0}
    ledger.write({WARM: counts, BATCH: counts})
    assert ledger.read() == {
        WARM: {"fetch requests of worker": 1.0, "records of events": 10.02},
        BATCH: {"records of events": 10.02},
    }


def test_the_ledger_has_all_kinds_of_work() -> None:
    assert set(ledger.read()) == {*WORKS, IDLE}
