"""What the dispatcher says to a task that asks for another trial (D19)."""

from typing import Any

from tests.unit.domain.given import Told, over, suggested, task_id
from tests.unit.domain.test_task_reuse import asked, goes_on, one_running, taken, withheld, within
from trackside.aggregates.batch.aggregate import BATCH
from trackside.aggregates.batch.messages import BatchSpec
from trackside.aggregates.batch.state import Batch
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search import messages
from trackside.aggregates.search.trials import suggestions, trial_reuse
from trackside.contracts.envelope.message import Event
from trackside.contracts.tasks.tasks import ParametersWithheld, TaskStopRequested
from trackside.domain.commands.react import react
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.lookup import NO_LOOKUP
from trackside.domain.outcome import Outcome


def said(told: Told) -> list[Event]:
    return [event for answer in react(told.stream, Capabilities(), AGGREGATES) for event in answer.events]


def reason(told: Told) -> str:
    [event] = [event for event in said(told) if isinstance(event, ParametersWithheld)]
    return event.reason


def asking(**changed: Any) -> Told:
    told = one_running(**changed)
    assert said(told) == []
    told.tell(asked())
    return told


def test_its_trial_ends_with_what_was_reported_and_the_next_one_is_for_it() -> None:
    told = asking()
    [ends] = said(told)
    assert isinstance(ends, messages.TrialEnded)
    assert (ends.trial, ends.status, ends.value) == (0, messages.TrialStatus.SUCCEEDED, 0.5)
    told.tell(ends)
    assert said(told) == [], "the tuner is asked"
    task, search = trial_reuse.next_task(told.stream), told.search
    assert task is not None and task.task_id == task_id(0)
    [event, continued] = suggestions.suggestion(search, 1, {"lr": 0.5}, search.opened[1], task=task)
    assert isinstance(event, messages.TrialSuggested) and event.within == task_id(0)
    assert continued == goes_on(1, {"lr": 0.5})
    assert told.tell(event, continued) == [Outcome.APPLIED, Outcome.APPLIED]
    assert trial_reuse.next_task(told.stream) is None
    assert told.stream.tasks[task_id(0)].parameters == {"lr": 0.5}


def test_a_trial_that_a_user_added_may_be_the_next_one() -> None:
    told = asking()
    told.each(messages.TrialAdded(command_id="c", change=1, parameters={"lr": 9.0}), over(0, 0.5))
    [event, continued] = said(told)
    assert isinstance(event, messages.TrialSuggested)
    assert continued == goes_on(1, {"lr": 9.0})
    assert (event.within, event.source, event.parameters) == (task_id(0), "customized", {"lr": 9.0})


def test_where_the_search_has_no_more_trials_the_trial_goes_on_without_another() -> None:
    assert reason(asking(max_trials=1)) == "no_more_trial"
    paused = asking()
    paused.tell(messages.SearchPaused(command_id="c", change=1, running="finish"))
    assert reason(paused) == "paused"
    told = asking(concurrency=2)
    told.each(messages.SearchUpdated(command_id="c", change=1, concurrency=1, max_trials=4), suggested(1))
    assert (told.search.debt, [type(event) for event in said(told)]) == (0, [messages.TrialEnded])


def test_where_fewer_trials_shall_run_at_once_a_task_that_asks_makes_room() -> None:
    told = one_running(concurrency=2)
    told.each(suggested(1), messages.SearchUpdated(command_id="c", change=1, concurrency=1, max_trials=4))
    told.tell(asked())
    assert (told.search.debt, reason(told)) == (1, "concurrency")


def test_a_tuner_that_has_no_more_leaves_the_task_without_a_trial() -> None:
    told = asking()
    told.tell(over(0, 0.5))
    told.tell(messages.SearchExhausted(trials=1, seen=told.search.opened[1]))
    assert reason(told) == "tuner_no_more_trial"
    told.each(withheld(), taken())
    assert said(told) == [], "the search ends when the task has"
    told.tell(messages.SearchStopRequested(command_id="c", reason=""))
    assert said(told) == [TaskStopRequested(task_id=task_id(0), reason="user")]


def test_of_two_tasks_that_wait_each_gets_a_slot_of_its_own_or_none() -> None:
    told = asking()
    told.each(over(0, 0.5), within(1), taken(), asked(2))
    assert [type(event) for event in said(told)] == [messages.TrialEnded]


def test_a_task_that_is_being_stopped_gets_no_answer_and_one_of_a_batch_no_parameters() -> None:
    told = asking()
    told.tell(TaskStopRequested(task_id=task_id(0), reason="user"))
    assert said(told) == []
    told = asking()
    told.stream.root = Batch("s", BatchSpec.model_construct(groups=[]), 0, asking={task_id(0)})
    assert next(iter(BATCH.lacking(told.stream, NO_LOOKUP))).span == "withhold parameters"
