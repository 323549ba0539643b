"""A new incarnation of a worker takes over the attempts that outlived the earlier one."""

import json
from typing import Any

import pytest

from tests.unit.domain.given import (
    APPLIED,
    DUPLICATE,
    OVERTAKEN,
    Told,
    adopted,
    assigned,
    begun,
    ended,
    interrupted,
    report,
    status,
    task_active,
    task_queued,
    token,
)
from trackside.contracts.tasks import AttemptEnd, TaskRefused, TaskStatus, TaskStopRequested
from trackside.domain.display.task_state import task_fields
from trackside.domain.streams import dump
from trackside.domain.task import TaskState


def changed_by(told: Told, *events: Any) -> dict[str, tuple[object, object]]:
    """Folds events that count; returns what of the task is another than before, with both values."""
    before = fields_of(told)
    for event in events:
        assert told.tell(event) == APPLIED
    after = fields_of(told)
    return {name: (before[name], after[name]) for name in after if before[name] != after[name]}


def fields_of(told: Told) -> dict[str, object]:
    """Returns the fields of the task, those of its attempt and of its place among them."""
    (task,) = json.loads(dump(told.stream))["tasks"].values()
    place, attempt = task.pop("place") or {}, task.pop("attempts")[-1]
    return {**task, **{f"attempt.{name}": each for name, each in attempt.items()}, **place}


def test_an_attempt_goes_to_the_incarnation_that_adopts_it_and_nothing_else_of_it_changes() -> None:
    told = task_active()
    told.tell(status(TaskStatus.TRAINING), report(0, 0.5))
    told.tell(interrupted(1))
    told.tell(TaskStopRequested(task_id=told.task().task_id, reason="user"))
    changed = changed_by(told, adopted())
    assert changed.pop("changed_at")
    assert changed == {
        "incarnation": ("i-1", "i-2"),
        "attempt.incarnations": (["i-1"], ["i-1", "i-2"]),
    }


def test_from_then_on_only_the_new_incarnation_is_believed() -> None:
    told = task_active()
    assert told.tell(adopted()) == APPLIED
    assert told.tell(status(TaskStatus.TRAINING)) == OVERTAKEN
    assert told.tell(ended(AttemptEnd.LOST), role="scheduler") == OVERTAKEN
    assert told.tell(status(TaskStatus.TRAINING, incarnation="i-2")) == APPLIED
    assert told.tell(ended(incarnation="i-2")) == APPLIED
    assert told.task().attempt.incarnations == ("i-1", "i-2")


def test_a_placement_whose_acceptance_was_not_in_the_log_is_active_once_it_is_adopted() -> None:
    told = task_queued()
    told.tell(assigned())
    assert told.tell(adopted()) == APPLIED
    task = told.task()
    assert (task.state, task.attempt.accepted_ms) == (TaskState.ACTIVE, told.now_ms - 1)
    assert told.tell(begun()) == OVERTAKEN
    assert told.tell(begun(incarnation="i-2")) == DUPLICATE


def test_an_attempt_is_adopted_again_and_again_and_an_adoption_that_is_not_in_the_log_is_not_missed() -> None:
    told, again = task_active(), adopted(incarnation="i-3", earlier=("i-1", "i-2"))
    assert told.tell(adopted(), role="scheduler") == OVERTAKEN, "no other role says that"
    assert told.tell(adopted(incarnation="i-2")) == told.tell(again) == APPLIED
    assert told.task().attempt.incarnations == ("i-1", "i-2", "i-3")
    assert told.tell(again) == DUPLICATE
    shown = task_fields(told.task(), ())["attempts"][-1]
    assert (shown["started_by"], shown["adopted_by"]) == ("i-1", ["i-2", "i-3"])
    told = task_active()
    assert told.tell(again) == APPLIED
    assert told.tell(adopted(incarnation="i-2", earlier=("i-1",))) == OVERTAKEN, "it comes too late"
    assert told.task().attempt.incarnations == ("i-1", "i-3")


@pytest.mark.parametrize(
    "wrong",
    [
        adopted(worker="w2"),
        adopted(placement=2),
        adopted(attempt=2),
        adopted(earlier=()),
        adopted(earlier=("i-0",)),
    ],
    ids=["worker", "placement", "attempt", "nothing_earlier", "others_earlier"],
)
def test_only_the_worker_that_has_a_placement_adopts_it(wrong: Any) -> None:
    told = task_active()
    assert told.tell(wrong) == OVERTAKEN
    assert told.task().attempt.incarnations == ("i-1",)


def test_nothing_is_adopted_that_has_ended_or_waits() -> None:
    told = task_active()
    told.tell(ended(AttemptEnd.LOST), role="scheduler")
    assert told.tell(adopted()) == OVERTAKEN, "it was lost first"
    assert told.tell(adopted(attempt=2, placement=0)) == OVERTAKEN
    told.tell(assigned(attempt=2, incarnation="i-2"))
    assert told.task().attempt.incarnations == ("i-2",)
    refused = TaskRefused(**token(attempt=2, incarnation="i-2"), code="busy", message="")
    assert told.tell(refused) == APPLIED
    assert told.tell(adopted(attempt=2, incarnation="i-3", earlier=("i-2",))) == OVERTAKEN
    assert told.tell(assigned(attempt=2, placement=2), begun(attempt=2, placement=2)) == APPLIED * 2
    assert told.tell(ended(attempt=2, placement=2)) == APPLIED
    assert told.tell(adopted(attempt=2, placement=2)) == OVERTAKEN, "the task has ended"
