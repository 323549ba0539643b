"""A service that is killed at any step between a fold and the acknowledgement of its rows loses no row."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from random import Random
from typing import Any

import pytest

from tests.integration.projections.folding_service import run_folding_service
from tests.integration.projections.harness import (
    FAST_PACE,
    TOPICS,
    all_rows,
    rows_of_the_whole_log,
    running_projections,
    service_on,
)
from tests.unit.projections.given import HistoryWriter
from trackside.eventlog.memory import MemoryLog
from trackside.projections.positions import move_positions
from trackside.projections.postgres import Database
from trackside.projections.row_changes import RowChanges
from trackside.projections.snapshots import write_checkpoint
from trackside.projections.upserts import upsert

OWNERS = ("dispatcher", "scheduler")
WRITER = "trackside.projections.row_writer"
STEPS = ("noted", "taken", "rows", "positions", "snapshot", "committed")
"""What has just happened when the process is killed."""


class KilledError(Exception):
    """Ends the service: an open transaction is rolled back, and nothing that it knew is left."""


def kill_when(monkeypatch: pytest.MonkeyPatch, step: str, owner: str, after: int) -> None:
    """Has the service of an owner die when a step was done for the time `after`, counted from 0."""
    done = 0

    def died() -> bool:
        nonlocal done
        done += 1
        return done > after

    def then_die(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def patched(*arguments: Any, **named: Any) -> Any:
            result = await function(*arguments, **named)
            if died():
                raise KilledError(step)
            return result

        return patched

    def then_die_at_once(function: Callable[..., Any]) -> Callable[..., Any]:
        def patched(changes: RowChanges, *arguments: Any, **named: Any) -> Any:
            result = function(changes, *arguments, **named)
            if changes.owner.name == owner and died():
                raise KilledError(step)
            return result

        return patched

    match step:
        case "noted":
            monkeypatch.setattr(RowChanges, "note", then_die_at_once(RowChanges.note))
        case "taken":
            monkeypatch.setattr(RowChanges, "take", then_die_at_once(RowChanges.take))
        case "rows":
            monkeypatch.setattr(f"{WRITER}.upsert", then_die(upsert))
        case "positions":
            monkeypatch.setattr(f"{WRITER}.move_positions", then_die(move_positions))
        case "snapshot":
            monkeypatch.setattr(f"{WRITER}.write_checkpoint", then_die(write_checkpoint))
        case _:
            monkeypatch.setattr(Database, "transaction", then_die(Database.transaction))


@pytest.mark.parametrize("owner", OWNERS)
async def test_no_row_is_lost_when_its_service_is_killed_at_any_step(
    database: str, monkeypatch: pytest.MonkeyPatch, owner: str, seed: int
) -> None:
    log, random = MemoryLog(), Random(seed)
    await log.ensure(TOPICS.shared)
    history = HistoryWriter(log, TOPICS)
    await history.search("first")
    steps = [step for step in STEPS if step != "snapshot" or owner == "dispatcher"]
    random.shuffle(steps)
    searches = count()
    for number, step in enumerate(steps):
        with monkeypatch.context() as patches:
            kill_when(patches, step, owner, random.randrange(3))
            service = service_on(log, database)
            running = asyncio.create_task(
                run_folding_service(owner, service, lambda reason: None, lambda: None, FAST_PACE)
            )
            async with asyncio.timeout(60):
                while not running.done():
                    await history.search(f"{number}-{next(searches)}", lost=random.randrange(2))
                    await asyncio.wait({running}, timeout=2 * FAST_PACE.quiet_s)
            with pytest.raises(KilledError, match=step):
                await running
    async with running_projections(log, database, *OWNERS) as rows:
        await rows.caught_up()
    found = await all_rows(database)
    assert await rows_of_the_whole_log(log, database) == found
