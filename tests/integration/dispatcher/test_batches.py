"""Tasks submitted on their own, by a running dispatcher over Kafka; the test plays scheduler and worker."""

import pytest

from tests.integration.dispatcher.harness import Publisher
from trackside.aggregates.batch.messages import (
    MAX_TASKS,
    BatchEnded,
    BatchStatus,
    GroupEnded,
    StopTasks,
    SubmitTasks,
)
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Json, Message, Record
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.tasks.tasks import TaskSubmitted


def batch(*sizes: int) -> Json:
    return {"groups": [{"tasks": [{"task_type": "noop"}] * size} for size in sizes]}


def group_of(message: Message) -> int | None:
    """Returns the number of the group that an event names, or whose task it submits; -1 if it names none."""
    if isinstance(message, TaskSubmitted):
        return number_of(message.part, "group")
    return getattr(message, "group", -1)


async def test_t20_the_second_group_waits_for_the_end_of_the_first(publisher: Publisher) -> None:
    stream = new_id("b")

    def of_group(kind: type[Message], group: int) -> list[Record]:
        return [each for each in publisher.of(stream, kind) if group_of(each.message) == group]

    await publisher.accepted(batch(2, 1), SubmitTasks, stream)
    await publisher.until(lambda _: len(of_group(TaskSubmitted, 0)) == 2)
    await publisher.finish(stream, f"{stream}.1.2")
    await publisher.finish(stream, f"{stream}.1.1")
    await publisher.until(lambda _: len(of_group(TaskSubmitted, 1)) == 1)
    [over], [next_one] = of_group(GroupEnded, 0), of_group(TaskSubmitted, 1)
    assert over.offset < next_one.offset
    await publisher.finish(stream, f"{stream}.2.1")
    assert (await publisher.event(stream, BatchEnded)).status is BatchStatus.DONE


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_ten_thousand_tasks_in_one_command_are_submitted_and_stopped(publisher: Publisher) -> None:
    stream = new_id("b")

    def last(record: Record) -> bool:
        message = record.message
        return isinstance(message, TaskSubmitted) and message.task_id == f"{stream}.1.{MAX_TASKS}"

    def ended(record: Record) -> bool:
        return record.envelope.stream == stream and isinstance(record.message, BatchEnded)

    await publisher.accepted(batch(MAX_TASKS), SubmitTasks, stream)
    await publisher.until(last, timeout_s=120)
    await publisher.accepted({}, StopTasks, stream)
    record = await publisher.until(ended, timeout_s=120)
    assert isinstance(record.message, BatchEnded) and record.message.status is BatchStatus.STOPPED
