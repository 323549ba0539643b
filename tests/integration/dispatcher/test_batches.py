"""Tasks submitted on their own, by a running dispatcher over Kafka; the test plays scheduler and worker."""

import pytest

from tests.integration.dispatcher.harness import Publisher, RunningDispatcher
from trackside.aggregates.batch.messages import (
    MAX_TASKS,
    BatchEnded,
    BatchStatus,
    GroupEnded,
    StopTasks,
    SubmitTasks,
)
from trackside.contracts.commands import CommandAccepted, CommandRefused
from trackside.contracts.ids import new_id
from trackside.contracts.message import Json, Message, Record
from trackside.contracts.parts import number_of
from trackside.contracts.tasks import AttemptEnded, TaskAccepted, TaskAssigned, TaskSubmitted
from trackside.contracts.topics import partition_of
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.record_writer import RecordWriter

SUBMIT, STOP = SubmitTasks.wire_type(), StopTasks.wire_type()


def batch(*sizes: int) -> Json:
    return {"groups": [{"tasks": [{"task_type": "noop"}] * size} for size in sizes]}


async def finish(dispatcher: RunningDispatcher, stream: str, task_id: str) -> None:
    """Tells a task's life as its scheduler and its worker would."""
    token = {"task_id": task_id, "attempt": 1, "placement": 1, "incarnation": "i-1"}
    placed = {"worker_id": "w1", "device_ids": ["cpu-0"], "seen": 0}
    life = [
        ("scheduler", TaskAssigned.model_validate({**token, **placed})),
        ("worker", TaskAccepted.model_validate(token)),
        ("worker", AttemptEnded.model_validate({**token, "end": "finished"})),
    ]
    events = dispatcher.topics.events
    records = [RecordWriter(role, "t").single(stream, event) for role, event in life]
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "test") as log:
        await log.append(events.name, partition_of(stream, events.partitions), records)


def group_of(message: Message) -> int | None:
    """Gives the number of the group that an event names, or whose task it submits; -1 if it names none."""
    if isinstance(message, TaskSubmitted):
        return number_of(message.part, "group")
    return getattr(message, "group", -1)


async def test_t20_the_second_group_waits_for_the_end_of_the_first(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    stream = new_id("b")

    def of_stream(kind: type, group: int = -1) -> list[Record]:
        return [
            record
            for record in publisher.records
            if record.envelope.stream == stream
            and isinstance(record.message, kind)
            and group_of(record.message) == group
        ]

    assert isinstance(await publisher.say(batch(2, 1), SUBMIT, stream), CommandAccepted)
    await publisher.until(lambda _: len(of_stream(TaskSubmitted, 0)) == 2)
    await finish(dispatcher, stream, f"{stream}.1.2")
    await finish(dispatcher, stream, f"{stream}.1.1")
    await publisher.until(lambda _: len(of_stream(TaskSubmitted, 1)) == 1)
    [over], [next_one] = of_stream(GroupEnded, 0), of_stream(TaskSubmitted, 1)
    assert over.offset < next_one.offset
    await finish(dispatcher, stream, f"{stream}.2.1")
    await publisher.until(lambda _: len(of_stream(BatchEnded)) == 1)
    [end] = of_stream(BatchEnded)
    assert isinstance(end.message, BatchEnded) and end.message.status is BatchStatus.DONE


@pytest.mark.timeout(300)
async def test_ten_thousand_tasks_in_one_command_are_submitted_and_stopped(publisher: Publisher) -> None:
    stream = new_id("b")

    def ended(record: Record) -> bool:
        return record.envelope.stream == stream and isinstance(record.message, BatchEnded)

    def last(record: Record) -> bool:
        message = record.message
        return isinstance(message, TaskSubmitted) and message.task_id == f"{stream}.1.{MAX_TASKS}"

    assert isinstance(await publisher.say(batch(MAX_TASKS), SUBMIT, stream), CommandAccepted)
    await publisher.until(last, timeout_s=120)
    assert isinstance(await publisher.say({}, STOP, stream), CommandAccepted)
    record = await publisher.until(ended, timeout_s=120)
    assert isinstance(record.message, BatchEnded) and record.message.status is BatchStatus.STOPPED


async def test_a_batch_that_asks_for_what_nobody_has_is_refused(publisher: Publisher) -> None:
    wanted = {"groups": [{"tasks": [{"task_type": "noop"}], "device": "gpu-3"}]}
    answer = await publisher.say(wanted, SUBMIT, new_id("b"))
    assert isinstance(answer, CommandRefused)
    assert (answer.code, answer.path) == ("unknown_device", "$.groups[0].device")
    assert answer.message.endswith("there are: w1/cpu-0")
