"""Every command that changes a search is answered: with what follows from it, or with why not."""

from typing import Any

import pytest

from tests.unit.aggregates.given import SPEC, answered, published, react, refusal, the
from tests.unit.domain import given
from trackside.aggregates.search import messages
from trackside.aggregates.search.state import OVER
from trackside.aggregates.search.trials import deadlines, suggestions
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused
from trackside.contracts.tasks.tasks import AttemptEnd, TaskHeld, TaskReleased, TaskStopRequested
from trackside.dispatcher.deadlines import AGAIN_MS, Deadlines

WIDER = {"lr": {"type": "uniform", "low": 0.0, "high": 2.0}}
STOP = messages.SearchStopRequested(command_id="c-1", reason="")


def command(told: given.Told, at: int, kind: type[Any], **body: Any) -> list[Event]:
    events = answered(told, published(at, kind.wire_type(), body))
    assert isinstance(events[0], CommandAccepted), events
    assert react(told) == []
    return events[1:]


def refused(told: given.Told, at: int, kind: type[Any], **body: Any) -> tuple[str, str]:
    return refusal(answered(told, published(at, kind.wire_type(), body))[:1])[:2]


def suggest(told: given.Told, trial: int) -> None:
    opened = told.search.opened[trial]
    told.tell(*suggestions.suggestion(told.search, trial, {"lr": trial / 10}, opened))


CHANGES: list[tuple[type[Any], dict[str, Any]]] = [
    (messages.RequestTrials, {"count": 2}),
    (messages.UpdateSearchSpace, {"space": WIDER}),
    (messages.ImportTrials, {"trials": [{"parameters": {"lr": 0.5}, "value": 1.0}]}),
    (messages.AddTrial, {"parameters": {"lr": 0.5}}),
    (messages.UpdateSearch, {"concurrency": 3}),
    (messages.PauseSearch, {}),
    (messages.ResumeSearch, {}),
    (messages.StopTrial, {"trial": 0}),
]


@pytest.mark.parametrize(("kind", "body"), CHANGES, ids=lambda found: getattr(found, "__name__", ""))
def test_what_is_not_there_or_over_or_being_stopped_is_not_changed(kind: type[Any], body: Any) -> None:
    """D24: DONE is not left by raising a limit, nor STOPPED by a resume; the refusal says how to go on."""
    assert refused(given.Told(), 1, kind, **body) == ("unknown_search", "$partitionkey")
    told = given.search_running(max_trials=1)
    suggest(told, 0)
    given.finish(told, 0, 0.5)
    react(told)
    assert told.search.status in OVER
    event = the(CommandRefused, answered(told, published(2, kind.wire_type(), body)))
    assert event.code == "already_terminal"
    assert "trackside replay fork" in event.message
    told = given.search_running()
    suggest(told, 0)
    told.tell(STOP)
    react(told)
    if kind is not messages.StopTrial:
        assert refused(told, 2, kind, **body)[0] in ("is_stopping", "already_terminal")


def test_so_many_trials_as_are_asked_for_are_begun_within_the_limit() -> None:
    told = given.search_running()
    for at, (count, begun) in enumerate(((1, 1), (99, 4)), 2):
        event = the(messages.TrialsRequested, command(told, at, messages.RequestTrials, count=count))
        assert (event.command_id, event.change, event.count) == (f"c-{at}", at - 1, begun)
    for exhausted in (False, True):
        told = given.search_running(max_trials=4 if exhausted else 1)
        suggest(told, 0)
        told.tell(*(suggestions.exhausted(told.search, 2) if exhausted else []))
        assert refused(told, 2, messages.RequestTrials, count=1) == ("no_more_trials", "$")


def test_another_space_has_the_next_version_and_one_the_tuner_cannot_search_is_refused() -> None:
    told = given.search_running()
    event = the(messages.SearchSpaceUpdated, command(told, 2, messages.UpdateSearchSpace, space=WIDER))
    assert (event.space_version, event.change) == (2, 1)
    assert command(told, 3, messages.UpdateSearchSpace, space=WIDER) == [], "the same one again"
    suggest(told, 0)
    suggestion = told.records[-2].message
    assert isinstance(suggestion, messages.TrialSuggested)
    assert suggestion.space_version == 2
    told = given.Told()
    answered(told, published(1, body={**SPEC, "tuner": {"name": "cma-es"}}))
    choice = {"opt": {"type": "choice", "values": ["a", "b"]}}
    assert refused(told, 2, messages.UpdateSearchSpace, space=choice) == ("bad_search_space", "$.space.opt")


def test_imported_trials_are_recorded_once() -> None:
    told = given.search_running()
    suggest(told, 0)
    past = ((0.5, 1.0), (0.5, 2.0), (0.0, 1.0))
    trials = [{"parameters": {"lr": lr}, "value": value} for lr, value in past]
    event = the(messages.TrialsImported, command(told, 2, messages.ImportTrials, trials=trials))
    assert [(past.parameters, past.value) for past in event.trials] == [({"lr": 0.5}, 1.0)]
    assert command(told, 3, messages.ImportTrials, trials=trials) == []
    assert [past.at for past in told.search.imported] == [told.records[-3].offset]
    outside = [trials[0], {"parameters": {"lr": 5.0}, "value": 1.0}]
    found = refused(told, 4, messages.ImportTrials, trials=outside)
    assert found == ("bad_parameters", "$.trials[1].parameters.lr")


def test_a_users_trial_is_begun_next_and_is_refused_when_there_are_to_be_no_more() -> None:
    told = given.search_running(max_trials=2)
    events = answered(
        told, published(2, messages.AddTrial.wire_type(), {"parameters": {"lr": 9.0}, "outside": True})
    )
    assert isinstance(events[1], messages.TrialAdded)
    suggestion, task = react(told)
    assert isinstance(suggestion, messages.TrialSuggested)
    assert (suggestion.trial, suggestion.source) == (0, "customized")
    assert getattr(task, "parameters", None) == {"lr": 9.0}
    answered(told, published(3, messages.AddTrial.wire_type(), {"parameters": {"lr": 1}}))
    assert refused(told, 4, messages.AddTrial, parameters={"lr": 2}) == ("no_more_trials", "$")


def test_limits_that_are_left_out_stay_and_are_removed_by_name() -> None:
    told = given.search_running(goal=0.9)
    (event,) = command(told, 2, messages.UpdateSearch, max_trials=9, max_duration_s=60)
    expected = {"concurrency": 2, "max_trials": 9, "max_duration_s": 60.0, "goal": 0.9}
    assert event == messages.SearchUpdated.model_validate({"command_id": "c-2", "change": 1, **expected})
    (event,) = command(told, 3, messages.UpdateSearch, remove=["goal", "max_duration_s"])
    assert event == messages.SearchUpdated(command_id="c-3", change=2, concurrency=2, max_trials=9)
    assert command(told, 4, messages.UpdateSearch, max_trials=9) == []
    assert refused(told, 5, messages.UpdateSearch, goal=1, remove=["goal"]) == ("unknown_value", "$.remove")


def test_pausing_twice_and_resuming_what_runs_changes_nothing() -> None:
    told, pause, resume = given.search_running(), messages.PauseSearch, messages.ResumeSearch
    written = [command(told, at, kind) for at, kind in enumerate((resume, pause, pause, resume), 2)]
    kinds = [[type(event) for event in events] for events in written]
    assert kinds == [[], [messages.SearchPaused], [], [messages.SearchResumed]]


def test_trials_of_a_search_that_is_paused_with_return_wait_and_run_again_when_it_goes_on() -> None:
    told = given.task_active()
    told.tell(published(2, messages.PauseSearch.wire_type(), {"running": "return"}))
    assert [type(event) for event in react(told)] == [CommandAccepted, messages.SearchPaused]
    assert (react(told), react(told)) == ([TaskHeld(task_id=given.task_id(0), hold=1)], [])
    told.tell(given.ended(AttemptEnd.PREEMPTED))
    assert react(told) == []
    answered(told, published(3, messages.ResumeSearch.wire_type(), {}))
    assert react(told) == [TaskReleased(task_id=given.task_id(0), hold=1)]
    told.each(given.assigned(placement=2), given.begun(placement=2))
    told.each(given.report(0, 0.5, final=True, placement=2), given.ended(placement=2))
    assert react(told) == [messages.TrialEnded(trial=0, status=messages.TrialStatus.SUCCEEDED, value=0.5)]
    assert len(told.search.trials) == 1


def test_what_is_held_is_released_to_finish_and_not_by_a_stop() -> None:
    for kind, body, follows in (
        (messages.PauseSearch, {"running": "finish"}, TaskReleased(task_id=given.task_id(0), hold=1)),
        (messages.StopSearch, {}, TaskStopRequested(task_id=given.task_id(0), reason="user")),
    ):
        told = given.task_active() if body else given.task_queued()
        answered(told, published(2, messages.PauseSearch.wire_type(), {"running": "return"}))
        react(told)
        answered(told, published(3, kind.wire_type(), body))
        assert react(told) == [follows]


def test_a_trial_that_a_user_stops_is_canceled_and_the_search_goes_on() -> None:
    told = given.task_active()
    stop = TaskStopRequested(task_id=given.task_id(0), reason="user")
    assert command(told, 2, messages.StopTrial, trial=0) == [stop]
    assert command(told, 3, messages.StopTrial, trial=0) == []
    told.tell(given.ended(AttemptEnd.CANCELLED))
    assert react(told) == [messages.TrialEnded(trial=0, status=messages.TrialStatus.USER_CANCELED)]
    assert refused(told, 4, messages.StopTrial, trial=0) == ("already_terminal", "$.trial")
    assert refused(told, 5, messages.StopTrial, trial=7) == ("unknown_trial", "$.trial")
    assert told.search.next_trial == 1


def test_a_final_value_that_is_in_the_log_before_a_stop_counts() -> None:
    """D6: a stop drains to a recorded point."""
    told = given.task_active()
    told.each(given.report(3, 0.75, final=True), published(2, "trackside.stop-search.v1", {}))
    react(told)
    react(told)
    told.tell(given.ended(AttemptEnd.CANCELLED))
    ended_, over = [*react(told), *react(told)]
    assert ended_ == messages.TrialEnded(trial=0, status=messages.TrialStatus.SUCCEEDED, value=0.75)
    assert over == messages.SearchEnded(status=messages.SearchStatus.STOPPED, trials=1)
    assert told.search.best == 0


def test_a_trial_that_runs_too_long_is_stopped_early() -> None:
    """D22: an overrun of the longest duration."""
    told = given.task_active(max_trial_duration_s=0.01)
    due_ms = told.now_ms - 1 + 10
    assert deadlines.next_due_ms(told.stream) == due_ms
    assert list(deadlines.reached(told.stream, due_ms - 1)) == []
    [limited] = deadlines.reached(told.stream, due_ms)
    while told.now_ms < due_ms:
        told.tell(given.report(told.now_ms % 1000, 0.25))
    told.tell(*limited.events)
    assert deadlines.next_due_ms(told.stream) is None
    told.tell(given.ended(AttemptEnd.CANCELLED))
    assert react(told) == [
        messages.TrialEnded(trial=0, status=messages.TrialStatus.EARLY_STOPPED, value=0.25)
    ]


def test_a_search_that_has_run_long_enough_lets_its_trials_finish_and_is_done() -> None:
    """D26: the deadline is read off the log, so that it is the same after a restart."""
    told = given.task_active(max_duration_s=0.01)
    due_ms = deadlines.next_due_ms(told.stream) or 0
    while told.now_ms < due_ms:
        told.tell(given.report(told.now_ms % 1000, 0.25))
    [limited] = deadlines.reached(told.stream, due_ms)
    assert limited.events == [messages.SearchTimeLimitReached(due_ms=due_ms)]
    told.tell(*limited.events)
    assert react(told) == []
    told.tell(given.ended())
    assert react(told) == [messages.TrialEnded(trial=0, status=messages.TrialStatus.SUCCEEDED, value=0.25)]
    assert react(told) == [messages.SearchEnded(status=messages.SearchStatus.DONE, trials=1)]


def test_a_limit_that_the_log_found_too_early_is_said_again_a_little_later() -> None:
    found = Deadlines()
    found.set("s", 100)
    found.set("other", None)
    assert (found.next_ms(), found.pop_due(99, lambda _: False)) == (100, [])
    assert (found.pop_due(100, lambda _: True), found.pop_due(120, lambda _: False)) == ([], ["s"])
    found.set("s", 100)
    assert (found.next_ms(), found.pop_due(121, lambda _: False)) == (120 + AGAIN_MS, [])
    found.set("s", 110)
    assert found.pop_due(121, lambda _: False) == ["s"]
    found.set("s", None)
    assert found.next_ms() is None
