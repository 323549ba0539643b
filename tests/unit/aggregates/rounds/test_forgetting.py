"""Readers of a job that forget settled tasks early, late or never, or begin from a snapshot, agree."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.aggregates.rounds.given import AGGREGATES, CAPABILITIES, JOB
from tests.unit.aggregates.rounds.test_random_jobs import MOVES, live_through
from trackside.contracts.envelope.message import Record
from trackside.domain.commands.react import react
from trackside.domain.folding.stream_index import StreamIndex
from trackside.domain.folding.streams import Streams, dump, load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import shrink


class Reader:
    """Folds a log, forgets tasks and continues from a snapshot when it is to."""

    def __init__(self, forgets: Callable[[], bool], reloads: Callable[[], bool] = lambda: False) -> None:
        self.streams = Streams(AGGREGATES)
        self.index = StreamIndex(self.streams)
        self.forgets, self.reloads = forgets, reloads

    def read(self, record: Record) -> Any:
        """Folds a record; returns what became of it, and all that is decided then."""
        stream, outcome = self.streams.fold(record)
        if outcome is Outcome.APPLIED:
            self.index.fold(stream, record.message)
        if self.forgets():
            shrink(stream)
        if self.reloads():
            self.streams.by_id[stream.stream_id] = stream = load(pack(stream), AGGREGATES)
        aggregate = AGGREGATES.of(stream)
        decided = react(stream, CAPABILITIES, AGGREGATES, self.index)
        if aggregate is None:
            return outcome, decided
        later_ms = record.append_time_ms + 60_000
        return outcome, decided, aggregate.next_due_ms(stream), list(aggregate.due(stream, later_ms))


@pytest.mark.thorough
@settings(max_examples=12)
@given(st.integers(0, 2**32), st.booleans())
def test_readers_agree_whether_they_forget_or_begin_from_a_snapshot(seed: int, rivals: bool) -> None:
    random = Random(seed)
    records = live_through(seed, MOVES, rivals=rivals).log.records
    never = Reader(lambda: False)
    others = {
        "early": Reader(lambda: True),
        "late": Reader(lambda: random.random() < 0.05),
        "from snapshots": Reader(lambda: random.random() < 0.1, lambda: random.random() < 0.1),
    }
    for record in records:
        expected = never.read(record)
        for name, reader in others.items():
            assert reader.read(record) == expected, (name, record)
    shrink(never.streams.by_id[JOB])
    for reader in others.values():
        shrink(reader.streams.by_id[JOB])
        assert dump(reader.streams.by_id[JOB]) == dump(never.streams.by_id[JOB])
