"""What a tuner says of a search other than parameters: that it failed, or that it has to know more first."""

from trackside.contracts.advice import SuggestionDeferred, SuggestionFailed
from trackside.contracts.message import Record
from trackside.domain.outcome import Outcome
from trackside.domain.search import Search, move

Advice = SuggestionFailed | SuggestionDeferred


def evolve(search: Search, event: Advice, record: Record) -> Outcome:
    """Folds what was said of the next trial, if it was asked upon the slot as it is now."""
    if event.trial < len(search.trials):
        return Outcome.DUPLICATE
    if event.trial != search.next_trial or event.seen < search.moved_at:
        return Outcome.OVERTAKEN
    if isinstance(event, SuggestionFailed):
        return _failed(search, event)
    return _deferred(search, event, record)


def waits_in_vain(search: Search, seen: int) -> bool:
    """Says whether nothing was learnt since an offset, and nothing runs that could still be learnt from."""
    return not search.active and search.learnt_at <= seen


def _failed(search: Search, event: SuggestionFailed) -> Outcome:
    if event.failure <= search.failures:
        return Outcome.DUPLICATE
    if event.failure != search.failures + 1:
        return Outcome.OVERTAKEN
    search.failures = event.failure
    search.last_failure = (event.code, event.message)
    return Outcome.APPLIED


def _deferred(search: Search, event: SuggestionDeferred, record: Record) -> Outcome:
    if waits_in_vain(search, event.seen):
        return Outcome.OVERTAKEN
    if search.learnt_at > event.seen:
        move(search, record.offset)
    else:
        search.deferred = True
        search.failures = 0
    return Outcome.APPLIED
