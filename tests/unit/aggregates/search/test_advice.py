"""A tuner that fails, or has to know more first (D11): what the log makes of it."""

import pytest

from tests.unit.domain.given import Told, finish, search_running, submitted, suggested
from trackside.aggregates.search import messages
from trackside.aggregates.search.advice_messages import SuggestionDeferred, SuggestionFailed
from trackside.domain.outcome import Outcome

APPLIED, DUPLICATE, OVERTAKEN = [Outcome.APPLIED], [Outcome.DUPLICATE], [Outcome.OVERTAKEN]


def failure(trial: int = 0, number: int = 1, seen: int = 2) -> SuggestionFailed:
    return SuggestionFailed(trial=trial, failure=number, code="tuner_failed", message="it raised", seen=seen)


def deferral(trial: int, seen: int = 2) -> SuggestionDeferred:
    return SuggestionDeferred(trial=trial, seen=seen)


def suggest(told: Told, trial: int) -> Outcome:
    """Tells a suggestion that was asked upon the slot as it is now."""
    asked = suggested(trial).model_copy(update={"seen": told.search.opened[trial]})
    return told.tell(asked, submitted(trial))[0]


def test_failures_are_counted_for_the_next_trial_each_once_and_in_order() -> None:
    told = search_running()
    assert told.tell(failure(number=2)) == OVERTAKEN
    assert told.tell(failure(number=1)) == APPLIED
    assert told.tell(failure(number=1)) == DUPLICATE
    assert told.tell(failure(number=2)) == APPLIED
    assert (told.search.failures, told.search.last_failure) == (2, ("tuner_failed", "it raised"))
    assert told.search.next_trial == 0
    assert suggest(told, 0) is Outcome.APPLIED
    assert told.search.failures == 0
    assert told.tell(failure(0, 3)) == DUPLICATE, "of a trial that has its parameters"


def test_a_failure_that_was_asked_before_a_change_of_the_search_does_not_count() -> None:
    told = search_running()
    told.tell(messages.SearchPaused(command_id="c-2", change=1, running="finish"))
    assert told.tell(failure()) == OVERTAKEN
    told.tell(messages.SearchResumed(command_id="c-2", change=2))
    assert told.tell(failure(seen=2)) == OVERTAKEN
    assert told.tell(failure(seen=told.search.opened[0])) == APPLIED


def test_d11_a_deferred_suggestion_waits_for_the_next_end_and_is_asked_upon_it() -> None:
    told = search_running(concurrency=3)
    suggest(told, 0)
    assert told.tell(deferral(1)) == APPLIED
    assert told.search.next_trial is None
    assert told.search.status is messages.SearchStatus.RUNNING, "it waits, and is not exhausted"
    assert told.tell(deferral(1)) == OVERTAKEN
    assert suggest(told, 1) is Outcome.OVERTAKEN
    finish(told, 0, 0.5)
    end = told.next_offset - 1
    assert told.search.next_trial == 1
    assert told.search.opened == [2, end, end, end]
    assert told.tell(deferral(1, seen=2)) == OVERTAKEN, "asked upon less than the search knows"
    assert suggest(told, 1) is Outcome.APPLIED


def test_d11_an_import_wakes_a_deferred_suggestion_too() -> None:
    told = search_running()
    suggest(told, 0)
    told.tell(deferral(1))
    past = [messages.PastTrial(parameters={"lr": 0.5}, value=0.25)]
    told.tell(messages.TrialsImported(command_id="c-2", change=1, trials=past))
    assert (told.search.next_trial, told.search.opened[1]) == (1, told.next_offset - 1)


def test_d11_a_deferral_that_an_end_has_overtaken_asks_at_once() -> None:
    """Both slots were open from the start; the second was asked while the first trial ended."""
    told = search_running(concurrency=3)
    suggest(told, 0)
    finish(told, 0, 0.5)
    assert told.tell(deferral(1)) == APPLIED
    assert (told.search.deferred, told.search.next_trial) == (False, 1)
    assert told.search.opened[1] == told.next_offset - 1


@pytest.mark.parametrize("ended", [0, 1])
def test_d11_a_deferral_with_nothing_to_wait_for_does_not_count(ended: int) -> None:
    told = search_running()
    for trial in range(ended):
        suggest(told, trial)
        finish(told, trial, 0.5)
    told.tell(messages.SearchPaused(command_id="c-2", change=1, running="finish"))
    told.tell(messages.SearchResumed(command_id="c-2", change=2))
    assert told.tell(deferral(ended, seen=told.search.opened[ended])) == OVERTAKEN
    assert told.search.next_trial == ended
