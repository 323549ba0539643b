"""A new incarnation of a worker takes over the attempts that outlived the earlier one."""

import json
from typing import Any

from tests.unit.domain import given
from trackside.contracts.tasks.tasks import AttemptEnd, TaskRefused, TaskStatus, TaskStopRequested
from trackside.domain.display.task_state import task_fields
from trackside.domain.folding.streams import dump
from trackside.domain.tasks.task import TaskState


def changed_by(told: given.Told, *events: Any) -> dict[str, tuple[object, object]]:
    """Folds events that count; returns what of the task is another than before, with both values."""
    before = fields_of(told)
    for event in events:
        assert told.tell(event) == given.APPLIED
    after = fields_of(told)
    return {name: (before[name], after[name]) for name in after if before[name] != after[name]}


def fields_of(told: given.Told) -> dict[str, object]:
    (task,) = json.loads(dump(told.stream))["tasks"].values()
    place, attempt = task.pop("place") or {}, task.pop("attempts")[-1]
    return {**task, **{f"attempt.{name}": each for name, each in attempt.items()}, **place}


def test_an_attempt_goes_to_the_incarnation_that_adopts_it_and_nothing_else_of_it_changes() -> None:
    told = given.task_active()
    told.tell(given.status(TaskStatus.TRAINING), given.report(0, 0.5))
    told.tell(given.interrupted(1))
    told.tell(TaskStopRequested(task_id=told.task().task_id, reason="user"))
    changed = changed_by(told, given.adopted())
    assert changed.pop("changed_at")
    assert changed == {
        "incarnation": ("i-1", "i-2"),
        "attempt.incarnations": (["i-1"], ["i-1", "i-2"]),
    }


def test_from_then_on_only_the_new_incarnation_is_believed() -> None:
    told = given.task_active()
    assert told.each(given.adopted(), given.status(TaskStatus.TRAINING)) == given.APPLIED + given.OVERTAKEN
    assert told.tell(given.ended(AttemptEnd.LOST), role="scheduler") == given.OVERTAKEN
    assert told.tell(given.status(TaskStatus.TRAINING, incarnation="i-2")) == given.APPLIED
    assert told.tell(given.ended(incarnation="i-2")) == given.APPLIED
    assert told.task().attempt.incarnations == ("i-1", "i-2")


def test_a_placement_whose_acceptance_was_not_in_the_log_is_active_once_it_is_adopted() -> None:
    told = given.task_queued()
    told.tell(given.assigned())
    assert told.tell(given.adopted()) == given.APPLIED
    task = told.task()
    assert (task.state, task.attempt.accepted_ms) == (TaskState.ACTIVE, told.now_ms - 1)
    assert told.each(given.begun(), given.begun(incarnation="i-2")) == given.OVERTAKEN + given.DUPLICATE


def test_an_attempt_is_adopted_again_and_again_and_an_adoption_that_is_not_in_the_log_is_not_missed() -> None:
    told, again = given.task_active(), given.adopted(incarnation="i-3", earlier=("i-1", "i-2"))
    assert told.tell(given.adopted(), role="scheduler") == given.OVERTAKEN, "no other role says that"
    assert told.tell(given.adopted(incarnation="i-2")) == told.tell(again) == given.APPLIED
    assert told.task().attempt.incarnations == ("i-1", "i-2", "i-3")
    assert told.tell(again) == given.DUPLICATE
    shown = task_fields(told.task(), ())["attempts"][-1]
    assert (shown["started_by"], shown["adopted_by"]) == ("i-1", ["i-2", "i-3"])
    told = given.task_active()
    assert told.tell(again) == given.APPLIED
    assert told.tell(given.adopted(incarnation="i-2", earlier=("i-1",))) == given.OVERTAKEN, (
        "it comes too late"
    )
    assert told.task().attempt.incarnations == ("i-1", "i-3")


def test_only_the_worker_that_has_a_placement_adopts_it() -> None:
    places: list[dict[str, Any]] = [{"worker": "w2"}, {"placement": 2}, {"attempt": 2}]
    for which in (*places, {"earlier": ()}, {"earlier": ("i-0",)}):
        told = given.task_active()
        assert told.tell(given.adopted(**which)) == given.OVERTAKEN, which
        assert told.task().attempt.incarnations == ("i-1",)


def test_nothing_is_adopted_that_has_ended_or_waits() -> None:
    told = given.task_active()
    told.tell(given.ended(AttemptEnd.LOST), role="scheduler")
    assert told.tell(given.adopted()) == given.OVERTAKEN, "it was lost first"
    assert told.tell(given.adopted(attempt=2, placement=0)) == given.OVERTAKEN
    told.tell(given.assigned(attempt=2, incarnation="i-2"))
    assert told.task().attempt.incarnations == ("i-2",)
    refused = TaskRefused(**given.token(attempt=2, incarnation="i-2"), code="busy", message="")
    assert told.tell(refused) == given.APPLIED
    assert told.tell(given.adopted(attempt=2, incarnation="i-3", earlier=("i-2",))) == given.OVERTAKEN
    assert (
        told.tell(given.assigned(attempt=2, placement=2), given.begun(attempt=2, placement=2))
        == given.APPLIED * 2
    )
    assert told.tell(given.ended(attempt=2, placement=2)) == given.APPLIED
    assert told.tell(given.adopted(attempt=2, placement=2)) == given.OVERTAKEN, "the task has ended"
