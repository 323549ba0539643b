"""A search as the child of a batch, over Kafka and Postgres; the test plays scheduler and worker."""

from collections.abc import Callable

import asyncpg
import pytest

from tests.integration.dispatcher.harness import Publisher, RunningDispatcher, valid_search
from tests.integration.dispatcher.test_batches import finish
from tests.polling import poll_until
from trackside.aggregates.batch.messages import BatchEnded, BatchStatus, GroupEnded, StopTasks, SubmitTasks
from trackside.aggregates.search.messages import SearchEnded, TrialSuggested
from trackside.contracts.children import ChildEnded, ChildRequested
from trackside.contracts.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.ids import new_id
from trackside.contracts.message import Json, Message, Record
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain.proposal import cause_of

SUBMIT, STOP = SubmitTasks.wire_type(), StopTasks.wire_type()


def batch(**changed: object) -> Json:
    """Returns a batch: a task and a search of one trial, then another task."""
    child = {"name": "lr", "kind": "search", "spec": {**valid_search(), **changed}}
    task = {"name": "only", "task_type": "noop"}
    return {"groups": [{"tasks": [task], "children": [child]}, {"tasks": [task]}]}


async def until(publisher: Publisher, stream: str, kind: type[Message]) -> Message:
    """Waits for the first event of a type in a stream."""
    return (
        await publisher.until(
            lambda record: record.envelope.stream == stream and isinstance(record.message, kind)
        )
    ).message


def submitted(task_id: str) -> Callable[..., bool]:
    return lambda record: isinstance(record.message, TaskSubmitted) and record.message.task_id == task_id


async def child_row(dsn: str, stream: str) -> tuple[str, str, bool] | None:
    """Returns the kind and status of a child, and whether its group has its start and end."""
    connection = await asyncpg.connect(dsn)
    try:
        row = await connection.fetchrow(
            "SELECT children.kind, children.status, groups.started_at = children.requested_at "
            "AND groups.ended_at = children.ended_at AS spans FROM dashboards.children "
            "JOIN dashboards.groups ON groups.batch_id = children.stream_id AND groups.group_number = 1 "
            "WHERE children.stream_id = $1",
            stream,
        )
        return None if row is None else (row["kind"], row["status"], row["spans"])
    finally:
        await connection.close()


async def test_a_child_that_is_wrong_is_refused_with_its_batch(publisher: Publisher) -> None:
    answer = await publisher.say(batch(task_type="nothing"), SUBMIT, new_id("b"))
    assert isinstance(answer, CommandRefused)
    assert (answer.code, answer.path) == ("unknown_task_type", "$.groups[0].children[0].spec.task_type")


async def test_stopping_a_batch_stops_its_child(publisher: Publisher) -> None:
    stream = new_id("b")
    child = f"{stream}.1.lr"
    assert isinstance(await publisher.say(batch(), SUBMIT, stream), CommandAccepted)
    await publisher.until(submitted(f"{child}.0"))
    assert isinstance(await publisher.say({}, STOP, stream), CommandAccepted)
    end = await until(publisher, stream, ChildEnded)
    assert isinstance(end, ChildEnded)
    assert (end.child_id, end.status) == (child, "STOPPED")
    over = await until(publisher, stream, BatchEnded)
    assert over == BatchEnded(status=BatchStatus.STOPPED)


@pytest.mark.timeout(180)
async def test_a_batch_goes_on_with_its_child_when_the_dispatcher_is_killed_in_between(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    stream = new_id("b")
    child = f"{stream}.1.lr"
    assert isinstance(await publisher.say(batch(), SUBMIT, stream), CommandAccepted)
    await until(publisher, child, TrialSuggested)
    dispatcher.service.kill()
    await publisher.until(submitted(f"{stream}.1.only"))
    await finish(dispatcher, child, f"{child}.0")
    await finish(dispatcher, stream, f"{stream}.1.only")
    dispatcher.service.start()
    end = await until(publisher, stream, ChildEnded)
    assert isinstance(end, ChildEnded)
    assert (end.child_id, end.status, end.result["trials"]) == (child, "DONE", 1)
    over = await until(publisher, stream, GroupEnded)
    assert over == GroupEnded(group=0, ends={"done": 1, "finished": 1})
    await publisher.until(submitted(f"{stream}.2.only"))
    await finish(dispatcher, stream, f"{stream}.2.only")
    assert await until(publisher, stream, BatchEnded) == BatchEnded(status=BatchStatus.DONE)
    _check_log(publisher, stream, child)

    async def has_row() -> bool:
        return await child_row(dispatcher.settings.postgres_dsn, stream) == ("search", "DONE", True)

    await poll_until(has_row)


def _check_log(publisher: Publisher, stream: str, child: str) -> None:
    """Checks that the child was begun once, and that the causes lead from one stream to the other."""
    [begun] = of_type(publisher, child, CommandReceived)
    [requested] = of_type(publisher, stream, ChildRequested)
    [ended] = of_type(publisher, stream, ChildEnded)
    [over] = of_type(publisher, child, SearchEnded)
    assert begun.envelope.causation_id == cause_of(stream, requested.offset)
    assert isinstance(begun.message, CommandReceived)
    place = Source(topic=requested.topic, partition=requested.partition, offset=requested.offset)
    assert begun.message.source == place
    assert ended.envelope.causation_id == cause_of(child, over.offset)


def of_type(publisher: Publisher, stream: str, kind: type[Message]) -> list[Record]:
    """Returns the events of a type in a stream."""
    return [
        record
        for record in publisher.records
        if record.envelope.stream == stream and isinstance(record.message, kind)
    ]
