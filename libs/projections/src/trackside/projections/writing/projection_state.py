"""The state that one owner's rows are computed from, folded for them alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.fleet.fleet import evolve as evolve_fleet
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.eventlog.reactor.recovery import Recovered
from trackside.eventlog.reactor.spill import SpillStore
from trackside.eventlog.released_streams import read_again
from trackside.projections.tables.dead_letters import DEAD_LETTERS, letter_row
from trackside.projections.tables.owners import Owner
from trackside.projections.writing.pending import PendingChanges
from trackside.projections.writing.row_changes import RowChanges
from trackside.projections.writing.snapshots import Checkpoint


@dataclass(slots=True)
class ProjectionState:
    """Folded state of one owner; `written` are the positions up to which its rows are written.

    Records before `written` are folded but write no rows.
    """

    owner: Owner
    topics: Topics
    written: dict[TopicPartition, int]
    streams: Streams = field(init=False)
    fleet: Fleet = field(default_factory=Fleet)
    folded: dict[TopicPartition, int] = field(default_factory=dict)
    changes: RowChanges = field(init=False)

    def __post_init__(self) -> None:
        """Notes changes from the positions of the rows on."""
        self.changes = RowChanges(self.owner, self.topics, most_pending=None)
        self.changes.start(self.written)
        self.streams = Streams(
            AGGREGATES,
            partitions=self.topics.event_partitions,
            spilled=SpillStore(),
        )

    def adopt(self, recovered: Recovered) -> None:
        """Starts from snapshots, except of partitions whose rows are older: their changes would be missed."""
        events = self.topics.events.name
        usable = {
            partition
            for partition, position in recovered.positions.items()
            if position <= self.written.get((events, partition), 0)
        }
        for stream in recovered.streams:
            if stream.partition in usable:
                self.streams.adopt(stream)
        for partition in usable:
            self.folded[events, partition] = recovered.positions[partition]

    def starts(self) -> dict[TopicPartition, int]:
        """Returns the offsets to read from: after the snapshots; for dead letters, after the last row."""
        letters = self.topics.dead_letters.name
        return {
            topic_partition: position
            if topic_partition[0] == letters
            else self.folded.get(topic_partition, 0)
            for topic_partition, position in self.written.items()
        }

    def fold(self, entries: Iterable[Entry]) -> None:
        """Folds entries and notes their changes."""
        events, fleet = self.topics.events.name, self.topics.fleet.name
        for entry in entries:
            record = decode(entry)
            self.folded[entry.topic, entry.partition] = entry.offset + 1
            if record is None:
                continue
            if entry.topic == events:
                stream, outcome = self.streams.fold(record)
                self.changes.note(stream, outcome, record)
            elif entry.topic == fleet:
                self.changes.note_fleet(self.fleet, evolve_fleet(self.fleet, record), record)
            elif (row := letter_row(record)) is not None:
                self.changes.add(record, DEAD_LETTERS, row)

    async def read_again(self, log: Log) -> None:
        """Folds what streams lack that were parked and go on; the rows are not at one moment before."""
        if self.streams.released:
            await read_again(log, self.topics.events.name, self.streams, self._note_again)

    def _note_again(self, stream: Stream, outcome: Outcome, record: Record) -> None:
        self.changes.note(stream, outcome, record, self.streams.positions[record.partition] - 1)

    def has_changes(self) -> bool:
        """Returns whether records were folded whose rows are not written."""
        return any(position > self.changes.bases.get(place, 0) for place, position in self.folded.items())

    def due(self, quiet_s: float, checkpoint_records: int) -> list[int]:
        """Lists the partitions to save, as `UnsavedStreams.due` does, that are as far as their rows."""
        unsaved, events = self.changes.unsaved, self.topics.events.name
        return [
            partition
            for partition in (() if unsaved is None else unsaved.due(quiet_s, checkpoint_records))
            if self.folded[events, partition] >= self.written[events, partition]
        ]

    def checkpoint(self, partition: int) -> Checkpoint:
        """Serialises the streams of a partition that changed since they were saved."""
        assert self.changes.unsaved is not None  # or none would be due
        return self.changes.unsaved.take(
            partition, self.folded[self.topics.events.name, partition], self.streams
        )

    def mark_written(
        self, taken: Mapping[TopicPartition, PendingChanges], found: Mapping[TopicPartition, int]
    ) -> None:
        """Records that the rows of what was `taken` are written, by any process, at least up to `found`."""
        for place, pending in taken.items():
            self.written[place] = max(found.get(place, 0), pending.end)
        self.streams.spill_idle()
