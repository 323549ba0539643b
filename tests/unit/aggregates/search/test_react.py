"""Every command gets its answer, every trial its end, every search its close: from the state alone."""

from typing import Any

import pytest

from tests.commands import INPUT
from tests.unit.aggregates.given import CAPABILITIES, SPEC, answered, published, react, refusal, the
from tests.unit.domain import given
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search import messages
from trackside.aggregates.search.commands.start import default_seed
from trackside.aggregates.search.state import search_of
from trackside.aggregates.search.trials import suggestions
from trackside.contracts.envelope.parts import Part
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused
from trackside.contracts.tasks.resources import Retry, RetryPolicy
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested, TaskSubmitted
from trackside.domain.commands.react import react as react_to
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.outcome import Outcome

STOP = messages.StopSearch.wire_type()


def test_a_good_search_is_accepted_and_started_in_one_decision() -> None:
    told = given.Told()
    told.tell(published(1, body={**SPEC, "seed": 5}))
    (answer,) = react_to(told.stream, CAPABILITIES, AGGREGATES)
    accepted_, begun_ = answer.events
    assert accepted_ == CommandAccepted(command_id="c-1", source=published(1).source)
    assert isinstance(begun_, messages.SearchStarted)
    assert (begun_.command_id, begun_.seed, begun_.search.seed) == ("c-1", 5, 5)
    assert (begun_.search.max_trials, react(told), react(told)) == (20, [accepted_, begun_], [])
    told = given.Told()
    answered(told, published(1))
    assert told.search.seed == default_seed(given.STREAM) != default_seed("other"), "whoever decides"
    assert 0 <= default_seed(given.STREAM) < 2**48


@pytest.mark.parametrize(
    ("changed", "code", "path"),
    [
        ({"tuner": {"name": "tpe", "options": {"x": 1}}}, "bad_option", "$.tuner.options.x"),
        ({"tuner": {"name": "grid"}}, "bad_search_space", "$.space.lr"),
        ({"concurrency": 0}, "concurrency_range", "$.concurrency"),
        ({"space": {"lr": {"type": "uniform", "low": 2, "high": 1}}}, "bad_search_space", "$.space.lr"),
    ],
)
def test_a_bad_search_is_refused_and_leaves_no_search(changed: dict[str, Any], code: str, path: str) -> None:
    told = given.Told()
    assert refusal(answered(told, published(1, body={**SPEC, **changed}))) == (code, path, 1)
    assert search_of(told.stream) is None
    good = answered(told, published(2))
    assert isinstance(good[-1], messages.SearchStarted)


def test_a_task_type_that_nobody_has_is_refused_with_the_nearest_and_those_there_are() -> None:
    hint = "known: digits, faces; did you mean 'digits'?"
    for known, said in ((CAPABILITIES, hint), (Capabilities(), "no worker has joined yet")):
        told = answered(given.Told(), published(1, body={**SPEC, "task_type": "digit"}), known)
        assert said in the(CommandRefused, told).message


def test_the_same_command_published_twice_is_answered_twice_alike_each_with_its_place() -> None:
    for body, kind in ((SPEC, CommandAccepted), ({}, CommandRefused)):
        told = given.Told()
        first = answered(told, published(1, body=body))
        again = published(7, body=body, command_id="c-1", digest="digest-1")
        (second,) = answered(told, again)
        assert isinstance(first[0], kind)
        assert isinstance(second, CommandAccepted | CommandRefused)
        assert second == first[0].model_copy(update={"source": again.source})


def test_publications_that_wait_together_are_all_answered_and_a_stream_has_one_search() -> None:
    told = given.Told()
    told.each(published(1), published(2, command_id="c-1", digest="digest-1"), published(3))
    assert [type(event) for event in react(told)] == [CommandAccepted, messages.SearchStarted]
    assert react(told) == [given.accepted(1, place=2).model_copy(update={"source": published(2).source})]
    assert refusal(react(told)) == ("already_exists", "$partitionkey", 3)
    assert (react(told), told.search.spec.max_trials) == ([], 20)


@pytest.mark.parametrize("answers_first", [True, False])
def test_a_command_id_with_another_body_is_refused_and_says_where_it_was_used(answers_first: bool) -> None:
    told = given.Told()
    told.tell(published(1))
    if answers_first:
        react(told)
    told.tell(published(2, command_id="c-1", body={}))
    if not answers_first:
        assert isinstance(react(told)[-1], messages.SearchStarted)
    events = react(told)
    assert refusal(events) == ("idempotency_conflict", "$", 2)
    assert isinstance(events[0], CommandRefused)
    assert "at offset 0 of its stream" in events[0].message
    assert told.search.status is messages.SearchStatus.RUNNING


def test_a_search_is_stopped_once_and_its_stream_stays_taken() -> None:
    told = given.task_active()
    events = answered(told, published(2, STOP, {"reason": "enough"}))
    assert events[0] == CommandAccepted(command_id="c-2", source=published(2).source)
    assert events[1] == messages.SearchStopRequested(command_id="c-2", reason="enough")
    assert told.search.status is messages.SearchStatus.STOPPING
    told.tell(published(3, STOP, {}))
    answers = react_to(told.stream, CAPABILITIES, AGGREGATES)
    assert [type(event) for event in answers[0].events] == [CommandAccepted]
    told = given.search_running()
    answered(told, published(2, STOP, {}))
    assert react(told) == [messages.SearchEnded(status=messages.SearchStatus.STOPPED, trials=0)]
    assert refusal(answered(told, published(4)))[0] == "already_exists"


@pytest.mark.parametrize(
    ("end", "stop", "final", "expected"),
    [
        (AttemptEnd.FINISHED, None, 0.9, (messages.TrialStatus.SUCCEEDED, 0.9)),
        (AttemptEnd.FINISHED, None, "none", (messages.TrialStatus.SUCCEEDED, 0.25)),
        (AttemptEnd.FINISHED, None, None, (messages.TrialStatus.SUCCEEDED, None)),
        (AttemptEnd.FINISHED, "assessor", 0.9, (messages.TrialStatus.SUCCEEDED, 0.9)),
        (AttemptEnd.FAILED, None, 0.9, (messages.TrialStatus.FAILED, None)),
        (AttemptEnd.CANCELLED, None, "none", (messages.TrialStatus.SYS_CANCELED, None)),
        (AttemptEnd.CANCELLED, "assessor", "none", (messages.TrialStatus.EARLY_STOPPED, 0.25)),
        (AttemptEnd.CANCELLED, "user", 0.9, (messages.TrialStatus.SUCCEEDED, 0.9)),
        (AttemptEnd.CANCELLED, "user", "none", (messages.TrialStatus.USER_CANCELED, None)),
        (AttemptEnd.CANCELLED, "max_trial_duration", "none", (messages.TrialStatus.EARLY_STOPPED, 0.25)),
        (AttemptEnd.CANCELLED, "search_failed", "none", (messages.TrialStatus.SYS_CANCELED, None)),
        (AttemptEnd.FAILED, "assessor", "none", (messages.TrialStatus.EARLY_STOPPED, 0.25)),
        (AttemptEnd.LOST, "user", "none", (messages.TrialStatus.USER_CANCELED, None)),
        (AttemptEnd.LOST, None, "none", (messages.TrialStatus.FAILED, None)),
    ],
)
def test_a_trial_ends_as_its_task_did(end: AttemptEnd, stop: Any, final: Any, expected: Any) -> None:
    told = given.task_active(retry=RetryPolicy(lost=Retry(times=0)))
    told.tell(given.report(1, 0.25))
    if final != "none":
        told.tell(given.report(1, final, final=True))
    if stop:
        told.tell(TaskStopRequested(task_id=given.task_id(0), reason=stop))
    told.tell(given.ended(end))
    assert react(told) == [messages.TrialEnded(trial=0, status=expected[0], value=expected[1])]
    assert react(told) == []


def test_a_stopping_search_ends_its_tasks_then_its_trials_then_itself() -> None:
    told = given.search_running()
    told.tell(given.suggested(0), given.submitted(0))
    told.tell(given.suggested(1), given.submitted(1))
    told.each(given.assigned(0), given.begun(0))
    answered(told, published(2, STOP, {}))
    stops = [TaskStopRequested(task_id=given.task_id(trial), reason="user") for trial in (0, 1)]
    (at,) = [each.offset for each in told.records if type(each.message) is messages.SearchStopRequested]
    assert {each.follows for each in react_to(told.stream, CAPABILITIES, AGGREGATES)} == {at}
    assert react(told) == stops
    assert react(told) == [messages.TrialEnded(trial=1, status=messages.TrialStatus.USER_CANCELED)]
    assert react(told) == []
    told.tell(given.ended(AttemptEnd.CANCELLED))
    assert react(told) == [messages.TrialEnded(trial=0, status=messages.TrialStatus.USER_CANCELED)]
    assert react(told) == [messages.SearchEnded(status=messages.SearchStatus.STOPPED, trials=2)]
    assert react(told) == []


def test_a_search_whose_tuner_failed_ends_in_an_error() -> None:
    told = given.task_queued()
    told.tell(messages.SearchFailed(code="tuner_failed", message="x" * 4_000))
    over = messages.TrialEnded(trial=0, status=messages.TrialStatus.SYS_CANCELED)
    end = messages.SearchEnded(status=messages.SearchStatus.ERROR, trials=1)
    for expected in (TaskStopRequested(task_id=given.task_id(0), reason="search_failed"), over, end):
        assert react(told) == [expected]
    assert len(told.search.failure) < 4_100
    told = given.task_active()
    told.tell(*suggestions.early_stop(told.search, 0, seen=9))
    answered(told, published(2, STOP, {}))
    assert react(told) == [], "a task that the assessor stopped already is not stopped again"


def test_a_suggestion_brings_its_task_with_it_which_has_the_needs_and_inputs_of_the_search() -> None:
    retry = RetryPolicy(lost=Retry(times=1), failed=Retry(times=2))
    told = given.search_running(queue="night", retry=retry, inputs={"digits": INPUT})
    events = suggestions.suggestion(told.search, 0, {"lr": 0.1}, seen=2)
    assert told.tell(*events) == [Outcome.APPLIED, Outcome.APPLIED]
    assert isinstance(events[1], TaskSubmitted)
    assert (events[1].task_id, events[1].parameters) == (given.task_id(0), {"lr": 0.1})
    assert (events[1].needs.queue, events[1].needs.retry) == ("night", retry)
    assert events[1].inputs == {"digits": INPUT}
    assert events[1].part == Part(kind="trial", number=0)
