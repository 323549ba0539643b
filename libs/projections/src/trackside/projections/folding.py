"""The state that one owner's rows are computed from, and what has changed in it since it was last written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trackside.contracts.message import Event, Record
from trackside.contracts.topics import Topics
from trackside.domain.fleet import Fleet
from trackside.domain.fleet import evolve as evolve_fleet
from trackside.domain.outcome import Outcome
from trackside.domain.stream import shrink
from trackside.domain.streams import Streams
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Entry, TopicPartition
from trackside.eventlog.recovery import Recovered
from trackside.eventlog.spill import SpillStore
from trackside.projections.dead_letters import DEAD_LETTERS, letter_row
from trackside.projections.owners import Owner
from trackside.projections.pending import Pending


@dataclass(slots=True)
class Folding:
    """Folded state of one owner; `written` are the positions up to which its rows are written.

    Records before `written` are folded and write nothing. `unsaved` are, per partition of the events
    topic, the streams that changed since they were last snapshotted; `counted` is how many records that was.
    """

    owner: Owner
    topics: Topics
    written: dict[TopicPartition, int]
    streams: Streams = field(default_factory=lambda: Streams(spilled=SpillStore()))
    fleet: Fleet = field(default_factory=Fleet)
    folded: dict[TopicPartition, int] = field(default_factory=dict)
    pending: dict[TopicPartition, Pending] = field(default_factory=dict)
    unsaved: dict[int, set[str]] = field(default_factory=dict)
    counted: dict[int, int] = field(default_factory=dict)

    def adopt(self, recovered: Recovered) -> None:
        """Takes over snapshots, but of no partition whose rows are older: their changes would be missed."""
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
        """Gives the offsets to read from: behind the snapshots; dead letters where the rows end."""
        letters = self.topics.dead_letters.name
        return {
            place: position if place[0] == letters else self.folded.get(place, 0)
            for place, position in self.written.items()
        }

    def fold(self, entries: Iterable[Entry]) -> None:
        """Folds entries and notes what they changed. Raises what `decode` and `Streams.fold` raise."""
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

    def _fold_event(self, record: Record, pending: Pending | None) -> None:
        stream, outcome = self.streams.fold(record)
        partition = record.partition
        if stream.rules:
            self.unsaved.setdefault(partition, set()).add(stream.stream_id)
            self.counted[partition] = self.counted.get(partition, 0) + 1
        if outcome is Outcome.APPLIED and pending is not None and isinstance(record.message, Event):
            pending.note(stream, record.message)
            pending.note_record(stream, record)
        elif outcome is not Outcome.APPLIED and pending is not None:
            pending.note_ignored(stream, record)

    def _pending(self, place: TopicPartition, offset: int) -> Pending | None:
        """Gives where to note the changes of a record; nothing if its rows are written already."""
        self.folded[place] = offset + 1
        base = self.written.get(place, 0)
        if offset < base:
            return None
        pending = self.pending.get(place)
        if pending is None:
            of_fleet = place[0] == self.topics.fleet.name
            projections = self.owner.of_fleet if of_fleet else self.owner.of_streams
            pending = Pending(projections, self.owner.of_records, base, base, self.owner.of_ignored)
            self.pending[place] = pending
        pending.end = offset + 1
        return pending

    def shrink_closed(self) -> None:
        """Forgets what closed streams no longer need; to be called when their rows are computed."""
        for names in self.unsaved.values():
            for name in names:
                stream = self.streams.by_id.get(name)
                if stream is not None and stream.tasks and stream.closed:
                    shrink(stream)

    def moved(self, found: Mapping[TopicPartition, int], held: Iterable[TopicPartition]) -> None:
        """Notes that rows of the places `held` are written, or were by another, up to `found` at least."""
        for place in held:
            self.written[place] = max(found.get(place, 0), self.folded.get(place, 0))
        self.pending.clear()
        self.streams.spill_idle()
