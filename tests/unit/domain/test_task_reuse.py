"""A task that carries out several trials: what a request, its answer and the end of its process do (D19)."""

from typing import Any

from tests.unit.domain.given import (
    APPLIED,
    DUPLICATE,
    OVERTAKEN,
    STREAM,
    Told,
    assigned,
    begun,
    ended,
    over,
    preemption,
    report,
    search_running,
    submitted,
    suggested,
    task_id,
    token,
    trial_of,
)
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import Assessor, SearchEnded, SearchStatus, TrialSuggested
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks import tasks
from trackside.contracts.tasks.resources import Retry, RetryPolicy
from trackside.domain.folding.streams import dump, load, pack
from trackside.domain.tasks.task import TaskState


def asked(request: int = 1, **which: Any) -> tasks.ParametersRequested:
    return tasks.ParametersRequested(**token(0, **which), request=request)


def taken(request: int = 1, **which: Any) -> tasks.ParametersTaken:
    return tasks.ParametersTaken(**token(0, **which), request=request)


def withheld(request: int = 1) -> tasks.ParametersWithheld:
    return tasks.ParametersWithheld(
        task_id=task_id(0), attempt=1, placement=1, request=request, reason="no_slot"
    )


def within(number: int, task: int = 0) -> TrialSuggested:
    return suggested(number).model_copy(update={"within": task_id(task), "parameters": {"lr": number / 8}})


def goes_on(number: int, parameters: dict[str, Any] | None = None, **changed: Any) -> tasks.TaskContinued:
    part = Part(kind="trial", number=number)
    fields: dict[str, Any] = {"task_id": task_id(0), "attempt": 1, "placement": 1, "request": 1, "part": part}
    return tasks.TaskContinued(**{**fields, "parameters": parameters or {"lr": number / 8}, **changed})


def one_running(**changed: Any) -> Told:
    retry = RetryPolicy(lost=Retry(times=1), failed=Retry(times=1))
    told = search_running(**{"concurrency": 1, "retry": retry, **changed})
    told.tell(suggested(0), submitted(0, needs=told.search.spec.needs))
    told.each(assigned(), begun())
    assert told.tell(report(3, 0.5)) == APPLIED
    return told


def going_on(**changed: Any) -> Told:
    told = one_running(**changed)
    each: list[Message] = [asked(), over(0, 0.5), within(1), taken()]
    for event in each:
        assert told.tell(event) == APPLIED
    return told


def test_the_trial_of_a_task_that_asks_ends_and_the_next_goes_on_in_it() -> None:
    told = one_running(assessor=Assessor())
    assert told.tell(over(0, 0.5)) == OVERTAKEN, "its task has not asked"
    assert told.tell(within(1)) == OVERTAKEN, "no slot is open"
    assert (told.tell(asked()), told.stream.root.asking) == (APPLIED, {task_id(0)})
    assert told.tell(within(1)) == OVERTAKEN, "its trial goes on"
    assert (told.tell(over(0, 0.5)), told.search.idle) == (APPLIED, [task_id(0)])
    assert told.search.trials[0].reports == [(3, 0.5)]
    assert told.tell(report(4, 0.1)) == OVERTAKEN, "it has no trial"
    assert told.tell(within(1)) == APPLIED
    task = told.stream.tasks[task_id(0)]
    assert (trial_of(task), task.parameters, task.idle, told.search.idle) == (1, {"lr": 0.125}, False, [])
    assert (told.search.task_of(1), told.search.active) == (task_id(0), {1})
    assert told.tell(report(3, 0.5)) == OVERTAKEN, "a repeated report of the trial before"
    assert told.tell(taken()) == APPLIED
    assert told.tell(report(0, 0.1)) == OVERTAKEN, "a report of the trial before"
    assert told.tell(report(0, 0.75, requests=1)) == APPLIED
    assert told.stream.root.assessor_feed == [(0, 3, 0.5), (0, "SUCCEEDED", 0.5), (1, 0, 0.75)]
    assert told.search.trials[0].reports == [(3, 0.5)]


def test_repeats_and_what_is_out_of_order_change_nothing() -> None:
    told = going_on()
    for event, outcome in (
        *((asked(), DUPLICATE), (taken(), DUPLICATE), (within(1), DUPLICATE), (withheld(), DUPLICATE)),
        *((withheld(2), OVERTAKEN), (taken(2), OVERTAKEN), (asked(3), OVERTAKEN)),
        *((asked(2, incarnation="i-9"), OVERTAKEN), (asked(2, attempt=2), OVERTAKEN)),
    ):
        before = dump(told.stream)
        assert (told.tell(event), dump(told.stream)) == (outcome, before)
    assert told.tell(submitted(1)) == OVERTAKEN, "the trial has no task of its own"
    assert load(pack(told.stream), AGGREGATES) == told.stream


def test_a_task_itself_says_that_it_goes_on_with_the_next_trial() -> None:
    told = one_running()
    told.tell(asked())
    assert told.tell(goes_on(1)) == OVERTAKEN, "it has its trial still"
    told.tell(over(0, 0.5))
    assert told.tell(goes_on(1)) == OVERTAKEN, "no other trial is its own"
    assert (told.tell(within(1), goes_on(1)), told.task().changed_at) == (APPLIED * 2, told.next_offset - 1)
    assert (told.task().answered, told.task().continued, told.task().taken) == (1, 1, 0)
    assert told.tell(goes_on(1)) == DUPLICATE
    assert told.tell(within(1), goes_on(1)) == DUPLICATE + OVERTAKEN, "a second dispatcher decided the same"
    for event in (taken(), asked(2), over(1, 0.25)):
        assert told.tell(event) == APPLIED
    assert (told.tell(within(2), goes_on(2, request=2)), trial_of(told.task())) == (APPLIED * 2, 2)


def test_it_has_no_effect_where_it_is_not_of_the_request_that_was_answered() -> None:
    told = going_on()
    other = Part(kind="trial", number=2)
    for wrong in ({"request": 2}, {"attempt": 2}, {"placement": 2}, {"part": other}):
        assert told.tell(goes_on(1, **wrong)) == OVERTAKEN
    refused = one_running()
    for event in (asked(), withheld()):
        refused.tell(event)
    assert refused.tell(goes_on(0)) == OVERTAKEN, "it was told that there is no other"


def test_a_log_of_an_older_release_has_the_suggestion_alone_and_means_the_same() -> None:
    older, newer = going_on(), one_running()
    for events in ([asked()], [over(0, 0.5)], [within(1), goes_on(1)], [taken()]):
        newer.tell(*events)
    assert newer.task().continued == 1
    newer.task().continued = 0
    for told in (older, newer):
        told.task().changed_at = told.search.trials[1].suggested_at = told.search.trials[0].ended_at
    assert (older.task(), older.search.trials) == (newer.task(), newer.search.trials)


def test_an_attempt_that_ends_between_the_suggestion_and_the_task_s_own_event_is_tried_again() -> None:
    told = one_running()
    for event in (asked(), over(0, 0.5), within(1)):
        told.tell(event)
    assert told.tell(ended(tasks.AttemptEnd.LOST), role="scheduler") == APPLIED
    assert told.tell(goes_on(1)) == OVERTAKEN
    task = told.task()
    assert (task.state, task.attempt.number, trial_of(task), task.continued) == (TaskState.QUEUED, 2, 1, 0)


def test_a_request_that_gets_nothing_leaves_the_trial_as_it_is() -> None:
    told = one_running()
    for event in (asked(), withheld(), taken()):
        assert told.tell(event) == APPLIED
    assert (told.stream.root.asking, told.tell(report(4, 0.25, requests=1))) == (set(), APPLIED)
    task = told.stream.tasks[task_id(0)]
    assert (trial_of(task), task.withheld, [value for _, value in task.reports]) == (0, True, [0.5, 0.25])
    assert told.tell(asked(2)) == APPLIED, "it may ask again"


def test_a_task_that_is_tried_again_begins_with_the_trial_that_was_not_over() -> None:
    told = going_on()
    assert told.tell(ended(tasks.AttemptEnd.LOST), role="scheduler") == APPLIED
    task = told.stream.tasks[task_id(0)]
    assert (task.state, task.attempt.number) == (TaskState.QUEUED, 2)
    assert (trial_of(task), task.parameters) == (1, {"lr": 0.125})
    assert (told.search.active, told.tell(assigned(attempt=2))) == ({1}, APPLIED)
    assert told.each(begun(attempt=2), report(0, 0.5, attempt=2)) == APPLIED * 2
    assert told.tell(asked(1, attempt=2)) == APPLIED, "its requests count from 1"


def test_a_task_without_a_trial_is_not_tried_again_and_its_slot_is_open() -> None:
    for end, role in ((tasks.AttemptEnd.LOST, "scheduler"), (tasks.AttemptEnd.FAILED, "worker")):
        told = one_running()
        told.each(asked(), over(0, 0.5))
        assert told.tell(ended(end), role=role) == APPLIED
        assert told.stream.tasks[task_id(0)].state is TaskState.ENDED
        assert (told.search.idle, told.stream.root.asking, told.search.next_trial) == ([], set(), 1)
        assert (told.tell(within(1)), told.tell(suggested(1), submitted(1))) == (OVERTAKEN, APPLIED * 2)


def test_a_task_without_a_trial_that_makes_room_is_over() -> None:
    told = one_running()
    told.each(asked(), over(0, 0.5))
    assert told.tell(preemption()) == APPLIED
    assert told.tell(within(1)) == OVERTAKEN, "its process is being ended"
    assert told.tell(ended(tasks.AttemptEnd.PREEMPTED)) == APPLIED
    assert told.stream.tasks[task_id(0)].end is tasks.AttemptEnd.CANCELLED
    assert told.search.idle == []


def test_a_search_does_not_end_while_a_task_of_it_runs_without_a_trial() -> None:
    told = one_running(max_trials=1)
    told.each(asked(), over(0, 0.5))
    end = SearchEnded(status=SearchStatus.DONE, trials=1)
    assert told.tell(end) == OVERTAKEN
    told.each(withheld(), taken())
    assert told.tell(end) == OVERTAKEN
    told.tell(ended())
    assert (told.tell(end), told.stream.stream_id) == (APPLIED, STREAM)
