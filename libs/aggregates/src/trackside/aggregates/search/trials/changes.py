"""What commands change about a search while it goes on: slots, limits, space, what is known from elsewhere.

Slots that are open move to the offset of a change upon which they are to be filled: trial n is then asked
upon the state at that offset, and what was asked before it doesn't count.
"""

from trackside.aggregates.search.advice.slots import learn, move, settle
from trackside.aggregates.search.messages import (
    SearchPaused,
    SearchResumed,
    SearchSpaceUpdated,
    SearchStatus,
    SearchUpdated,
    TrialAdded,
    TrialsImported,
    TrialsRequested,
)
from trackside.aggregates.search.state import Added, Change, Imported, Search
from trackside.contracts.envelope.message import Record
from trackside.domain.outcome import Outcome

LIMITS = ("concurrency", "max_trials", "max_duration_s", "max_trial_duration_s", "goal")
"""The fields of a search that `SearchUpdated` tells anew."""


def evolve(search: Search, event: Change, record: Record) -> Outcome:
    """Folds a change, each once and in its order; a search that is being stopped changes no more."""
    if event.change <= search.changes:
        return Outcome.DUPLICATE
    if event.change != search.changes + 1 or search.status is SearchStatus.STOPPING:
        return Outcome.OVERTAKEN
    search.changes = event.change
    match event:
        case TrialsRequested():
            search.opened += [record.offset] * event.count
            search.debt += event.count
        case SearchSpaceUpdated():
            search.spec = search.spec.model_copy(update={"space": event.space})
            search.space_version = event.space_version
            search.exhausted = False
            move(search, record.offset)
        case TrialsImported():
            search.imported += [Imported(past.parameters, past.value, record.offset) for past in event.trials]
            learn(search, record.offset)
        case TrialAdded():
            search.added.append(Added(event.parameters, event.tell_tuner, record.offset, event.partial))
        case SearchUpdated():
            _updated(search, event, record)
        case SearchPaused():
            search.paused_at_ms = search.paused_at_ms if search.paused else record.append_time_ms
            search.paused = event.running
            search.control_at = record.offset
        case SearchResumed():
            if search.paused:
                search.paused_ms += record.append_time_ms - search.paused_at_ms
            search.paused = ""
            search.control_at = record.offset
            move(search, record.offset)
    search.changed_at = record.offset
    settle(search)
    return Outcome.APPLIED


def _updated(search: Search, event: SearchUpdated, record: Record) -> None:
    more = event.concurrency - search.spec.concurrency
    search.spec = search.spec.model_copy(update={name: getattr(event, name) for name in LIMITS})
    if more >= 0:
        paid = min(search.debt, more)
        search.debt -= paid
        search.opened += [record.offset] * (more - paid)
    else:
        taken = min(len(search.opened) - len(search.trials), -more)
        del search.opened[len(search.opened) - taken :]
        search.debt += -more - taken
    limit_s = search.spec.max_duration_s
    ran_ms = record.append_time_ms - search.started_ms - search.paused_ms
    search.time_is_up = search.time_is_up and limit_s is not None and int(limit_s * 1000) <= ran_ms
    move(search, record.offset)
