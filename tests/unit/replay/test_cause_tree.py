from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.domain.given import STREAM
from tests.unit.replay.recorded_runs import ONE, RecordedRun, finished_chain
from trackside.replay.causality import event_pages
from trackside.replay.causality.cause_tree import CauseBranch, CausedEvent, cause_tree
from trackside.replay.causality.event_pages import (
    EventSource,
    ListedEvent,
    read_event_with_causes,
    read_events,
)


def event(offset: int, follows: int = -1, kind: str = "TrialSuggested") -> ListedEvent:
    return ListedEvent(offset, 0, kind, "", "dispatcher/a", follows, "", 0)


def in_branches(branches: Sequence[CauseBranch]) -> Iterator[CausedEvent]:
    for branch in branches:
        for chain in branch.chains:
            for node in chain:
                yield node
                yield from in_branches(node.branches)


def levels(branches: Sequence[CauseBranch]) -> int:
    nodes = (node for branch in branches for chain in branch.chains for node in chain)
    return max((1 + levels(node.branches) for node in nodes), default=0)


async def source_of(log: RecordedRun) -> EventSource:
    return EventSource(await log.write(), ONE, 0, 0, STREAM)


def test_many_effects_of_one_type_are_counted() -> None:
    reports = [event(number, 0, "MetricReported") for number in range(1, 101)]
    (tree,) = cause_tree([event(0), *reports, event(101, 0, "AttemptEnded"), event(102, 101)])
    first, *rest = tree.chains[0]
    assert [node.event.offset for node in rest] == [101, 102]
    (branch,) = first.branches
    assert branch.is_counted and (branch.type, len(branch.chains)) == ("MetricReported", 100)
    assert (branch.first, branch.last, branch.events) == (1, 100, 100)


def test_effects_from_which_nothing_follows_are_next_to_each_other_and_a_long_chain_has_one_level() -> None:
    (tree,) = cause_tree([event(0), event(1, 0, "A"), event(2, 0, "B")])
    assert [branch.type for branch in tree.chains[0][0].branches] == ["A", "B"]
    assert not any(branch.is_counted for branch in tree.chains[0][0].branches)
    (tree,) = cause_tree([event(number, number - 1) for number in range(1_000)])
    assert [node.event.offset for node in tree.chains[0]] == list(range(1_000))
    assert levels([tree]) == 1


@given(st.lists(st.integers(0, 10_000), max_size=300))
def test_every_event_is_there_once_and_the_tree_is_narrow(choices: list[int]) -> None:
    events = [event(number, choice % (number + 1) - 1) for number, choice in enumerate(choices)]
    tree = cause_tree(events)
    assert sorted(node.event.offset for node in in_branches(tree)) == [each.offset for each in events]
    assert sum(branch.events for branch in tree) == len(events)
    assert 2 ** max(0, levels(tree) - 1) <= max(1, len(events))


async def test_the_root_of_the_tree_is_a_command_with_its_publisher() -> None:
    source = await source_of(finished_chain())
    page = await read_events(source, None, 1_000)
    (tree,) = cause_tree(page.events[::-1])
    root = tree.chains[0][0].event
    assert root.type == "CommandReceived" and root.cause.startswith("published by ")
    assert page.before is None and len(list(in_branches([tree]))) == len(page.events)


async def test_an_event_is_shown_with_all_of_its_causes_and_only_its_own_effects() -> None:
    source = await source_of(finished_chain())
    every = {each.offset: each for each in (await read_events(source, None, 1_000)).events}
    submitted = [each for each in every.values() if each.type == "TaskSubmitted"][-2]
    found = await read_event_with_causes(source, submitted.offset, 1_000)
    causes, above = list[int](), submitted
    while above.follows >= 0:
        above = every[above.follows]
        causes.append(above.offset)
    assert [each.offset for each in found if each.offset < submitted.offset] == causes[::-1]
    assert found[0].type == "CommandReceived"
    assert "TaskAssigned" in {each.type for each in found if each.offset > submitted.offset}


async def test_causes_in_earlier_windows_of_the_log_are_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    source = await source_of(finished_chain())
    newest = (await read_events(source, None, 1)).events[0]
    whole = await read_event_with_causes(source, newest.offset, 10)
    monkeypatch.setattr(event_pages, "FIRST_WINDOW", 2)
    assert await read_event_with_causes(source, newest.offset, 10) == whole
    assert len(whole) > 3
    assert await read_event_with_causes(source, await source.end(), 10) == [], "of another stream"
