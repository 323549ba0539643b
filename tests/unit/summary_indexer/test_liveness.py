import asyncio
from dataclasses import dataclass, field

import pytest

from tests.unit.summary_indexer.given import TOPICS, batch, outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.summary_indexer.liveness import WaitReasons, watch_liveness
from trackside.summary_indexer.stall_detector import StalledError
from trackside.telemetry.health import Health


@dataclass
class FixedPositions:
    positions: dict[int, int] = field(default_factory=dict)


async def log_of_one_record() -> MemoryLog:
    log = MemoryLog()
    await log.ensure([TOPICS.metrics])
    await log.append(TOPICS.metrics.name, 0, [outgoing(batch())])
    return log


async def test_an_index_that_stands_still_ends_the_service() -> None:
    log, health = await log_of_one_record(), Health("summary-indexer")
    with pytest.raises(StalledError):
        await run_watch(log, FixedPositions({0: 0}), health, WaitReasons(health), stuck_s=0.05)
    assert not health.ready


async def test_it_is_ready_when_it_has_come_to_the_end_of_the_log() -> None:
    log, health = await log_of_one_record(), Health("summary-indexer")
    with pytest.raises(TimeoutError):
        await run_watch(log, FixedPositions({0: 1}), health, WaitReasons(health), stuck_s=0.05, for_s=0.05)
    assert health.is_ready
    assert health.lag_s == {TOPICS.metrics.name: 0}


@pytest.mark.thorough
async def test_waiting_for_postgres_is_not_being_stuck() -> None:
    log, health = await log_of_one_record(), Health("summary-indexer")
    wait_reasons = WaitReasons(health)
    wait_reasons.reporter("points")("waiting for Postgres: gone")
    with pytest.raises(TimeoutError):
        await run_watch(log, FixedPositions({0: 0}), health, wait_reasons, stuck_s=0.01, for_s=1.2)
    assert health.waiting_text is not None
    assert health.waiting_text.startswith("waiting for Postgres")


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


async def run_watch(
    log: MemoryLog,
    index: FixedPositions,
    health: Health,
    wait_reasons: WaitReasons,
    stuck_s: float,
    for_s: float = 60,
) -> None:
    async with asyncio.timeout(for_s):
        await watch_liveness(log, TOPICS.metrics, index, health, wait_reasons, stuck_s)
