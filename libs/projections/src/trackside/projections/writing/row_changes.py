"""What an owner's rows lack of the state that its service folds: noted record by record, written later."""

from collections.abc import Mapping
from typing import Final

from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.forgetting import StreamForgotten
from trackside.contracts.streams.parking import UnknownRecord
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.outcome import Outcome
from trackside.domain.rows.table import Projection, RowValues, Table
from trackside.domain.streams.stream import Stream, shrink
from trackside.eventlog.clock import now_ms
from trackside.eventlog.log import TopicPartition
from trackside.projections.tables.owners import Owner
from trackside.projections.writing.pending import PendingChanges
from trackside.projections.writing.snapshots import UnsavedStreams

MOST_PENDING: Final = 50_000
"""How many keys and rows may wait for Postgres; beyond that nothing is noted, and rows come from the log."""
SETTLE_AFTER: Final = 500
"""After how many records at most the state forgets what has settled, while a service only folds."""
_FLEET: Final = ""
_PARKED: Final = UnknownRecord(unknown_type="")


class RowChanges:
    """Notes the changes of one owner, by partition, from the offsets `bases` on.

    It also makes streams forget what nothing reads any more (`shrink`), once their rows are computed. While
    `noting` is False it does only that: then the rows lack more than it could say. `unsaved` are the streams
    whose snapshots are older than they are, for an owner that keeps snapshots; they are noted in any case.
    """

    def __init__(
        self,
        owner: Owner,
        topics: Topics,
        *,
        most_pending: int | None = MOST_PENDING,
        settle_after: int = SETTLE_AFTER,
    ) -> None:
        self.owner = owner
        self.noting = False
        self.bases: dict[TopicPartition, int] = {}
        self.pending: dict[TopicPartition, PendingChanges] = {}
        self.on_change = _nothing
        """Called when there is something to `take`, or nothing is noted any more."""
        self.unsaved = UnsavedStreams() if owner.keeps_snapshots else None
        self._most_pending, self._settle_after = most_pending, settle_after
        self._topics = frozenset(topic.name for topic in owner.topics(topics))
        self._events = topics.events.name
        self._unshrunk: dict[str, Stream] = {}
        self._unsettled_records = 0
        self._of_kinds: dict[str, tuple[Projection[Stream], ...]] = {}
        self._of_records = owner.of_records

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Notes from now on; `positions` are the next offsets of the owner's partitions, and of others."""
        self.noting = True
        self.pending.clear()
        self.bases = {place: position for place, position in positions.items() if place[0] in self._topics}

    def skip_to(self, written: Mapping[TopicPartition, int], positions: Mapping[TopicPartition, int]) -> None:
        """Notes nothing of records whose rows are written, of the partitions that are not folded further."""
        for place, end in written.items():
            if self.bases.get(place, end) < end and positions[place] <= end:
                self.bases[place] = end
                self.pending.pop(place, None)

    def stop(self) -> None:
        """Drops what is noted, and notes nothing more."""
        self.noting = False
        self.pending.clear()

    def note(self, stream: Stream, outcome: Outcome, record: Record, at: int = -1) -> None:
        """Notes a record of the events that was just folded into its stream.

        `at` is the offset up to which the log was folded then, if it isn't the record's own.
        """
        self._unshrunk[stream.stream_id] = stream
        pending = self._pending(record, max(at, record.offset))
        if pending is not None:
            pending.streams.add(stream.stream_id)
            if outcome is Outcome.PARKED:
                pending.note(stream.stream_id, stream, self._of_kind(stream.kind), _PARKED)
            elif outcome is not Outcome.APPLIED:
                pending.note_record(self.owner.of_ignored, stream, record)
            elif isinstance(record.message, Event):
                if type(record.message) is StreamForgotten:
                    pending.forget(stream.stream_id, self.owner.stream_columns)
                pending.note(stream.stream_id, stream, self._of_kind(stream.kind), record.message)
                pending.note_record(self._of_records, stream, record)
        if self.unsaved is not None and (stream.rules or stream.parked):
            self.unsaved.note(record.partition, stream.stream_id)
            if type(record.message) is StreamForgotten and outcome is Outcome.APPLIED:
                self.unsaved.hurry(record.partition)
        self._unsettled_records += 1
        if self._unsettled_records >= self._settle_after:
            self.settle()

    def note_fleet(self, fleet: Fleet, outcome: Outcome, record: Record) -> None:
        """Notes a record of the fleet topic that was just folded."""
        pending = self._pending(record, record.offset) if self.owner.of_fleet else None
        if pending is not None and outcome is Outcome.APPLIED and isinstance(record.message, Event):
            pending.note(_FLEET, fleet, self.owner.of_fleet, record.message)

    def add(self, record: Record, table: Table, row: RowValues) -> None:
        """Notes a row that is computed from a record alone."""
        pending = self._pending(record, record.offset)
        if pending is not None:
            pending.add(table, row)

    def settle(self) -> None:
        """Makes streams forget what they no longer need, after the rows of it are computed."""
        for stream in self._unshrunk.values():
            pending = self.pending.get((self._events, stream.partition))
            if pending is not None:
                pending.settle(stream)
            shrink(stream)
        self._unshrunk.clear()
        self._unsettled_records = 0
        most = self._most_pending
        if most is not None and sum(pending.size for pending in self.pending.values()) > most:
            self.stop()
            self.on_change()

    def take(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, PendingChanges]:
        """Returns what is noted before `positions`, the next offsets, by partition that has moved.

        What is noted of other partitions waits.
        Nothing if that is more than may be kept: then `noting` is False.
        """
        self.settle()
        taken: dict[TopicPartition, PendingChanges] = {}
        if not self.noting:
            return taken
        for place, position in positions.items():
            base, noted = self.bases.get(place, 0), self.pending.pop(place, None)
            if position > base:
                taken[place] = noted or PendingChanges(base, now_ms())
                taken[place].end = self.bases[place] = position
        return taken

    def _of_kind(self, kind: str) -> tuple[Projection[Stream], ...]:
        """Returns the rows of a stream of a kind; asked for each record, so those of others are left out."""
        found = self._of_kinds.get(kind)
        if found is None:
            found = self._of_kinds[kind] = self.owner.of_kind(kind)
        return found

    def _pending(self, record: Record, at: int) -> PendingChanges | None:
        """Returns where to note a record; None if its rows are written, or nothing is noted."""
        place = (record.topic, record.partition)
        if not self.noting or at < self.bases.get(place, 0):
            return None
        pending = self.pending.get(place)
        if pending is None:
            self.on_change()
            pending = PendingChanges(self.bases.get(place, 0), record.append_time_ms)
            self.pending[place] = pending
        return pending


def _nothing() -> None:
    """Does nothing."""
