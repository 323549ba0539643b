"""Folds the log for one owner's rows alone, and writes them: where no service has folded what they lack."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from trackside.eventlog.background import cancel_and_wait
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Reader, TopicPartition
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.projections.database.failed_transactions import OnWaiting
from trackside.projections.database.positions import RewoundError
from trackside.projections.database.postgres import LIVE_SCHEMA, Database, SchemaMissingError, database
from trackside.projections.tables.owners import OWNERS
from trackside.projections.writing.projection_state import ProjectionState
from trackside.projections.writing.row_writer import RowWriter
from trackside.projections.writing.snapshots import load_snapshots
from trackside.telemetry.logs import logger

BATCH_RECORDS = 2_000
MAX_WAIT_S = 1.0
log = logger("trackside.projections")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often rows are written.

    `gather_s` is how long changes are gathered, `between_s` the pause between transactions, `quiet_s` how
    long a partition must not change before it is saved, all in s.
    """

    gather_s: float = 0.15
    between_s: float = 0.05
    quiet_s: float = 5.0
    checkpoint_records: int = 2_000


PACE = Pace()


async def run_projection(
    owner: str,
    service: ServiceContext,
    *,
    on_waiting: OnWaiting = lambda reason: None,
    pace: Pace = PACE,
    on_written: Callable[[], None] = lambda: None,
) -> None:
    """Keeps the read models of an owner at the end of the log until the service stops.

    Waits for Kafka and Postgres without limit; calls `on_waiting` with the reason, and with None when it
    continues; calls `on_written` after every transaction. Raises OffsetGoneError, NewerSchemaError and
    AnotherLogError, and writes nothing more.
    """
    async with database(service.settings.postgres_dsn, LIVE_SCHEMA) as opened:
        writer = RowWriter(OWNERS[owner], service, opened, on_waiting, on_written)
        await until_stopped(Runner(service, opened, writer, pace).run(), service.stop)


async def until_stopped(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> None:
    """Runs `work` until it ends or `stop` is set; raises its error."""
    running = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
    finally:
        await cancel_and_wait(running, stopping)


class Runner:
    """Recovers one owner's state from its snapshots, then reads, folds and writes."""

    def __init__(self, service: ServiceContext, opened: Database, writer: RowWriter, pace: Pace) -> None:
        self._owner = writer.owner
        self._log, self._topics = service.log, service.topics
        self._database = opened
        self._writer = writer
        self._on_waiting = writer.on_waiting
        self._pace = pace

    async def run(self, goals: Callable[[], Mapping[TopicPartition, int]] | None = None) -> None:
        """Runs until the rows, and the snapshots, are as far as the `goals` of that time; if None, for ever.

        Starts over when the read models are older than the state, or missing.
        """
        while True:
            try:
                state = await self._recovered()
                reader = self._log.reader(await self._starts(state), self._pace.gather_s)
                try:
                    await self._follow(state, reader, goals)
                    return
                finally:
                    self._writer.changes = None
                    await reader.close()
            except (RewoundError, SchemaMissingError) as error:
                reason = str(error)
                log.warning("read models are older than the state", owner=self._owner.name, reason=reason)
            except TransientError as error:
                self._on_waiting(f"waiting for the log: {error}")
                await asyncio.sleep(self._pace.between_s)

    async def _recovered(self) -> ProjectionState:
        """Returns the state of the snapshots, with the positions of the rows."""
        state = ProjectionState(self._owner, self._topics, await self._writer.prepare())
        if self._owner.of_streams:
            recovered = await self._database.commit_with_retries(
                load_snapshots, self._writer.on_retry, repeatable_read=True
            )
            if recovered is not None:
                state.adopt(recovered)
        self._writer.changes = state.changes
        return state

    async def _starts(self, state: ProjectionState) -> dict[TopicPartition, int]:
        """Returns the offsets to read from; dead letters expire, so old ones may be gone."""
        starts, letters = state.starts(), self._topics.dead_letters.name
        if any(topic == letters for topic, _ in starts):
            for partition, begin in (await self._log.beginnings(letters)).items():
                starts[letters, partition] = max(begin, starts.get((letters, partition), 0))
        return starts

    async def _follow(
        self,
        state: ProjectionState,
        reader: Reader,
        goals: Callable[[], Mapping[TopicPartition, int]] | None,
    ) -> None:
        quiet_since = monotonic_s()
        while goals is None or any(state.written.get(place, 0) < goal for place, goal in goals().items()):
            entries = await reader.read(min(MAX_WAIT_S, self._pace.quiet_s), BATCH_RECORDS)
            self._on_waiting(None)
            began = monotonic_s()
            state.fold(entries)
            await state.read_again(self._log)
            due = state.due(self._pace.quiet_s, self._pace.checkpoint_records)
            if state.has_changes() or due:
                await self._write(state, due)
                await asyncio.sleep(max(0.0, self._pace.between_s - (monotonic_s() - began)))
            elif entries:
                state.changes.settle()
                await asyncio.sleep(0)
            elif began - quiet_since >= self._pace.quiet_s:
                await self._write(state, [])
            if entries or began - quiet_since >= self._pace.quiet_s:
                quiet_since = began
        if unsaved := state.due(0.0, 0):
            await self._write(state, unsaved)

    async def _write(self, state: ProjectionState, due: list[int]) -> None:
        """Writes what has changed, and the snapshots of the partitions `due`, in one transaction."""
        taken = state.changes.take(state.folded)
        written = dict(state.written)
        checkpoints = [state.checkpoint(partition) for partition in due]
        state.mark_written(taken, await self._writer.write(taken, written, checkpoints))
