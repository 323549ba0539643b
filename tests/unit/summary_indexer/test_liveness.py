import asyncio
from dataclasses import dataclass, field

import pytest

from tests.unit.summary_indexer.given import TOPICS, batch, outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.summary_indexer.liveness import StallDetector, StalledError, WaitReasons, watch_liveness
from trackside.telemetry.health import Health


@dataclass
class FixedPositions:
    positions: dict[int, int] = field(default_factory=dict)
    is_working: bool = False


async def watch(
    position: int,
    reasons: WaitReasons,
    health: Health,
    stuck_s: float,
    for_s: float = 60.0,
    *,
    is_working: bool = False,
) -> None:
    """Watches an index that stays at a position of a log of one record."""
    log = MemoryLog()
    await log.ensure([TOPICS.metrics])
    await log.append(TOPICS.metrics.name, 0, [outgoing(batch())])
    index = FixedPositions({0: position}, is_working)
    async with asyncio.timeout(for_s):
        await watch_liveness(log, TOPICS.metrics, index, health, reasons, stuck_s)


async def test_an_index_that_stands_still_ends_the_service() -> None:
    health = Health("summary-indexer")
    with pytest.raises(StalledError):
        await watch(0, WaitReasons(health), health, stuck_s=0.05)
    assert not health.ready


async def test_it_is_ready_when_it_has_come_to_the_end_of_the_log() -> None:
    health = Health("summary-indexer")
    with pytest.raises(TimeoutError):
        await watch(1, WaitReasons(health), health, stuck_s=0.05, for_s=0.05)
    assert health.is_ready
    assert health.lag_s == {TOPICS.metrics.name: 0}


@pytest.mark.thorough
async def test_waiting_for_postgres_is_not_being_stuck() -> None:
    health = Health("summary-indexer")
    wait_reasons = WaitReasons(health)
    wait_reasons.reporter("points")("waiting for Postgres: gone")
    with pytest.raises(TimeoutError):
        await watch(0, wait_reasons, health, stuck_s=0.01, for_s=1.2)
    assert health.waiting_text is not None
    assert health.waiting_text.startswith("waiting for Postgres")


@pytest.mark.thorough
async def test_a_transaction_that_takes_long_is_not_being_stuck() -> None:
    health = Health("summary-indexer")
    with pytest.raises(TimeoutError):
        await watch(0, WaitReasons(health), health, stuck_s=0.01, for_s=1.2, is_working=True)


def test_it_waits_as_long_as_one_part_of_it_waits() -> None:
    health = Health("summary-indexer", ready=True)
    wait_reasons = WaitReasons(health)
    points, dead_letters = wait_reasons.reporter("points"), wait_reasons.reporter("letters")
    points("waiting for Postgres")
    dead_letters("waiting for the log")
    points(None)
    assert not health.is_ready
    dead_letters(None)
    assert health.is_ready


def test_the_lag_grows_while_the_log_has_more_and_is_nothing_at_its_end() -> None:
    detector = StallDetector(10)
    assert detector.lag_s({0: 5, 1: 0}, {0: 5, 1: 0}, now_s=100) == 0
    assert detector.lag_s({0: 9}, {0: 5}, now_s=103) == 3
    assert detector.lag_s({0: 9}, {0: 8}, now_s=104) == 4
    assert detector.lag_s({0: 9}, {0: 9}, now_s=105) == 0


@pytest.mark.parametrize(("positions", "limit_s"), [({0: 5}, 10), ({}, 30)])
def test_an_index_that_stands_still_or_never_begins_while_the_log_has_more_is_stuck(
    positions: dict[int, int], limit_s: int
) -> None:
    detector = StallDetector(10)
    for now_s in range(100, 101 + limit_s):
        detector.lag_s({0: 9}, positions, now_s)
        detector.check(now_s)
    with pytest.raises(StalledError, match=f"for {limit_s + 1} s nothing was read"):
        detector.check(101 + limit_s)


def test_time_in_which_the_host_did_not_let_it_look_does_not_count() -> None:
    detector = StallDetector(10)
    for now_s in range(100, 1_100, 100):
        detector.lag_s({0: 9}, {0: 5}, now_s)
        detector.check(now_s)


def test_slow_progress_an_index_at_the_end_and_one_after_an_outage_are_not_stuck() -> None:
    slow, at_end, after_outage = StallDetector(10), StallDetector(10), StallDetector(10)
    for now_s in range(100, 200):
        slow.lag_s({0: 100}, {0: now_s // 9}, now_s)
        slow.check(now_s)
        at_end.lag_s({0: 5}, {0: 5}, now_s)
        at_end.check(now_s)
        after_outage.lag_s({0: 9}, {0: 5}, now_s)
        after_outage.check(now_s, waits=now_s < 195)
