import asyncio
from dataclasses import dataclass, field

import pytest

from tests.unit.summary_indexer.points import TOPICS, batch, outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.summary_indexer.progress import StuckError
from trackside.summary_indexer.watch import Waits, watch
from trackside.telemetry.health import Health


@dataclass
class Index:
    """An index that stands where it is put."""

    positions: dict[int, int] = field(default_factory=dict)


async def test_an_index_that_stands_still_ends_the_service() -> None:
    log, health = MemoryLog(), Health("summary-indexer")
    await log.ensure([TOPICS.metrics])
    await log.append(TOPICS.metrics.name, 0, [outgoing(batch())])
    with pytest.raises(StuckError):
        await watched(log, Index({0: 0}), health, Waits(health), stuck_s=0.05)
    assert not health.ready


async def test_it_is_ready_when_it_has_come_to_the_end_of_the_log() -> None:
    log, health = MemoryLog(), Health("summary-indexer")
    await log.ensure([TOPICS.metrics])
    await log.append(TOPICS.metrics.name, 0, [outgoing(batch())])
    with pytest.raises(TimeoutError):
        await watched(log, Index({0: 1}), health, Waits(health), stuck_s=0.05, for_s=0.05)
    assert health.is_ready
    assert health.lag_s == {TOPICS.metrics.name: 0}


@pytest.mark.thorough
async def test_waiting_for_postgres_is_not_being_stuck() -> None:
    log, health = MemoryLog(), Health("summary-indexer")
    await log.ensure([TOPICS.metrics])
    await log.append(TOPICS.metrics.name, 0, [outgoing(batch())])
    waits = Waits(health)
    waits.teller("points")("waiting for Postgres: gone")
    with pytest.raises(TimeoutError):
        await watched(log, Index({0: 0}), health, waits, stuck_s=0.01, for_s=1.2)
    assert health.waiting_text is not None
    assert health.waiting_text.startswith("waiting for Postgres")


def test_it_waits_as_long_as_one_part_of_it_waits() -> None:
    health = Health("summary-indexer", ready=True)
    waits = Waits(health)
    points, letters = waits.teller("points"), waits.teller("letters")
    points("waiting for Postgres")
    letters("waiting for the log")
    points(None)
    assert not health.is_ready
    letters(None)
    assert health.is_ready


async def watched(
    log: MemoryLog, index: Index, health: Health, waits: Waits, stuck_s: float, for_s: float = 60
) -> None:
    async with asyncio.timeout(for_s):
        await watch(log, TOPICS.metrics, index, health, waits, stuck_s)
