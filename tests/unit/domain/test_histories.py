"""Over histories drawn by chance: the fold never raises, nothing counts twice, and all readers agree."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.domain.given import STREAM
from tests.unit.domain.plausible import Chance, ParkingChance
from trackside.aggregates.batch.state import Batch, batch_of
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchStatus
from trackside.aggregates.search.state import OVER, search_of
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream, shrink
from trackside.domain.streams import Streams, dump, load, pack
from trackside.domain.task import TaskState

SEEDS = st.integers(0, 2**32)


@settings(max_examples=15)
@given(SEEDS)
def test_what_was_folded_adds_nothing_when_it_comes_again(seed: int) -> None:
    random = Random(seed)
    told = Chance(random).history(80)
    applied = [
        record
        for record, outcome in zip(told.records, told.outcomes, strict=True)
        if outcome is Outcome.APPLIED
    ]
    before = settled(told.stream)
    for record in random.sample(applied, min(25, len(applied))):
        assert told.fold(record) is not Outcome.APPLIED
        assert settled(told.stream) == before


def settled(found: Stream) -> bytes:
    """Gives the state without its notes of an ignored decision, and of the last event about a command."""
    noted, found.ignored_decision = found.ignored_decision, b""
    commands_at, found.commands_at = found.commands_at, -1
    state = dump(found)
    found.ignored_decision, found.commands_at = noted, commands_at
    return state


@settings(max_examples=15)
@given(SEEDS)
def test_readers_agree_whatever_prefix_they_took_from_a_snapshot(seed: int) -> None:
    random = Random(seed)
    told = (Chance if seed % 2 else ParkingChance)(random).history(80)
    other = Streams(AGGREGATES)
    for record, outcome in zip(told.records, told.outcomes, strict=True):
        if random.random() < 0.1 and STREAM in other.by_id:
            other.by_id[STREAM] = load(pack(other.by_id[STREAM]), AGGREGATES)
        assert other.fold(record)[1] is outcome
    assert other.by_id[STREAM] == told.stream
    assert load(pack(told.stream), AGGREGATES) == told.stream
    assert dump(load(pack(told.stream), AGGREGATES)) == dump(told.stream)
    assert other.positions == told.streams.positions


@settings(max_examples=15)
@given(SEEDS)
def test_a_reader_that_shrinks_closed_streams_agrees_with_one_that_does_not(seed: int) -> None:
    told = (Chance if seed % 2 else ParkingChance)(Random(seed)).history(150)
    other = Streams(AGGREGATES)
    for record, outcome in zip(told.records, told.outcomes, strict=True):
        found, own = other.fold(record)
        assert own is outcome
        shrink(found)


@settings(max_examples=15)
@given(SEEDS)
def test_the_promises_of_a_search_hold_at_every_offset(seed: int) -> None:
    told = Chance(Random(seed)).history(100)
    streams = Streams(AGGREGATES)
    for record in told.records:
        found, _ = streams.fold(record)
        keeps_its_promises(found)


def keeps_its_promises(found: Stream) -> None:
    keeps_promises_of_tasks(found)
    if batch_of(found) is not None:
        keeps_promises_of_a_batch(found.root)
    root = search_of(found)
    if root is None:
        return
    numbers = [trial.number for trial in root.trials]
    assert numbers == list(range(len(numbers)))
    assert len(root.active) <= root.spec.concurrency + root.debt
    assert sorted([*root.active, *root.ends]) == numbers
    assert root.opened == sorted(root.opened)
    assert len(root.opened) == root.spec.concurrency + root.debt + len(root.ends)
    assert root.debt >= 0
    assert all(offset >= root.moved_at for offset in root.opened[len(numbers) :])
    if root.changes == 0:
        assert len(numbers) <= root.spec.max_trials
    if root.changes == 0 and root.moved_at < 0:
        assert [root.trials[number].ended_at for number in root.ends] == root.opened[root.spec.concurrency :]
    assert (root.status is SearchStatus.PAUSED) <= bool(root.paused)
    assert not (root.status in OVER and root.active)


def keeps_promises_of_tasks(found: Stream) -> None:
    for known in found.tasks.values():
        holds = known.state in (TaskState.PLACED, TaskState.ACTIVE)
        assert holds == (known.place is not None)
        had = known.attempt.incarnations
        assert known.place is None or (had[-1], len({*had})) == (known.place.incarnation, len(had))
        assert not (known.state is TaskState.QUEUED and known.stop_reason)
        assert (known.end is not None) == (known.state is TaskState.ENDED)
        assert [attempt.number for attempt in known.attempts] == list(range(1, len(known.attempts) + 1))
        assert all(attempt.end is not None for attempt in known.attempts[:-1])
        assert len(known.attempt.past) <= known.attempt.placement
        assert not (known.held and known.state is TaskState.QUEUED and known.due_ms is not None)
        assert known.attempt.stopping is None or holds or known.state is TaskState.ENDED
        steps = [step for step, _ in known.reports]
        assert steps == sorted(set(steps))
        assert (
            len(known.checkpoints) <= known.needs.keep_checkpoints.newest + known.needs.keep_checkpoints.best
        )


def keeps_promises_of_a_batch(found: Batch) -> None:
    assert len(found.open) + len(found.open_children) <= found.spec.concurrency
    assert len(found.ended) == found.group <= len(found.spec.groups)
    for ends, group in zip(found.ended, found.spec.groups, strict=False):
        assert sum(ends.values()) == len(group.tasks) + len(group.children)
    is_open = len(found.open) + len(found.open_children)
    assert sum(found.ends.values()) + is_open == found.submitted + found.begun


@pytest.mark.thorough
def test_generated_histories_mostly_count_and_tell_whole_searches() -> None:
    histories = [Chance(Random(seed)).history(400) for seed in range(60)]
    outcomes = Counter(outcome for told in histories for outcome in told.outcomes)
    assert outcomes[Outcome.APPLIED] * 2 >= outcomes.total()
    assert min(outcomes[Outcome.DUPLICATE], outcomes[Outcome.OVERTAKEN]) > 500
    ends = Counter(f"{told.stream.kind} {getattr(told.stream.root, 'status', '')}" for told in histories)
    assert ends["search DONE"] > 1 and ends["search STOPPED"] > 0 and ends["batch DONE"] > 0
