"""A search as the child of a batch, over Kafka and Postgres; the test plays scheduler and worker."""

import pytest

from tests.integration.dispatcher.harness import Publisher, RunningDispatcher, valid_search
from tests.integration.projections.harness import query
from tests.polling import poll_until
from trackside.aggregates.batch.messages import BatchEnded, BatchStatus, GroupEnded, StopTasks, SubmitTasks
from trackside.aggregates.search.messages import SearchEnded, TrialSuggested
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Json
from trackside.contracts.streams.children import ChildEnded, ChildRequested
from trackside.contracts.streams.commands import CommandReceived, Source
from trackside.domain.proposal import cause_of

CHILD_ROW = """
SELECT children.kind, children.status,
    groups.started_at = children.requested_at AND groups.ended_at = children.ended_at
FROM dashboards.children
JOIN dashboards.groups ON groups.batch_id = children.stream_id AND groups.group_number = 1
WHERE children.stream_id = $1
"""
"""The kind and status of a child, and whether its group has its start and end."""


def batch(**changed: object) -> Json:
    """Returns a batch: a task and a search of one trial, then another task."""
    child = {"name": "lr", "kind": "search", "spec": {**valid_search(), **changed}}
    task = {"name": "only", "task_type": "noop"}
    return {"groups": [{"tasks": [task], "children": [child]}, {"tasks": [task]}]}


async def test_stopping_a_batch_stops_its_child(publisher: Publisher) -> None:
    stream = new_id("b")
    child = f"{stream}.1.lr"
    await publisher.accepted(batch(), SubmitTasks, stream)
    await publisher.submitted(f"{child}.0")
    await publisher.accepted({}, StopTasks, stream)
    end = await publisher.event(stream, ChildEnded)
    assert (end.child_id, end.status) == (child, "STOPPED")
    assert await publisher.event(stream, BatchEnded) == BatchEnded(status=BatchStatus.STOPPED)


@pytest.mark.timeout(180)
async def test_a_batch_goes_on_with_its_child_when_the_dispatcher_is_killed_in_between(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    stream = new_id("b")
    child = f"{stream}.1.lr"
    await publisher.accepted(batch(), SubmitTasks, stream)
    await publisher.event(child, TrialSuggested)
    dispatcher.service.kill()
    await publisher.submitted(f"{stream}.1.only")
    await publisher.finish(child, f"{child}.0")
    await publisher.finish(stream, f"{stream}.1.only")
    dispatcher.service.start()
    end = await publisher.event(stream, ChildEnded)
    assert (end.child_id, end.status, end.result["trials"]) == (child, "DONE", 1)
    over = await publisher.event(stream, GroupEnded)
    assert over == GroupEnded(group=0, ends={"done": 1, "finished": 1})
    await publisher.submitted(f"{stream}.2.only")
    await publisher.finish(stream, f"{stream}.2.only")
    assert await publisher.event(stream, BatchEnded) == BatchEnded(status=BatchStatus.DONE)
    _check_log(publisher, stream, child)

    async def has_row() -> bool:
        return await query(dispatcher.settings.postgres_dsn, CHILD_ROW, stream) == [("search", "DONE", True)]

    await poll_until(has_row)


def _check_log(publisher: Publisher, stream: str, child: str) -> None:
    """Checks that the child was begun once, and that the causes lead from one stream to the other."""
    [begun] = publisher.of(child, CommandReceived)
    [requested] = publisher.of(stream, ChildRequested)
    [ended] = publisher.of(stream, ChildEnded)
    [over] = publisher.of(child, SearchEnded)
    assert begun.envelope.causation_id == cause_of(stream, requested.offset)
    assert isinstance(begun.message, CommandReceived)
    place = Source(topic=requested.topic, partition=requested.partition, offset=requested.offset)
    assert begun.message.source == place
    assert ended.envelope.causation_id == cause_of(child, over.offset)
