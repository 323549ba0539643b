"""A search's life: which slots are open, which trials count, and when it is over."""

from random import Random

import pytest

from tests.unit.domain import given
from tests.unit.domain.plausible import Chance
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import (
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchStatus,
    SearchStopRequested,
    TrialStatus,
)
from trackside.aggregates.search.state import search_of
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import TaskState

APPLIED, DUPLICATE, OVERTAKEN = [Outcome.APPLIED], [Outcome.DUPLICATE], [Outcome.OVERTAKEN]
BOTH_APPLIED = [Outcome.APPLIED, Outcome.APPLIED]
STOP = SearchStopRequested(command_id="c-2", reason="enough")
FAIL = SearchFailed(code="tuner_failed", message="it raised")


def end(status: SearchStatus = SearchStatus.DONE, trials: int = 0) -> SearchEnded:
    return SearchEnded(status=status, trials=trials)


def suggest(told: given.Told, trial: int) -> list[Outcome]:
    return told.tell(given.suggested(trial), given.submitted(trial))


def cancel(told: given.Told, trial: int) -> None:
    told.tell(TaskStopRequested(task_id=given.task_id(trial), reason="user"))
    told.tell(given.over(trial, how=TrialStatus.USER_CANCELED))


def test_a_search_starts_once_with_as_many_open_slots_as_it_may_run_at_once() -> None:
    told = given.search_running()
    assert told.tell(given.started(max_trials=9)) == DUPLICATE
    search = told.search
    assert (search.status, search.seed, search.started_ms) == (SearchStatus.RUNNING, 7, given.FIRST_MS + 2)
    assert (search.spec, search.opened, search.next_trial) == (given.spec(), [2, 2], 0)
    told.tell(given.suggested(0))
    assert told.tell(given.submitted(0, task_id=given.task_id(1))) == OVERTAKEN, "the id of another trial"
    assert told.tell(given.submitted(0)) == APPLIED


def test_trials_are_numbered_from_zero_without_a_gap() -> None:
    told = given.search_running()
    assert suggest(told, 1) == [Outcome.OVERTAKEN, Outcome.OVERTAKEN]
    assert suggest(told, -1)[0] is Outcome.DUPLICATE
    assert (suggest(told, 0), suggest(told, 0)) == (BOTH_APPLIED, [Outcome.DUPLICATE, Outcome.OVERTAKEN])
    assert (suggest(told, 1), [trial.number for trial in told.search.trials]) == (BOTH_APPLIED, [0, 1])
    assert told.search.trials[1].parameters == {"lr": 0.1}


def test_no_more_trials_run_than_allowed_and_a_slot_is_opened_by_the_end_of_the_trial_before_it() -> None:
    told = given.search_running()
    suggest(told, 0)
    suggest(told, 1)
    assert told.search.next_trial is None
    assert suggest(told, 2) == [Outcome.OVERTAKEN, Outcome.OVERTAKEN]
    given.finish(told, 1, 0.5)
    first_end = told.next_offset - 1
    assert told.search.next_trial == 2
    assert (suggest(told, 2), told.search.active) == (BOTH_APPLIED, {0, 2})
    given.finish(told, 0, 0.6)
    assert (told.search.opened, told.search.ends) == ([2, 2, first_end, told.next_offset - 1], [1, 0])
    assert [trial.ended_at for trial in told.search.trials[:2]] == [told.next_offset - 1, first_end]


def test_a_trial_ends_only_after_its_task_and_once() -> None:
    told = given.task_queued()
    assert told.tell(given.over(0, 0.5)) == OVERTAKEN
    told.each(given.assigned(), given.begun())
    assert told.tell(given.over(0, 0.5)) == OVERTAKEN
    told.each(given.report(1, 0.25), given.ended())
    assert told.each(given.over(0, 0.5), given.over(0, 0.9)) == APPLIED + DUPLICATE
    for never_suggested in (-1, 1, 99):
        assert told.tell(given.over(never_suggested, 0.5)) == OVERTAKEN
    trial = told.search.trials[0]
    assert (trial.status, trial.value, trial.reports) == (TrialStatus.SUCCEEDED, 0.5, [(1, 0.25)])
    assert (told.search.active, told.search.ends) == (set(), [0])


def test_the_best_trial_is_the_first_with_the_best_value() -> None:
    for direction, values, best in (
        ("maximize", [0.2, 0.9, 0.5, 0.9], 1),
        ("minimize", [0.2, 0.9, 0.1, 0.1], 2),
        ("maximize", [None, 0.1, None, 0.05], 1),
        ("maximize", [None, None, None, None], None),
    ):
        told = given.search_running(direction=direction)
        for trial, value in enumerate(values):
            suggest(told, trial)
            given.finish(told, trial, value)
        assert told.search.best == best


def test_only_a_trial_that_succeeded_can_be_the_best() -> None:
    for how in TrialStatus:
        told = given.task_queued()
        told.each(given.assigned(), given.ended(), given.over(0, 0.99, how))
        assert told.search.best == (0 if how is TrialStatus.SUCCEEDED else None), how


def test_a_search_with_all_its_trials_waits_for_their_ends_and_is_done() -> None:
    told = given.search_running(max_trials=2)
    statuses = [told.search.status]
    assert told.tell(end()) == OVERTAKEN
    for trial in (0, 1):
        suggest(told, trial)
        statuses.append(told.search.status)
    assert statuses == [SearchStatus.RUNNING, SearchStatus.RUNNING, SearchStatus.NO_MORE_TRIAL]
    assert told.tell(end()) == OVERTAKEN
    given.finish(told, 0, 0.5)
    assert told.search.next_trial is None
    assert told.tell(end()) == OVERTAKEN
    given.finish(told, 1, 0.5)
    assert (told.tell(end()), told.search.status, told.stream.closed) == (APPLIED, SearchStatus.DONE, True)
    assert told.search.ended_ms == given.FIRST_MS + told.next_offset - 1


def test_an_exhausted_tuner_ends_the_suggestions() -> None:
    told = given.search_running()
    assert told.tell(SearchExhausted(trials=1)) == OVERTAKEN
    suggest(told, 0)
    assert told.each(SearchExhausted(trials=0), SearchExhausted(trials=1)) == OVERTAKEN + APPLIED
    assert told.tell(SearchExhausted(trials=1)) == OVERTAKEN
    assert told.search.status is SearchStatus.TUNER_NO_MORE_TRIAL
    assert suggest(told, 1)[0] is Outcome.OVERTAKEN
    given.finish(told, 0, 0.5)
    assert told.search.next_trial is None
    assert told.tell(end()) == APPLIED


@pytest.mark.parametrize("event", [STOP, FAIL], ids=["stop", "failure"])
def test_a_stopping_search_takes_no_new_trials_and_waits_for_those_it_has(event: Message) -> None:
    told = given.search_running()
    suggest(told, 0)
    assert told.each(event, STOP, FAIL) == APPLIED + DUPLICATE * 2
    assert (told.search.status, told.search.next_trial) == (SearchStatus.STOPPING, None)
    assert suggest(told, 1)[0] is Outcome.OVERTAKEN
    assert told.each(SearchExhausted(trials=1), end(SearchStatus.STOPPED)) == OVERTAKEN * 2
    cancel(told, 0)
    for status in (SearchStatus.RUNNING, SearchStatus.STOPPING, SearchStatus.NO_MORE_TRIAL):
        assert told.tell(end(status)) == OVERTAKEN
    assert told.tell(end(SearchStatus.STOPPED)) == APPLIED


def test_why_a_search_stops_is_kept_and_one_whose_trials_are_all_suggested_can_be_stopped() -> None:
    for event, reason, failure in (
        (STOP, "enough", ""),
        (SearchStopRequested(command_id="c-2", reason=""), "user", ""),
        (FAIL, "search_failed", "tuner_failed: it raised"),
    ):
        told = given.search_running(max_trials=1)
        suggest(told, 0)
        assert (told.tell(event), told.search.stop_reason, told.search.failure) == (APPLIED, reason, failure)
        cancel(told, 0)
        assert told.tell(end(SearchStatus.STOPPED)) == APPLIED


@pytest.mark.parametrize("status", [SearchStatus.DONE, SearchStatus.STOPPED, SearchStatus.ERROR])
def test_nothing_moves_a_search_that_is_over(status: SearchStatus) -> None:
    told = given.search_running()
    suggest(told, 0)
    told.tell(STOP)
    cancel(told, 0)
    told.tell(end(status))
    own = (given.started(), given.suggested(1), given.over(0), SearchExhausted(trials=1), STOP, FAIL, end())
    for event in (*own, given.submitted(1), given.assigned(), given.begun(), given.ended()):
        assert told.tell(event) == OVERTAKEN


def test_events_of_a_search_that_never_started_do_not_count() -> None:
    told = given.Told()
    told.tell(given.received())
    for event in (given.suggested(0), given.over(0), SearchExhausted(trials=0), STOP, FAIL, end()):
        assert told.tell(event) == OVERTAKEN
    assert told.tell(given.accepted()) == APPLIED
    assert search_of(told.stream) is None


HISTORIES = 12


@pytest.mark.thorough
def test_what_is_kept_from_event_to_event_is_what_a_look_at_all_open_trials_finds() -> None:
    found_some = 0
    for number in range(HISTORIES):
        streams = Streams(AGGREGATES)
        for record in Chance(Random(number)).history(120).records:
            stream, _ = streams.fold(record)
            search = search_of(stream)
            if search is not None and not search.closed:
                named = ((trial, stream.tasks.get(search.task_of(trial))) for trial in search.active)
                ended = {trial for trial, task in named if task is not None and task.state is TaskState.ENDED}
                assert search.unended == ended
                found_some += bool(ended)
    assert found_some > 2
