"""Writes an owner's rows from the state that its service folds to decide, in the background."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trackside.domain.folding.streams import Streams
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.garbage import give_back_freed_memory
from trackside.eventlog.log import TopicPartition
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.projections.database.failed_transactions import OnWaiting
from trackside.projections.database.positions import RewoundError
from trackside.projections.database.postgres import LIVE_SCHEMA, SchemaMissingError, database
from trackside.projections.writing.row_changes import RowChanges
from trackside.projections.writing.row_writer import Positions, RowWriter
from trackside.projections.writing.runner import PACE, Pace, Runner, until_stopped
from trackside.telemetry.logs import logger

WATCH_S: Final = 2.0
"""How long rows must stand still before a standby writes them, in s."""
RETRY_S: Final = 0.2
FIRST_S: Final = 0.02
"""How long changes are gathered after a pause, in s: an event that comes alone is shown at once."""
log = logger("trackside.projections")


@dataclass(frozen=True, slots=True)
class DecidingState:
    """What a service has folded: its `streams`, the next offsets to fold, and what it noted for its rows."""

    changes: RowChanges
    streams: Streams
    positions: Callable[[], Positions]


async def write_rows(
    service: ServiceContext,
    folded: DecidingState,
    *,
    standby: bool = False,
    on_waiting: OnWaiting = lambda reason: None,
    on_written: Callable[[], None] = lambda: None,
    pace: Pace = PACE,
) -> None:
    """Keeps an owner's rows at its service's state until the service stops; waits for Postgres without limit.

    A standby writes only while nobody else does. Raises NewerSchemaError and AnotherLogError.
    """
    async with database(service.settings.postgres_dsn, LIVE_SCHEMA) as opened:
        writer = RowWriter(folded.changes.owner, service, opened, on_waiting, on_written)
        runner = Runner(service, opened, writer, pace)
        rows = ServiceRows(folded, writer, runner, service.topics.events.name, pace, standby=standby)
        await until_stopped(rows.run(), service.stop)


class ServiceRows:
    """Writes rows from the service's state; those that it can't know, from the log.

    It can't know what was not noted: what happened before the service's snapshot, or while too much waited
    for Postgres, or is missing in a database of an earlier time. Then a Runner folds what the rows lack, up
    to the offset from which changes are noted, with a state of its own.
    """

    def __init__(
        self,
        folded: DecidingState,
        writer: RowWriter,
        runner: Runner,
        events: str,
        pace: Pace,
        *,
        standby: bool,
    ) -> None:
        self._changes = folded.changes
        self._folded = folded
        self._writer = writer
        self._runner = runner
        self._events = events
        self._pace = pace
        self._standby = standby
        self._partitions = writer.partitions()
        self._changed = asyncio.Event()
        self._changes.on_change = self._changed.set

    async def run(self) -> None:
        """Writes until it is cancelled."""
        while True:
            try:
                written = await self._writer.prepare()
                if self._standby:
                    written = await self._until_they_stand_still(written)
                self._changes.skip_to(written, self._positions())
                if any(written[place] < goal for place, goal in self._goals().items()):
                    await self._runner.run(self._goals)
                self._writer.changes = self._changes
                await self._follow()
            except (RewoundError, SchemaMissingError) as error:
                reason = str(error)
                log.warning(
                    "read models are older than the state", owner=self._changes.owner.name, reason=reason
                )
            except TransientError as error:
                self._writer.on_waiting(f"waiting for the log: {error}")
                await asyncio.sleep(RETRY_S)

    def _positions(self) -> dict[TopicPartition, int]:
        """Returns the next offsets to fold, of the partitions that the rows come from."""
        positions = self._folded.positions()
        return {place: positions[place] for place in self._partitions}

    def _goals(self) -> Positions:
        """Returns from where changes are noted: the rows must be that far before they can be written."""
        if not self._changes.noting:
            self._changes.start(self._positions())
        return self._changes.bases

    async def _follow(self) -> None:
        """Writes until not all changes are noted; a standby until someone else writes."""
        began_s, is_quiet = 0.0, False
        while self._changes.noting:
            was_quiet = is_quiet
            try:
                async with asyncio.timeout(self._pace.quiet_s):
                    await self._changed.wait()
            except TimeoutError:
                is_quiet = True  # saves what is quiet, and sees whether the rows are still there
            else:
                is_quiet = False
                period_s = self._pace.gather_s + self._pace.between_s
                await asyncio.sleep(max(FIRST_S, began_s + period_s - monotonic_s()))
            self._changed.clear()
            if not self._changes.noting:
                return
            began_s = monotonic_s()
            if await self._write() and self._standby:
                self._changes.stop()
            if is_quiet and not was_quiet:
                give_back_freed_memory()

    async def _write(self) -> bool:
        """Writes what has changed, and the snapshots that are due; returns whether others had written it.

        Rows of a partition wait while a stream of it is read again: they would be of two moments.
        """
        held = {(self._events, each.partition) for each in self._folded.streams.released.values()}
        positions = {place: at for place, at in self._positions().items() if place not in held}
        expected = dict(self._changes.bases)
        taken = self._changes.take(positions)
        if not self._changes.noting:
            return False
        checkpoints = []
        if (unsaved := self._changes.unsaved) is not None:
            for partition in unsaved.due(self._pace.quiet_s, self._pace.checkpoint_records):
                position = positions.get((self._events, partition), -1)
                if position >= expected[self._events, partition]:  # else it would be older than the rows
                    checkpoints.append(unsaved.take(partition, position, self._folded.streams))
        self._folded.streams.spill_idle()
        found = await self._writer.write(taken, expected, checkpoints)
        return bool(taken) and all(found[place] >= pending.end for place, pending in taken.items())

    async def _until_they_stand_still(self, written: Positions) -> dict[TopicPartition, int]:
        """Waits until rows that lack something have not changed for a while; returns their positions."""
        self._changes.stop()
        while True:
            before, goals = written, self._positions()
            await asyncio.sleep(WATCH_S)
            written = await self._writer.positions()
            if written == before and any(written[place] < goal for place, goal in goals.items()):
                return dict(written)


async def keep_rows(
    service: ServiceContext, changes: RowChanges, streams: Streams, reactor: Reactor, *, standby: bool
) -> None:
    """Keeps the read models at the state that the reactor folds, until the service stops."""
    owner, health = changes.owner.name, service.health

    def on_waiting(reason: str | None) -> None:
        if reason is not None and not health.rows_wait:
            log.warning("read models wait", owner=owner, reason=reason)
        elif reason is None and health.rows_wait:
            log.info("read models continue", owner=owner)
        health.rows_wait = reason or ""

    folded = DecidingState(changes, streams, lambda: reactor.positions)
    await write_rows(service, folded, standby=standby, on_waiting=on_waiting)
