"""The state that one owner's rows are computed from, and its changes since the rows were last written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.message import Event, Record
from trackside.contracts.topics import Topics
from trackside.domain.fleet import Fleet
from trackside.domain.fleet import evolve as evolve_fleet
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream, shrink
from trackside.domain.streams import Streams
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Entry, TopicPartition
from trackside.eventlog.recovery import Recovered
from trackside.eventlog.spill import SpillStore
from trackside.projections.dead_letters import DEAD_LETTERS, letter_row
from trackside.projections.owners import Owner
from trackside.projections.pending import PendingChanges


@dataclass(slots=True)
class ProjectionState:
    """Folded state of one owner; `written` are the positions up to which its rows are written.

    Records before `written` are folded but write no rows. `unsaved_streams` are the streams that changed
    since their last snapshot, per partition of the events topic, `unsaved_records` the number of the changes,
    `snapshot_bytes` the size of the last snapshot of each stream. `unshrunk` are the streams that may have
    something to forget.
    """

    owner: Owner
    topics: Topics
    written: dict[TopicPartition, int]
    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES, spilled=SpillStore()))
    fleet: Fleet = field(default_factory=Fleet)
    folded: dict[TopicPartition, int] = field(default_factory=dict)
    pending: dict[TopicPartition, PendingChanges] = field(default_factory=dict)
    unsaved_streams: dict[int, set[str]] = field(default_factory=dict)
    unsaved_records: dict[int, int] = field(default_factory=dict)
    snapshot_bytes: dict[str, int] = field(default_factory=dict)
    unshrunk: dict[str, Stream] = field(default_factory=dict)

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
        """Folds entries and records their changes. Raises what `decode` and `Streams.fold` raise."""
        events, fleet = self.topics.events.name, self.topics.fleet.name
        for entry in entries:
            record = decode(entry)
            pending = self._pending((entry.topic, entry.partition), entry.offset)
            if record is None:
                continue
            if entry.topic == events:
                self._fold_event(record, pending)
            elif entry.topic == fleet:
                applied = evolve_fleet(self.fleet, record) is Outcome.APPLIED
                if applied and pending is not None and isinstance(record.message, Event):
                    pending.note(self.fleet, record.message)
            elif pending is not None and (row := letter_row(record)) is not None:
                pending.add(DEAD_LETTERS, row)

    def _fold_event(self, record: Record, pending: PendingChanges | None) -> None:
        stream, outcome = self.streams.fold(record)
        self.unshrunk[stream.stream_id] = stream
        partition = record.partition
        if pending is not None:
            pending.streams.add(stream.stream_id)
        if stream.rules:
            self.unsaved_streams.setdefault(partition, set()).add(stream.stream_id)
            self.unsaved_records[partition] = self.unsaved_records.get(partition, 0) + 1
        if outcome is Outcome.APPLIED and pending is not None and isinstance(record.message, Event):
            pending.note(stream, record.message)
            pending.note_record(stream, record)
        elif outcome is not Outcome.APPLIED and pending is not None:
            pending.note_ignored(stream, record)

    def _pending(self, topic_partition: TopicPartition, offset: int) -> PendingChanges | None:
        """Returns where to record the changes of a record; None if its rows are written already."""
        self.folded[topic_partition] = offset + 1
        base = self.written.get(topic_partition, 0)
        if offset < base:
            return None
        pending = self.pending.get(topic_partition)
        if pending is None:
            of_fleet = topic_partition[0] == self.topics.fleet.name
            projections = self.owner.of_fleet if of_fleet else self.owner.of_streams
            pending = PendingChanges(projections, self.owner.of_records, base, base, self.owner.of_ignored)
            self.pending[topic_partition] = pending
        pending.end = offset + 1
        return pending

    def shrink(self) -> None:
        """Forgets what streams no longer need; to be called once their rows are computed."""
        for stream in self.unshrunk.values():
            shrink(stream)
        self.unshrunk.clear()

    def mark_written(self, found: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]) -> None:
        """Records that the rows of `partitions` are written, by any process, at least up to `found`."""
        for topic_partition in partitions:
            self.written[topic_partition] = max(
                found.get(topic_partition, 0), self.folded.get(topic_partition, 0)
            )
        self.pending.clear()
        self.streams.spill_idle()
