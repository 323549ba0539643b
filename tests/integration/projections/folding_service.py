"""A service that folds the log and writes its rows, and decides nothing."""

from collections.abc import Callable, Iterable

from trackside.contracts.envelope.message import Record
from trackside.domain.fleet import fleet
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.eventlog.log import Entry
from trackside.eventlog.reactor.decider import Decision, DecisionContext
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.recovery import recover
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import from_start
from trackside.projections.database.failed_transactions import OnWaiting
from trackside.projections.tables.owners import OWNERS
from trackside.projections.writing.row_changes import MOST_PENDING, RowChanges
from trackside.projections.writing.runner import Pace
from trackside.projections.writing.service_rows import DecidingState, write_rows
from trackside.projections.writing.snapshots import PostgresSnapshots


class FoldingDecider:
    """Folds streams and fleet as dispatcher and scheduler do, and notes the changes of their rows."""

    def __init__(self, service: ServiceContext, streams: Streams, changes: RowChanges) -> None:
        self._events = service.topics.events.name
        self._streams, self._changes = streams, changes
        self._fleet = fleet.Fleet()

    def fold(self, record: Record) -> Outcome:
        """Folds a record of the events or the fleet topic."""
        if record.topic == self._events:
            stream, outcome = self._streams.fold(record)
            self._changes.note(stream, outcome, record)
            return outcome
        outcome = fleet.evolve(self._fleet, record)
        self._changes.note_fleet(self._fleet, outcome, record)
        return outcome

    def count(self, record: Record) -> None:
        """Counts nothing."""

    def on_external_entry(self, entry: Entry) -> None:
        """Takes nothing in."""

    def decide(self, context: DecisionContext) -> Iterable[Decision]:
        """Decides nothing."""
        return ()

    def reconsider(self, stream: str) -> None:
        """Reconsiders nothing."""

    def act(self, context: DecisionContext) -> None:
        self._changes.settle()
        self._streams.spill_idle()

    def next_due_ms(self) -> int | None:
        return None


async def run_folding_service(
    owner: str,
    service: ServiceContext,
    on_waiting: OnWaiting,
    on_written: Callable[[], None],
    pace: Pace,
    *,
    standby: bool = False,
    most_pending: int = MOST_PENDING,
) -> None:
    """Recovers from snapshots, then folds the log and writes the rows of an owner until it is stopped."""
    topics, changes = service.topics, RowChanges(OWNERS[owner], service.topics, most_pending=most_pending)
    await service.log.ensure(topics.shared)
    snapshots = PostgresSnapshots(service.settings.postgres_dsn)
    streams, starts = await recover(snapshots, service.log, topics.events)
    starts |= await from_start(service.log, topics.fleet)
    if not standby:
        changes.start(starts)
    reactor = Reactor(
        service,
        FoldingDecider(service, streams, changes),
        starts=starts,
        raw={},
        partitions={},
        standby=standby,
    )
    service.background.spawn(
        write_rows(
            service,
            DecidingState(changes, streams, lambda: reactor.positions),
            standby=standby,
            on_waiting=on_waiting,
            on_written=on_written,
            pace=pace,
        )
    )
    await reactor.run()
