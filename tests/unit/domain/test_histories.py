"""Over histories drawn by chance: the fold never raises, nothing counts twice, and all readers agree."""

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType, ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.domain.given import STREAM, Told, fold_on
from tests.unit.domain.plausible import Chance
from tests.unit.domain.plausible_forgetting import ForgettingChance
from tests.unit.domain.plausible_parking import ParkingChance
from trackside.aggregates.batch import evolve as batch
from trackside.aggregates.batch.state import Batch, batch_of
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search import evolve as search
from trackside.aggregates.search.advice import advice as search_advice
from trackside.aggregates.search.messages import SearchStatus
from trackside.aggregates.search.state import OVER, search_of
from trackside.aggregates.search.trials import changes as search_changes
from trackside.domain.folding import fold
from trackside.domain.folding.streams import Streams, dump, load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams import child, command
from trackside.domain.streams.stream import Stream, shrink
from trackside.domain.tasks import reports, task_acceptance, task_artifacts, task_events, task_reuse
from trackside.domain.tasks.task import TaskState

SEEDS = st.integers(0, 2**32)
CHANCES: dict[int, type[Chance]] = {0: ParkingChance, 1: ForgettingChance}
MODULES: tuple[ModuleType, ...] = (
    *(batch, child, command, fold, reports, search, search_advice, search_changes),
    *(task_acceptance, task_artifacts, task_events, task_reuse),
)
UNREACHABLE = {
    # `fold` asks for these before it hands an event on, so that no history leads there.
    ("search.evolve", "        case _:"),
    ("batch.evolve", "        case _:"),
    ("domain.task_events", "        case _:"),
    # Where signatures are required; see tests/unit/signing.
    ("domain.fold", "    if record.trust is not stream.trust:"),
}
REFUSALS = {f"return Outcome.{outcome}" for outcome in ("OVERTAKEN", "DUPLICATE")}
REFUSALS |= {f'return "{said}"' for said in ("late", "stale", "repeat")}


def guards() -> dict[tuple[str, int], str]:
    """Finds every guard of the fold in its source: the lines that return why an event has no effect."""
    found = {}
    for module in MODULES:
        lines = inspect.getsource(module).splitlines()
        for number, line in enumerate(lines, 1):
            name = ".".join(module.__name__.split(".")[-2:])
            if line.strip() in REFUSALS and (name, lines[number - 2]) not in UNREACHABLE:
                found[module.__file__ or "", number] = lines[number - 2].strip()
    return found


@contextmanager
def counted(wanted: dict[tuple[str, int], str], hits: Counter[tuple[str, int]]) -> Iterator[None]:
    """Counts how often each of these lines runs."""
    files = {name for name, _ in wanted}

    def within(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "line" and (place := (frame.f_code.co_filename, frame.f_lineno)) in wanted:
            hits[place] += 1
        return within

    def calls(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        return within if frame.f_code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(calls)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.thorough
def test_generated_histories_mostly_count_and_meet_every_guard() -> None:
    wanted, hits, outcomes = guards(), Counter[tuple[str, int]](), Counter[Outcome]()
    for seed in range(2_200):
        told = CHANCES.get(seed % 8, Chance)(Random(seed)).history(250)
        outcomes.update(told.outcomes)
        streams = Streams(AGGREGATES)
        with counted(wanted, hits):
            for record in told.records:
                fold_on(streams, record, told.records)
    assert outcomes[Outcome.APPLIED] * 2 >= outcomes.total() - outcomes[Outcome.PARKED]
    assert len(wanted) > 20
    rare = {
        f"{place[0]}:{place[1]} {line}": hits[place] for place, line in wanted.items() if hits[place] < 100
    }
    assert rare == {}


@pytest.mark.thorough
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
    """Returns the state without its notes of an ignored decision, and of the last event about a command."""
    noted, found.ignored_decision = found.ignored_decision, b""
    commands_at, found.commands_at = found.commands_at, -1
    state = dump(found)
    found.ignored_decision, found.commands_at = noted, commands_at
    return state


@pytest.mark.thorough
@settings(max_examples=15)
@given(SEEDS)
def test_readers_agree_whatever_prefix_they_took_from_a_snapshot(seed: int) -> None:
    random = Random(seed)
    told = (Chance if seed % 2 else ParkingChance)(random).history(80)
    other = Streams(AGGREGATES)
    for record, outcome in zip(told.records, told.outcomes, strict=True):
        if random.random() < 0.1 and STREAM in other.by_id:
            other.by_id[STREAM] = load(pack(other.by_id[STREAM]), AGGREGATES)
        assert fold_on(other, record, told.records) is outcome
    assert (other.by_id[STREAM], load(pack(told.stream), AGGREGATES)) == (told.stream, told.stream)
    assert dump(load(pack(told.stream), AGGREGATES)) == dump(told.stream)
    assert other.positions == told.streams.positions


@pytest.mark.thorough
@settings(max_examples=15)
@given(SEEDS)
def test_a_reader_that_shrinks_closed_streams_agrees_with_one_that_does_not(seed: int) -> None:
    told = (Chance if seed % 2 else ParkingChance)(Random(seed)).history(150)
    other = Streams(AGGREGATES)
    for record, outcome in zip(told.records, told.outcomes, strict=True):
        assert fold_on(other, record, told.records) is outcome
        if record.envelope.stream in other.by_id:
            shrink(other.by_id[record.envelope.stream])


@pytest.mark.thorough
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
    assert (sorted([*root.active, *root.ends]), root.opened) == (numbers, sorted(root.opened))
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
def test_the_generator_tells_whole_searches() -> None:
    ends = Counter(_status(Chance(Random(seed)).history(400)) for seed in range(60))
    assert ends["DONE"] > 5
    assert ends["STOPPED"] > 0
    assert ends["batch DONE"] > 0


def _status(told: Told) -> str:
    if batch_of(told.stream) is not None:
        return f"batch {told.stream.root.status.value}"
    return told.stream.root.status.value if told.stream.root is not None else ""
