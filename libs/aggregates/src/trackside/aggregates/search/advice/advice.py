"""What tuners and assessors say other than parameters and verdicts: that they failed, or have to wait."""

from trackside.aggregates.search.advice.advice_messages import (
    FAILURES_MAX,
    AssessmentFailed,
    SuggestionDeferred,
    SuggestionFailed,
)
from trackside.aggregates.search.advice.slots import move
from trackside.aggregates.search.state import Search
from trackside.contracts.envelope.message import Record
from trackside.domain.outcome import Outcome

Advice = SuggestionFailed | SuggestionDeferred | AssessmentFailed


def evolve(search: Search, event: Advice, record: Record) -> Outcome:
    """Folds what was said of the next trial, if it was asked upon the slot as it is now, or of verdicts."""
    if isinstance(event, AssessmentFailed):
        return _assessment_failed(search, event, record)
    if event.trial < len(search.trials):
        return Outcome.DUPLICATE
    if event.trial != search.next_trial or event.seen < search.moved_at:
        return Outcome.OVERTAKEN
    if isinstance(event, SuggestionFailed):
        return _failed(search, event, record)
    return _deferred(search, event, record)


def is_deadlocked(search: Search, seen: int) -> bool:
    """Returns whether nothing was learnt since an offset, and nothing runs that may still be learnt from."""
    return not search.active and search.learnt_at <= seen


def _failed(search: Search, event: SuggestionFailed, record: Record) -> Outcome:
    if event.failure <= search.failures:
        return Outcome.DUPLICATE
    if event.failure != search.failures + 1:
        return Outcome.OVERTAKEN
    search.failures = event.failure
    search.failed_at = record.offset
    search.last_failure = (event.code, event.message)
    return Outcome.APPLIED


def _assessment_failed(search: Search, event: AssessmentFailed, record: Record) -> Outcome:
    known = search.assessor_failures
    if (event.rows, event.failure) <= (known.rows, known.in_a_row):
        return Outcome.DUPLICATE
    if search.spec.assessor is None or event.failure not in (1, known.in_a_row + 1):
        return Outcome.OVERTAKEN
    known.rows, known.in_a_row, known.count = event.rows, event.failure, known.count + 1
    known.last = (event.code, event.message)
    search.failed_at = record.offset
    return Outcome.APPLIED


def _deferred(search: Search, event: SuggestionDeferred, record: Record) -> Outcome:
    if is_deadlocked(search, event.seen):
        return Outcome.OVERTAKEN
    if search.learnt_at > event.seen:
        move(search, record.offset)
    else:
        search.deferred = True
        search.failures = 0
    return Outcome.APPLIED


def assessor_is_given_up(search: Search) -> bool:
    """Returns whether an assessor has failed too often to be asked again."""
    known, assessor = search.assessor_failures, search.spec.assessor
    return assessor is not None and (
        known.in_a_row > assessor.on_failure.retries or known.count >= FAILURES_MAX
    )
