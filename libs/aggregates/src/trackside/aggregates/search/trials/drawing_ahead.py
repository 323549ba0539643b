"""Trials whose parameters are drawn before their slot is open, where they don't depend on results. Pure."""

from collections.abc import Iterable

from trackside.aggregates.search.messages import SearchSpec, SearchStatus, TrialEnded
from trackside.aggregates.search.space.builtin_tuners import TUNERS
from trackside.aggregates.search.state import Search
from trackside.aggregates.search.trials.promotion import promotes
from trackside.domain.proposal import Proposal

DrawnFor = tuple[int, int, int, int, bool]
"""What such parameters depend on.

The number of trials before, the version of the space, the number of imported results, the offset of the last
moved slot, and whether a user has added a trial, which comes first.
"""


def learns(spec: SearchSpec) -> bool:
    """Returns whether the suggestions of a search depend on how its trials end."""
    kind = TUNERS.get(spec.tuner.name)
    return kind is None or kind.learns or spec.tuner.remote or promotes(spec)


def draws_ahead(search: Search) -> bool:
    """Returns whether the next trial of a search may be drawn now, although no slot is open for it."""
    return (
        search.status is SearchStatus.RUNNING
        and not search.added
        and search.failures == 0
        and len(search.trials) < search.spec.max_trials
        and not learns(search.spec)
    )


def drawn_for(search: Search) -> DrawnFor:
    """Returns what the next trial depends on, to tell whether what was drawn for it still holds."""
    before, imported = len(search.trials), len(search.imported)
    return (before, search.space_version, imported, search.moved_at, bool(search.added))


def seen_by_next(search: Search, proposals: Iterable[Proposal]) -> int | None:
    """Returns the offset that the next trial rests on, if its slot is open or these proposals open it.

    None if they don't, or might not: the end of a trial may reach the goal.
    """
    number = len(search.trials)
    if search.next_trial == number and not search.added:
        return search.opened[number]
    ends = [each.follows for each in proposals if isinstance(each.events[0], TrialEnded)]
    if not draws_ahead(search) or search.spec.goal is not None or len(ends) <= search.debt:
        return None
    return max(ends)
