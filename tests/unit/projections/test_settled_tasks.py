"""Readers that forget settled tasks early, late or never agree: on outcomes, reasons, decisions and rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.domain.given import STREAM, Told, task_active
from tests.unit.domain.plausible import Chance
from tests.unit.domain.test_services import fail
from tests.unit.projections.test_rows import OF_STREAMS, all_rows
from trackside.aggregates.batch.aggregate import BATCH
from trackside.aggregates.batch.messages import StopTasks
from trackside.aggregates.dataset.state import dataset_of
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.aggregate import SEARCH
from trackside.aggregates.search.messages import TRIAL, StopTrial
from trackside.aggregates.search.state import search_of
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.dispatcher.advice.tuner_history import HistoryItem, TunerHistory
from trackside.domain.commands.react import react
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.lookup import NO_LOOKUP
from trackside.domain.folding.streams import Streams, dump, load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.rows.table import RowKey, RowValues, settled_keys
from trackside.domain.streams.stream import Stream, forget_settled
from trackside.domain.tasks.retries import KEPT_ATTEMPTS
from trackside.projections.tables.ignored_reports import ignored_reason
from trackside.projections.tables.owners import OWNERS, Owner
from trackside.projections.writing.row_changes import RowChanges

OF_ALL_STREAMS = tuple(each for owner in OWNERS.values() for each in owner.of_all_streams)
OF_IGNORED = tuple(each for owner in OWNERS.values() for each in owner.of_ignored)
ALL = Owner("all", of_all_streams=OF_ALL_STREAMS, of_ignored=OF_IGNORED, has_aggregates=True)
"""One owner of all rows of streams."""
TOPICS = Topics()
NEVER = 1_000_000
Rows = dict[tuple[str, RowKey], RowValues]


@dataclass
class Reader:
    """Folds a log as a service does, forgets after some of its records, and writes rows after some others."""

    forgets: Callable[[], bool]
    writes: Callable[[], bool]
    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES))
    rows: Rows = field(default_factory=dict)
    history: TunerHistory = field(default_factory=TunerHistory)
    most_tasks: int = 0
    _changes: RowChanges = field(default_factory=lambda: RowChanges(ALL, TOPICS, settle_after=NEVER))

    def __post_init__(self) -> None:
        self._changes.start({})

    def read(self, record: Record) -> Any:
        """Folds a record and returns all that is said of it, and all that follows from the state then."""
        stream, outcome = self.streams.fold(record)
        self._changes.note(stream, outcome, record)
        reason = None if outcome is Outcome.APPLIED else ignored_reason(stream, record)
        found = (outcome, reason, self.decisions(stream, record.append_time_ms))
        if self.forgets():
            self._changes.settle()
        if self.writes():
            self.write()
        self.most_tasks = max(self.most_tasks, len(stream.tasks))
        return found

    def decisions(self, stream: Stream, now_ms: int) -> Any:
        """Returns what would be decided about a stream now, and what its tuner would be given."""
        aggregate = AGGREGATES.of(stream)
        if aggregate is None or stream.closed:
            return react(stream, Capabilities(), AGGREGATES)
        due = list(aggregate.due(stream, now_ms + 100))
        asked: list[HistoryItem] = []
        search = search_of(stream)
        if search is not None and search.next_trial is not None:
            asked = list(self.history.until(search, search.next_trial))
        return react(stream, Capabilities(), AGGREGATES), aggregate.next_due_ms(stream), due, asked

    def write(self) -> None:
        """Computes the rows of what has changed, and keeps them as the tables do."""
        positions = self.streams.positions.items()
        taken = self._changes.take({(TOPICS.events.name, at): position for at, position in positions})
        self._changes.bases.clear()  # the offsets of repeated records are not in order
        for write in (write for pending in taken.values() for write in pending.writes()):
            width = write.table.key_width
            for name, key in list(self.rows):
                if name == write.table.name and key[0] in write.groups:
                    del self.rows[name, key]
            self.rows.update({(write.table.name, row[:width]): row for row in write.rows})

    @property
    def stream(self) -> Stream:
        return self.streams.by_id[STREAM]


def readers(random: Random) -> list[Reader]:
    """Returns readers that forget never, always at once, and at random times; the others write seldom."""

    def seldom() -> bool:
        return random.random() < 0.05

    return [Reader(never, never), Reader(lambda: True, seldom), Reader(seldom, seldom)]


def never() -> bool:
    return False


def answers_to_stops(stream: Stream, names: list[str]) -> list[Any]:
    """Returns what commands to stop a single task or trial would be answered."""
    of_tasks, of_trials = BATCH.commands[StopTasks], SEARCH.commands[StopTrial]
    said = [of_tasks(stream, StopTasks(task=name), "c-9", NO_LOOKUP) for name in names]
    return [*said, *(of_trials(stream, StopTrial(trial=at), "c-9", NO_LOOKUP) for at in range(9))]


@pytest.mark.thorough
@settings(max_examples=15)
@given(st.integers(0, 2**32))
@example(108575)  # a task whose training has resumed is free again for the next trial
def test_readers_agree_whether_they_forget_early_late_or_never(seed: int) -> None:
    agree(seed, 120)


@pytest.mark.thorough
def test_many_readers_agree_whether_they_forget_early_late_or_never() -> None:
    found = [agree(seed, 300) for seed in range(100)]
    assert max(never for never, _ in found) > 2 * max(early for _, early in found)


def agree(seed: int, moves: int) -> tuple[int, int]:
    """Compares readers of a random log; returns the most tasks that were kept: never forgotten, and early."""
    random = Random(seed)
    told = Chance(random).history(moves)
    never, early, late = readers(random)
    names = [*told.stream.tasks, "1", "2", "4", "none"]
    for record in with_late_repeats(random, told.records):
        expected = never.read(record)
        assert early.read(record) == expected
        assert late.read(record) == expected
        if STREAM not in never.streams.by_id:
            continue
        if random.random() < 0.1:
            stops = answers_to_stops(never.stream, names)
            assert answers_to_stops(early.stream, names) == stops
            assert answers_to_stops(late.stream, names) == stops
        if not never.stream.closed:
            gone = [task_id for task_id in never.stream.tasks if task_id not in early.stream.tasks]
            assert gone == [] or sorted(gone) == sorted(never.stream.root.settled)
            assert all(early.stream.is_settled(task_id) for task_id in gone)
            assert not early.stream.is_settled("none")
            assert early.stream.tasks.keys() <= open_tasks(early.stream)
    most = (never.most_tasks, early.most_tasks)
    for reader in (never, early, late):
        reader.write()
        assert reader.rows == never.rows
        assert dump(load(pack(reader.stream), AGGREGATES)) == dump(never.stream)
    return most


def with_late_repeats(random: Random, records: list[Record]) -> Iterator[Record]:
    """Yields the records, and between them earlier ones again, some of them for another trial."""
    parts = [record.message.part for record in records if isinstance(record.message, TaskSubmitted)]
    for count, record in enumerate(records, 1):
        yield record
        if random.random() < 0.5:
            again = random.choice(records[:count])
            message = again.message
            if isinstance(message, TaskSubmitted) and random.random() < 0.5:
                message = message.model_copy(update={"part": random.choice(parts)})
            offset, now_ms = len(records) + count, record.append_time_ms
            yield replace(again, offset=offset, append_time_ms=now_ms, message=message)


def open_tasks(stream: Stream) -> set[str]:
    """Returns the tasks that are open, or whose trial is, and those that are not their trial's."""
    search, dataset = search_of(stream), dataset_of(stream)
    if dataset is not None:
        return {dataset.watcher_id()} if dataset.watching else set()
    if search is None:
        return set(getattr(stream.root, "open", ()))  # a model has no tasks
    numbers = {name: number_of(task.part, TRIAL) or 0 for name, task in stream.tasks.items()}
    others = [name for name, number in numbers.items() if search.task_of(number) != name]
    return {*(search.task_of(number) for number in search.active), *search.idle, *others}


@pytest.mark.thorough
@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_rows_of_settled_tasks_are_computed_once_and_are_those_of_the_whole_log(seed: int) -> None:
    random = Random(seed)
    rows_are_the_same(Chance(random).history(120), lambda: random.random() < 0.1)


def rows_are_the_same(told: Told, forgets: Callable[[], bool]) -> set[str]:
    """Folds a log, forgets now and then; returns the tables of rows that were computed before that."""
    streams, rows = Streams(AGGREGATES), dict[tuple[str, RowKey], RowValues]()
    for record in told.records:
        stream, _ = streams.fold(record)
        if stream.closed or not forgets():
            continue
        for projection in OF_STREAMS:
            for key in list(settled_keys(projection, stream) or ()):
                assert (projection.table.name, key) not in rows
                rows[projection.table.name, key] = projection.row(stream, key)
        forget_settled(stream)
        services = [task for task in stream.tasks.values() if task.needs.service]
        assert all(len(task.attempts) <= KEPT_ATTEMPTS for task in services)
    remaining = all_rows(streams.by_id[STREAM])
    assert not rows.keys() & remaining.keys()
    expected = all_rows(told.stream)
    assert rows | remaining == {at: expected[at] for at in (*rows, *remaining)} == expected
    return {name for name, _ in rows}


def test_rows_of_old_attempts_of_a_service_are_computed_before_they_are_forgotten() -> None:
    told, number = task_active(service=True), iter(range(1_000_000))
    for _ in range(3 * KEPT_ATTEMPTS):
        fail(told)
    assert rows_are_the_same(told, lambda: next(number) % 50 == 0)
