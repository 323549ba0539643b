"""Folds a log from its start to the rows of every owner, as they were at the owner's position."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.forgetting import StreamForgotten
from trackside.contracts.wire.codec import UndecodableError
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.fleet.fleet import evolve as evolve_fleet
from trackside.domain.folding.fold import AFTER_CLOSE
from trackside.domain.folding.streams import Streams, pack
from trackside.domain.outcome import Outcome
from trackside.domain.rows.table import Projection, RowKey, RowValues, Table, settled_keys
from trackside.domain.streams.stream import Stream, forget_settled, shrink
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.eventlog.released_streams import read_again
from trackside.projections.tables.dead_letters import DEAD_LETTERS, letter_row
from trackside.projections.tables.metric_tables import ITEMS, POINTS, SERIES, UPDATER_FAILURES
from trackside.projections.tables.metrics import rows_of
from trackside.projections.tables.owners import Owner
from trackside.summary_indexer.validation import decode_summaries

OwnerCuts = Mapping[str, Mapping[TopicPartition, int]]
StreamStates = dict[str, dict[int, list[bytes]]]
"""Serialized streams as they were at an owner's cut, by owner and partition of the events."""


PURGED = Table("purged_jobs", ("job_id",), key_width=1)
"""Not a table of the schema: its rows are the jobs whose rows are removed before the others are copied."""

FORGOTTEN = Table("forgotten_rows", ("stream_id",), key_width=1)
"""Not a table of the schema: its rows are the streams whose rows are removed before the others are copied."""


@dataclass(slots=True)
class RowBuffer:
    """Rows that wait to be copied, table by table; `known_series` has the job of each series so far."""

    tables: dict[str, tuple[Table, list[RowValues]]] = field(default_factory=dict)
    known_series: dict[int, str] = field(default_factory=dict)

    def of(self, table: Table) -> list[RowValues]:
        """Returns the list of a table's rows, to be appended to."""
        return self.tables.setdefault(table.name, (table, []))[1]

    def purge(self, job: str) -> None:
        """Removes the rows of a job that wait; those that were copied are removed before the next ones."""
        gone = {number for number, owner in self.known_series.items() if owner == job}
        for table in (POINTS, ITEMS, SERIES):
            waiting = self.of(table)
            waiting[:] = [row for row in waiting if row[0] not in gone]
        for number in gone:
            del self.known_series[number]
        self.of(PURGED).append((job,))

    def forget(self, stream_id: str, columns: Mapping[str, str]) -> None:
        """Removes the rows of a stream that wait; those that were copied are removed before the next ones."""
        for name, (table, rows) in self.tables.items():
            if (column := columns.get(name)) is not None:
                at = table.columns.index(column)
                rows[:] = [row for row in rows if row[at] != stream_id]
        self.of(FORGOTTEN).append((stream_id,))

    def records(self) -> dict[str, list[RowValues]]:
        """Returns all rows by the name of their table, and empties the buffer."""
        tables, self.tables = self.tables, {}
        return {name: rows for name, (_, rows) in tables.items() if rows}

    @property
    def longest(self) -> int:
        """The number of rows in the longest list."""
        return max((len(rows) for _, rows in self.tables.values()), default=0)


@dataclass(slots=True)
class LogFold:
    """One pass over the log for all owners; each ends a partition at its own cut.

    `cuts[owner][(topic, partition)]` is the first offset that the owner's rows don't contain.
    """

    owners: tuple[Owner, ...]
    cuts: OwnerCuts
    topics: Topics
    rows: RowBuffer = field(default_factory=RowBuffer)
    streams: Streams = field(init=False)
    fleet: Fleet = field(default_factory=Fleet)
    events: int = 0
    keep_states: bool = False
    states: StreamStates = field(default_factory=dict)
    """Filled if `keep_states`."""
    _merged_rows: dict[TopicPartition, dict[tuple[str, RowKey], tuple[Table, RowValues]]] = field(
        default_factory=dict
    )
    _kinds: frozenset[type[Event]] = frozenset()
    """The events that have rows of their own."""

    def __post_init__(self) -> None:
        """Collects the events that have rows of their own."""
        self.streams = Streams(AGGREGATES, partitions=self.topics.event_partitions)
        self._kinds = frozenset(
            kind for owner in self.owners for source in owner.of_records for kind in source.kinds
        )

    def places(self) -> dict[TopicPartition, int]:
        """Returns every partition to read, with the highest cut of any owner."""
        found: dict[TopicPartition, int] = {}
        for owner in self.owners:
            for place, cut in self.cuts.get(owner.name, {}).items():
                found[place] = max(found.get(place, 0), cut)
        return found

    async def fold(self, log: Log, place: TopicPartition, entries: list[Entry]) -> None:
        """Folds the next entries of one partition of a log, up to the last cut."""
        stops = sorted({cut for cut in self._cuts_of(place).values() if cut > entries[0].offset})
        for stop in stops:
            if not entries:
                return
            inside = entries if entries[-1].offset < stop else [e for e in entries if e.offset < stop]
            entries = entries[len(inside) :]
            self.events += len(inside)
            await self._fold_all(log, place, inside, stop)
            if inside and inside[-1].offset + 1 == stop:
                self._finish(place, stop)

    def _cuts_of(self, place: TopicPartition) -> dict[str, int]:
        return {name: cuts[place] for name, cuts in self.cuts.items() if place in cuts}

    async def _fold_all(self, log: Log, place: TopicPartition, entries: Iterable[Entry], stop: int) -> None:
        cuts = self._cuts_of(place)
        present = [owner for owner in self.owners if cuts.get(owner.name, 0) >= stop]
        if place[0] == self.topics.events.name:
            await self._fold_events(log, place, entries, present)
        elif place[0] == self.topics.fleet.name:
            for entry in entries:
                if (record := decode(entry)) is not None:
                    evolve_fleet(self.fleet, record)
        elif place[0] == self.topics.metrics.name:
            for entry in entries:
                self._fold_summaries(entry)
        else:
            letters = self.rows.of(DEAD_LETTERS)
            found = (decode(entry) for entry in entries)
            letters += [row for record in found if record and (row := letter_row(record))]

    async def _fold_events(
        self, log: Log, place: TopicPartition, entries: Iterable[Entry], present: list[Owner]
    ) -> None:
        fold, changed = self.streams.fold, dict[str, Stream]()

        def take(stream: Stream, outcome: Outcome, record: Record) -> None:
            if outcome is Outcome.APPLIED:
                changed[stream.stream_id] = stream
                self._add_applied(place, stream, record, present)
            elif outcome is not Outcome.PARKED:
                for source in (source for owner in present for source in owner.of_ignored):
                    self.rows.of(source.table).extend(source.rows(stream, record))

        for entry in entries:
            record = decode(entry)
            if record is not None:
                take(*fold(record), record)
        if self.streams.released:
            await read_again(log, place[0], self.streams, take)
        for stream in changed.values():
            self._add_settled_rows(stream, present)

    def _add_applied(
        self, place: TopicPartition, stream: Stream, record: Record, present: list[Owner]
    ) -> None:
        """Adds the rows of a record that was applied, and of a stream that is closed by it."""
        kind = type(record.message)
        if kind is StreamForgotten:
            self._forget(place, stream.stream_id)
        if kind in self._kinds:
            self._add_record_rows(place, stream, record, present)
        if stream.closed and kind not in AFTER_CLOSE:  # it was closed by this record
            for owner in present:
                self._add_rows(owner.of_kind(stream.kind), stream, after_close=False)
            shrink(stream)

    def _forget(self, place: TopicPartition, stream_id: str) -> None:
        """Drops the rows of a stream; there are some if its key was there when this process began."""
        columns = {name: at for owner in self.owners for name, at in owner.stream_columns.items()}
        self.rows.forget(stream_id, columns)
        merged = self._merged_rows.get(place, {})
        for key, (table, row) in list(merged.items()):
            column = columns.get(table.name)
            if column is not None and row[table.columns.index(column)] == stream_id:
                del merged[key]

    def _add_settled_rows(self, stream: Stream, present: list[Owner]) -> None:
        """Adds the rows that never change again, and forgets what they are computed from."""
        for projection in (each for owner in present for each in owner.of_kind(stream.kind)):
            if (keys := settled_keys(projection, stream)) is not None:
                self.rows.of(projection.table).extend(projection.row(stream, key) for key in keys)
        forget_settled(stream)

    def _add_record_rows(
        self, place: TopicPartition, stream: Stream, record: Record, present: list[Owner]
    ) -> None:
        """Adds the rows of a record, those that later records may complete once they are complete."""
        rows = self._merged_rows.setdefault(place, {})
        for source in (source for owner in present for source in owner.of_records):
            if type(record.message) not in source.kinds:
                continue
            table = source.table
            if table.insert_only:
                self.rows.of(table).extend(source.rows(stream, record))
                continue
            for row in source.rows(stream, record):
                key = (table.name, row[: table.key_width])
                old = rows.get(key)
                rows[key] = (table, row if old is None else table.merged(old[1], row))

    def _fold_summaries(self, entry: Entry) -> None:
        try:
            rows = rows_of([decode_summaries(entry)])
        except UndecodableError:
            return
        for job in rows.purged:
            self.rows.purge(job)
        self.rows.of(POINTS).extend(rows.points)
        self.rows.of(ITEMS).extend(rows.items)
        self.rows.of(UPDATER_FAILURES).extend(rows.failures)
        for number, row in rows.series.items():
            if number not in self.rows.known_series:
                self.rows.known_series[number] = row[2]
                self.rows.of(SERIES).append(row)

    def _finish(self, place: TopicPartition, cut: int) -> None:
        """Adds the rows of open streams for the owners whose cut is reached."""
        leaving = [o for o in self.owners if self.cuts.get(o.name, {}).get(place) == cut]
        if place[0] == self.topics.events.name:
            streams = [s for s in self.streams.by_id.values() if s.partition == place[1]]
            for owner in leaving:
                if self.keep_states and owner.of_streams:
                    self.states.setdefault(owner.name, {})[place[1]] = [pack(stream) for stream in streams]
                for stream in streams:
                    if not stream.closed:
                        self._add_rows(owner.of_kind(stream.kind), stream, after_close=False)
                    self._add_rows(owner.of_kind(stream.kind), stream, after_close=True)
                self._add_merged_rows(place, owner)
        elif place[0] == self.topics.fleet.name:
            for owner in leaving:
                self._add_rows(owner.of_fleet, self.fleet, after_close=False)

    def _add_merged_rows(self, place: TopicPartition, owner: Owner) -> None:
        names = {source.table.name for source in owner.of_records}
        found = self._merged_rows.get(place, {})
        for key in [key for key in found if key[0] in names]:
            table, row = found.pop(key)
            self.rows.of(table).append(row)

    def _add_rows(self, projections: Iterable[Projection[Any]], state: Any, *, after_close: bool) -> None:
        for projection in projections:
            if projection.table.changes_after_close is after_close:
                rows, row = self.rows.of(projection.table), projection.row
                rows += [row(state, key) for key in projection.keys(state)]
