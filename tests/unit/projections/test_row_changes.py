from tests.unit.domain.given import STREAM, task_active
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.topics import Topics
from trackside.domain.streams import Streams
from trackside.projections.owners import OWNERS, SCHEDULER
from trackside.projections.row_changes import RowChanges

TOPICS = Topics()


def test_changes_that_turn_out_too_many_when_they_are_taken_are_not_taken_for_written() -> None:
    streams, changes = Streams(AGGREGATES), RowChanges(OWNERS[SCHEDULER], TOPICS, most_pending=0)
    records = task_active().records
    place = (TOPICS.events.name, records[0].partition)
    changes.start({place: 0})
    for record in records:
        stream, outcome = streams.fold(record)
        changes.note(stream, outcome, record)
    assert STREAM in streams.by_id and changes.noting
    assert changes.take({place: len(records)}) == {}
    assert not changes.noting
    assert changes.bases == {place: 0}
