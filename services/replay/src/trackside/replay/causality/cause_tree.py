"""Causes and effects of events as a tree that stays narrow: long chains are drawn in one line. Pure.

Of the events that one has caused, the one from which most follows continues its chain; the others branch off.
So a tree of n events is at most log2(n) levels deep (heavy path decomposition; Sleator and Tarjan, 1983).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trackside.replay.causality.event_pages import ListedEvent

MOST_ALIKE = 3
"""How many branches that begin with events of one type are shown one by one: more are counted."""


@dataclass(frozen=True, slots=True)
class CausedEvent:
    """An event in a chain, with the branches that it also caused."""

    event: ListedEvent
    branches: Sequence["CauseBranch"]


@dataclass(frozen=True, slots=True)
class CauseBranch:
    """Chains of events with one cause, which begin with events of one type.

    `events` are all events in them; `is_counted` says that they are too many to be shown one by one.
    """

    type: str
    chains: Sequence[Sequence[CausedEvent]]
    events: int

    @property
    def is_counted(self) -> bool:
        """Whether a reader sees how many there are first."""
        return len(self.chains) > MOST_ALIKE

    @property
    def first(self) -> int:
        """The offset of its first event."""
        return self.chains[0][0].event.offset

    @property
    def last(self) -> int:
        """The offset of the first event of its last chain."""
        return self.chains[-1][0].event.offset


@dataclass(frozen=True, slots=True)
class _Effects:
    """What each event has caused, by its offset, and how many events follow from it, itself included."""

    caused: Mapping[int, Sequence[ListedEvent]]
    sizes: Mapping[int, int]


def cause_tree(events: Sequence[ListedEvent]) -> list[CauseBranch]:
    """Returns the trees of events in the order of the log; one whose cause is not among them is a root."""
    known = {event.offset for event in events}
    caused: dict[int, list[ListedEvent]] = defaultdict(list)
    sizes: dict[int, int] = {}
    roots = list[ListedEvent]()
    for event in events:
        is_root = event.follows not in known or event.follows >= event.offset
        (roots if is_root else caused[event.follows]).append(event)
    for event in reversed(events):
        sizes[event.offset] = 1 + sum(sizes[each.offset] for each in caused.get(event.offset, ()))
    effects = _Effects(caused, sizes)
    return [_branch(effects, [root]) for root in roots]


def _chain(effects: _Effects, first: ListedEvent) -> list[CausedEvent]:
    """Returns an event and those that continue its chain, with their branches."""
    found, event = list[CausedEvent](), first
    while True:
        caused = effects.caused.get(event.offset, ())
        heaviest = max(caused, key=lambda each: effects.sizes[each.offset], default=None)
        if heaviest is not None and len(caused) > 1 and effects.sizes[heaviest.offset] == 1:
            heaviest = None  # none of them goes on: they are alike
        by_type: dict[str, list[ListedEvent]] = defaultdict(list)
        for each in caused:
            if each is not heaviest:
                by_type[each.type].append(each)
        found.append(CausedEvent(event, [_branch(effects, each) for each in by_type.values()]))
        if heaviest is None:
            return found
        event = heaviest


def _branch(effects: _Effects, begins: Sequence[ListedEvent]) -> CauseBranch:
    events = sum(effects.sizes[each.offset] for each in begins)
    return CauseBranch(begins[0].type, [_chain(effects, each) for each in begins], events)
