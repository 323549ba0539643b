"""The open slots of a search, and the state that follows from what is known of it."""

from trackside.aggregates.search.messages import SearchStatus
from trackside.aggregates.search.state import Search


def learn(search: Search, offset: int) -> None:
    """Notes that there is more to learn from, for which a tuner may have waited."""
    search.learnt_at = offset
    if search.deferred:
        move(search, offset)


def move(search: Search, offset: int) -> None:
    """Moves the open slots to an offset, to be asked anew; those of trials that were suggested stay."""
    count = len(search.trials)
    search.opened[count:] = [offset] * (len(search.opened) - count)
    search.moved_at = offset
    search.failures = 0
    search.deferred = False


def settle(search: Search) -> None:
    """Sets the state of a search that isn't being stopped to what follows from the rest of it."""
    if search.status is SearchStatus.STOPPING:
        return
    full = len(search.trials) >= search.spec.max_trials
    if search.paused:
        search.status = SearchStatus.PAUSED
    elif full or search.time_is_up or search.goal_is_reached:
        search.status = SearchStatus.NO_MORE_TRIAL
    elif search.exhausted:
        search.status = SearchStatus.TUNER_NO_MORE_TRIAL
    else:
        search.status = SearchStatus.RUNNING
