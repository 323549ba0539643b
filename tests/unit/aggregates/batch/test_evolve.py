"""T20: groups of tasks run one after another; what is out of turn has no effect."""

from typing import Any

from tests.unit.aggregates.batch.test_decide import batch
from tests.unit.domain.given import STREAM, Told, accepted, assigned, begun, ended, received, submitted
from trackside.aggregates.batch import messages
from trackside.contracts.envelope.ids import batch_task_id
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested, TaskSubmitted
from trackside.domain.folding.streams import dump
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import shrink

APPLIED, DUPLICATE, OVERTAKEN = [Outcome.APPLIED], [Outcome.DUPLICATE], [Outcome.OVERTAKEN]


def running(*sizes: int, **changed: Any) -> Told:
    groups = [{"tasks": [{"task_type": "digits"}] * size} for size in sizes]
    told = Told()
    told.tell(received())
    spec = messages.BatchSpec.model_validate({"groups": groups, **changed})
    told.tell(accepted(), messages.BatchStarted(command_id="c-1", batch=spec))
    return told


def task(group: int, number: int) -> TaskSubmitted:
    return submitted(
        None, task_id=name(group, number), part=Part(kind="group", number=group, name=str(number))
    )


def name(group: int, number: int) -> str:
    return batch_task_id(STREAM, group, str(number))


def finish(told: Told, group: int, number: int, end: AttemptEnd = AttemptEnd.FINISHED) -> None:
    life: list[Message] = [assigned(), begun(), ended(end)]
    for event in life:
        assert told.tell(event.model_copy(update={"task_id": name(group, number)})) == APPLIED


def test_a_batch_is_written_the_same_whatever_became_of_the_set_that_holds_its_tasks() -> None:
    told = running(64, concurrency=64)
    names = [name(0, number) for number in range(1, 65)]
    for number in range(1, 65):
        told.tell(task(0, number))
    filled = dump(told.stream)
    batch(told).open = set()
    for one in reversed(names):
        batch(told).open.add(one)
    assert dump(told.stream) == filled


def test_t20_a_group_begins_when_the_one_before_it_is_over() -> None:
    told = running(2, 1)
    assert told.tell(task(1, 1)) == OVERTAKEN
    assert told.tell(task(0, 1)) == told.tell(task(0, 2)) == APPLIED
    finish(told, 0, 2, AttemptEnd.FAILED)
    assert told.tell(messages.GroupEnded(group=0, ends={})) == OVERTAKEN
    finish(told, 0, 1)
    assert told.tell(task(1, 1)) == OVERTAKEN
    assert told.tell(messages.GroupEnded(group=0, ends={"finished": 1, "failed": 1})) == APPLIED
    assert told.tell(messages.GroupEnded(group=0, ends={})) == DUPLICATE
    assert (batch(told).ended, told.tell(task(1, 1))) == ([{"failed": 1, "finished": 1}], APPLIED)
    finish(told, 1, 1)
    assert told.tell(messages.GroupEnded(group=1, ends={"finished": 1})) == APPLIED
    assert told.tell(messages.BatchEnded(status=messages.BatchStatus.STOPPED)) == OVERTAKEN
    assert told.tell(messages.BatchEnded(status=messages.BatchStatus.DONE)) == APPLIED
    assert told.stream.closed
    shrink(told.stream)
    assert told.tell(messages.BatchEnded(status=messages.BatchStatus.DONE)) == OVERTAKEN


def test_only_the_next_task_has_an_effect_and_no_more_than_the_batch_allows() -> None:
    told = running(3, concurrency=2)
    changes: list[dict[str, Any]] = [{"task_id": "digits-1.1.9"}]
    parts = (Part(kind="group", number=1, name="1"), Part(kind="trial", number=0), None)
    changes.extend({"part": part} for part in parts)
    for changed in changes:
        assert told.tell(task(0, 1).model_copy(update=changed)) == OVERTAKEN
    assert told.tell(task(0, 1)) == told.tell(task(0, 2)) == APPLIED
    assert told.tell(task(0, 3)) == OVERTAKEN
    finish(told, 0, 1)
    assert told.tell(task(0, 3)) == APPLIED


def test_a_stopped_batch_submits_nothing_and_ends_when_its_open_tasks_have() -> None:
    told = running(3, 1)
    told.tell(task(0, 1))
    stop = messages.BatchStopRequested(command_id="c-2", reason="")
    assert told.each(stop, stop, task(0, 2)) == APPLIED + DUPLICATE + OVERTAKEN
    assert told.tell(messages.BatchEnded(status=messages.BatchStatus.STOPPED)) == OVERTAKEN
    assert told.tell(TaskStopRequested(task_id=name(0, 1), reason="user")) == APPLIED
    assert batch(told).ends == {"cancelled": 1}
    assert told.tell(messages.BatchEnded(status=messages.BatchStatus.STOPPED)) == APPLIED
