"""What changes a search: commands, each once, and a tuner that fails or has to know more first (D11)."""

import pytest

from tests.unit.domain import given
from tests.unit.domain.given import finish, search_running
from trackside.aggregates.search import messages
from trackside.aggregates.search.advice.advice_messages import SuggestionDeferred, SuggestionFailed
from trackside.aggregates.search.space.space import Uniform
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.tasks import AttemptEnd, TaskHeld, TaskReleased, TaskStopRequested
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import TaskState

APPLIED, DUPLICATE, OVERTAKEN = [Outcome.APPLIED], [Outcome.DUPLICATE], [Outcome.OVERTAKEN]
WIDER = {"lr": Uniform(type="uniform", low=0.0, high=2.0)}


def suggest(told: given.Told, trial: int) -> Outcome:
    opened = told.search.opened
    seen = opened[trial] if trial < len(opened) else 0
    return told.tell(given.suggested(trial).model_copy(update={"seen": seen}), given.submitted(trial))[0]


def updated(change: int = 1, **limits: float | None) -> messages.SearchUpdated:
    whole = {"concurrency": 2, "max_trials": 4, **limits}
    return messages.SearchUpdated.model_validate({"command_id": "c-2", "change": change, **whole})


def paused(change: int = 1, running: str = "finish") -> messages.SearchPaused:
    return messages.SearchPaused.model_validate({"command_id": "c-2", "change": change, "running": running})


def resumed(change: int = 2) -> messages.SearchResumed:
    return messages.SearchResumed(command_id="c-3", change=change)


def added(change: int = 1, tell_tuner: bool = False) -> messages.TrialAdded:
    return messages.TrialAdded(command_id="c-2", change=change, parameters={"lr": 9.0}, tell_tuner=tell_tuner)


def customized(trial: int, seen: int = 2) -> messages.TrialSuggested:
    return given.suggested(trial).model_copy(
        update={"parameters": {"lr": 9.0}, "source": "customized", "seen": seen}
    )


CHANGES: list[Message] = [
    messages.TrialsRequested(command_id="c-2", change=1, count=2),
    messages.SearchSpaceUpdated(command_id="c-2", change=1, space_version=2, space=WIDER),
    messages.TrialsImported(
        command_id="c-2", change=1, trials=[messages.PastTrial(parameters={"lr": 0.5}, value=1.0)]
    ),
    added(),
    updated(concurrency=3),
    paused(),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_change_counts_once_in_its_order_and_not_in_a_search_that_is_stopped(change: Message) -> None:
    told = given.search_running()
    assert told.each(change.model_copy(update={"change": 2}), change) == OVERTAKEN + APPLIED
    assert told.tell(change) == DUPLICATE
    told.tell(messages.SearchStopRequested(command_id="c-9", reason=""))
    assert (told.tell(change.model_copy(update={"change": 2})), told.search.changes) == (OVERTAKEN, 1)


def status_of(told: given.Told) -> messages.SearchStatus:
    return told.search.status


def test_requested_trials_run_beyond_the_concurrency_once() -> None:
    told = given.search_running(max_trials=9)
    told.tell(messages.TrialsRequested(command_id="c-2", change=1, count=2))
    assert [suggest(told, trial) for trial in range(5)] == [Outcome.APPLIED] * 4 + [Outcome.OVERTAKEN]
    given.finish(told, 0, 0.5)
    given.finish(told, 1, 0.5)
    assert told.search.next_trial is None
    given.finish(told, 2, 0.5)
    assert suggest(told, 4) is Outcome.APPLIED
    assert told.search.active == {3, 4}


def test_a_lower_concurrency_takes_open_slots_and_waits_for_trials_that_run() -> None:
    """D25: lowering the concurrency is a debt, and ends nothing."""
    told = given.search_running(max_trials=9, concurrency=4)
    for trial in range(3):
        suggest(told, trial)
    assert told.tell(updated(concurrency=1, max_trials=9)) == APPLIED
    assert (told.search.active, told.search.next_trial, told.search.debt) == ({0, 1, 2}, None, 2)
    for trial in range(2):
        given.finish(told, trial, 0.5)
        assert told.search.next_trial is None
    given.finish(told, 2, 0.5)
    assert told.search.next_trial == 3


def test_a_higher_concurrency_opens_slots_at_once_or_cancels_a_debt() -> None:
    told = given.search_running(max_trials=9)
    suggest(told, 0)
    suggest(told, 1)
    told.each(updated(concurrency=1, max_trials=9), updated(2, concurrency=3, max_trials=9))
    assert (told.search.debt, told.search.opened) == (0, [2, 2, told.next_offset - 1])
    assert suggest(told, 2) is Outcome.APPLIED
    told = given.search_running(max_trials=9)
    before = given.suggested(0).model_copy(update={"seen": 2})
    told.tell(updated(concurrency=1, max_trials=9))
    assert told.tell(before) == OVERTAKEN, "it was asked before the slot was taken away"
    assert suggest(told, 0) is Outcome.APPLIED


def test_raising_the_trials_of_a_search_that_has_all_lets_it_run_again() -> None:
    told = given.search_running(max_trials=1)
    suggest(told, 0)
    assert status_of(told) is messages.SearchStatus.NO_MORE_TRIAL
    told.tell(updated(max_trials=2))
    assert status_of(told) is messages.SearchStatus.RUNNING
    assert suggest(told, 1) is Outcome.APPLIED
    told.tell(updated(2, max_trials=1))
    assert status_of(told) is messages.SearchStatus.NO_MORE_TRIAL
    assert told.search.active == {0, 1}


def test_another_space_is_for_the_trials_that_are_not_suggested_yet() -> None:
    """D12: what was asked about the old space does not count; an exhausted search goes on."""
    wider = messages.SearchSpaceUpdated(command_id="c-2", change=1, space_version=2, space=WIDER)
    told = given.search_running(max_trials=9)
    suggest(told, 0)
    asked = given.suggested(1).model_copy(update={"seen": told.search.opened[1]})
    exhausted = messages.SearchExhausted(trials=1, seen=told.search.opened[1])
    told.tell(wider)
    assert (told.search.spec.space, told.search.space_version) == (WIDER, 2)
    assert told.search.opened == [2, told.next_offset - 1]
    assert told.each(asked, exhausted) == OVERTAKEN * 2
    assert suggest(told, 1) is Outcome.APPLIED
    assert told.search.trials[0].space_version == 1
    told = given.search_running(max_trials=9)
    suggest(told, 0)
    told.tell(exhausted.model_copy(update={"seen": 2}))
    assert status_of(told) is messages.SearchStatus.TUNER_NO_MORE_TRIAL
    told.tell(wider)
    assert status_of(told) is messages.SearchStatus.RUNNING


def test_a_users_trial_takes_the_next_slot_and_the_tuner_the_one_after() -> None:
    told = given.search_running()
    asked = given.suggested(0).model_copy(update={"seen": 2})
    told.tell(added())
    assert (told.search.next_trial, told.search.next_added, told.tell(asked)) == (None, 0, OVERTAKEN)
    assert told.tell(customized(0), given.submitted(0))[0] is Outcome.APPLIED
    trial = told.search.trials[0]
    assert (trial.parameters, trial.source, trial.hidden) == ({"lr": 9.0}, "customized", True)
    assert (told.search.next_added, told.search.next_trial) == (None, 1)
    assert told.tell(customized(1), given.submitted(1))[0] is Outcome.OVERTAKEN
    assert suggest(told, 1) is Outcome.APPLIED


def test_an_exhausted_search_still_runs_what_users_add_and_does_not_end_before() -> None:
    told = given.search_running()
    told.each(messages.SearchExhausted(trials=0, seen=2), added(tell_tuner=True))
    end = messages.SearchEnded(status=messages.SearchStatus.DONE, trials=0)
    assert told.tell(end) == OVERTAKEN
    assert told.tell(customized(0), given.submitted(0))[0] is Outcome.APPLIED
    assert told.search.trials[0].hidden is False
    given.finish(told, 0, 0.5)
    assert told.tell(end) == APPLIED


def test_a_paused_search_suggests_nothing_and_does_not_end_unless_it_is_stopped() -> None:
    told = given.search_running()
    suggest(told, 0)
    told.tell(paused())
    assert (told.search.status, told.search.next_trial) == (messages.SearchStatus.PAUSED, None)
    given.finish(told, 0, 0.5)
    assert suggest(told, 1) is Outcome.OVERTAKEN
    assert told.tell(messages.SearchEnded(status=messages.SearchStatus.DONE, trials=1)) == OVERTAKEN
    told.tell(resumed())
    assert status_of(told) is messages.SearchStatus.RUNNING
    assert told.search.opened[1:] == [told.next_offset - 1] * 2
    assert suggest(told, 1) is Outcome.APPLIED
    told = given.search_running()
    told.each(paused(), messages.SearchStopRequested(command_id="c-9", reason=""))
    assert told.tell(messages.SearchEnded(status=messages.SearchStatus.STOPPED, trials=0)) == APPLIED


def test_pauses_do_not_count_for_the_longest_duration() -> None:
    told = given.search_running(max_duration_s=0.02)
    started_ms = given.FIRST_MS + 2
    assert told.search.due_ms == started_ms + 20
    told.tell(paused())
    assert told.search.due_ms is None
    for _ in range(9):
        told.tell(resumed(1))
    told.tell(resumed())
    assert told.search.due_ms == started_ms + 20 + 10


def test_a_search_has_run_long_enough_when_the_clock_of_the_log_says_so() -> None:
    told = given.search_running(max_duration_s=0.01)
    due_ms = told.search.due_ms or 0
    limit = messages.SearchTimeLimitReached(due_ms=due_ms)
    assert told.each(limit, messages.SearchTimeLimitReached(due_ms=due_ms - 9)) == OVERTAKEN * 2
    while told.now_ms < due_ms:
        told.tell(resumed(1))
    assert told.tell(limit) == APPLIED
    assert status_of(told) is messages.SearchStatus.NO_MORE_TRIAL
    assert told.tell(limit) == OVERTAKEN
    told.tell(updated(2, max_duration_s=0.001))
    assert status_of(told) is messages.SearchStatus.NO_MORE_TRIAL
    told.tell(updated(3, max_duration_s=60.0))
    assert status_of(told) is messages.SearchStatus.RUNNING
    assert told.tell(limit) == OVERTAKEN


@pytest.mark.parametrize(
    ("direction", "goal", "reached"),
    [("maximize", 0.9, False), ("maximize", 0.5, True), ("minimize", 0.4, False), ("minimize", 0.5, True)],
)
def test_a_search_that_reaches_its_goal_begins_no_trial(direction: str, goal: float, reached: bool) -> None:
    told = given.search_running(direction=direction, goal=goal)
    suggest(told, 0)
    given.finish(told, 0, 0.5)
    assert (status_of(told) is messages.SearchStatus.NO_MORE_TRIAL) is reached
    told.tell(updated(goal=None))
    assert status_of(told) is messages.SearchStatus.RUNNING


def held(hold: int = 1) -> TaskHeld:
    return TaskHeld(task_id="digits-1.0", hold=hold)


def released(hold: int = 1) -> TaskReleased:
    return TaskReleased(task_id="digits-1.0", hold=hold)


def test_a_held_task_gives_its_device_back_and_is_the_same_attempt_when_it_runs_again() -> None:
    """D29: the same trial, the same parameters, not counted twice."""
    told = given.task_active()
    assert told.each(held(2), held(), held()) == OVERTAKEN + APPLIED + DUPLICATE
    assert told.task().attempt.stopping is AttemptEnd.PREEMPTED
    told.tell(given.ended(AttemptEnd.PREEMPTED))
    assert (told.task().state, told.task().place) == (TaskState.QUEUED, None)
    assert told.each(given.assigned(placement=2), released(2), released()) == OVERTAKEN * 2 + APPLIED
    assert told.each(released(), held()) == OVERTAKEN + DUPLICATE
    told.each(given.assigned(placement=2), given.begun(placement=2))
    assert (told.task().attempt.number, told.task().attempt.past[0].end) == (1, "preempted")


def test_the_wait_of_a_held_task_is_not_limited_and_it_can_be_stopped() -> None:
    told = given.search_running(queue_timeout_s=0.05)
    told.tell(given.suggested(0), given.submitted(0, needs=told.search.spec.needs))
    told.tell(held())
    assert told.task().due_ms is None
    told.tell(released())
    assert told.task().due_ms == told.now_ms - 1 + 50
    told.each(held(2), TaskStopRequested(task_id="digits-1.0", reason="user"))
    assert told.task().end is AttemptEnd.CANCELLED
    told = given.task_active()
    told.tell(TaskStopRequested(task_id="digits-1.0", reason="user"))
    assert told.tell(held()) == OVERTAKEN, "one that is stopped is not held"


def test_a_trial_is_not_stopped_before_its_longest_duration() -> None:
    told = given.task_active()
    stop = TaskStopRequested(task_id="digits-1.0", reason="max_trial_duration", due_ms=told.now_ms + 1)
    assert told.each(stop, stop) == OVERTAKEN + APPLIED


def failure(trial: int = 0, number: int = 1, seen: int = 2) -> SuggestionFailed:
    return SuggestionFailed(trial=trial, failure=number, code="tuner_failed", message="it raised", seen=seen)


def deferral(trial: int, seen: int = 2) -> SuggestionDeferred:
    return SuggestionDeferred(trial=trial, seen=seen)


def test_failures_are_counted_for_the_next_trial_each_once_and_in_order() -> None:
    told = search_running()
    for number, outcome in ((2, OVERTAKEN), (1, APPLIED), (1, DUPLICATE), (2, APPLIED)):
        assert told.tell(failure(number=number)) == outcome
    assert (told.search.failures, told.search.last_failure) == (2, ("tuner_failed", "it raised"))
    assert told.search.next_trial == 0
    assert suggest(told, 0) is Outcome.APPLIED
    assert told.search.failures == 0
    assert told.tell(failure(0, 3)) == DUPLICATE, "of a trial that has its parameters"
    told = search_running()
    told.tell(paused())
    assert told.tell(failure()) == OVERTAKEN
    told.tell(resumed())
    assert told.tell(failure(seen=2)) == OVERTAKEN, "it was asked before the search was changed"
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


def test_d11_an_import_wakes_a_deferred_suggestion_too_and_one_that_is_overtaken_asks_at_once() -> None:
    told = search_running()
    suggest(told, 0)
    told.tell(deferral(1))
    past = [messages.PastTrial(parameters={"lr": 0.5}, value=0.25)]
    told.tell(messages.TrialsImported(command_id="c-2", change=1, trials=past))
    assert (told.search.next_trial, told.search.opened[1]) == (1, told.next_offset - 1)
    told = search_running(concurrency=3)
    suggest(told, 0)
    finish(told, 0, 0.5)  # the second slot was open from the start, and asked while the first trial ended
    assert (told.tell(deferral(1)), told.search.deferred, told.search.next_trial) == (APPLIED, False, 1)
    assert told.search.opened[1] == told.next_offset - 1


def test_d11_a_deferral_with_nothing_to_wait_for_does_not_count() -> None:
    for ended in (0, 1):
        told = search_running()
        for trial in range(ended):
            suggest(told, trial)
            finish(told, trial, 0.5)
        told.each(paused(), resumed())
        assert told.tell(deferral(ended, seen=told.search.opened[ended])) == OVERTAKEN
        assert told.search.next_trial == ended
