from itertools import chain

from tests.unit.replay.given import TOPICS
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES, MAX_COMMAND_BYTES
from trackside.eventlog.log import Entry
from trackside.replay.transfer.restore import BATCH_RECORDS, batch_limit, batches_of


def entry(offset: int, partition: int = 0, size: int = 10, topic: str = "t") -> Entry:
    return Entry(topic, partition, offset, 1, b"k", b"v" * size, [("h", b"1"), ("n", None)])


def test_a_request_has_records_of_one_partition_without_a_gap_that_the_topic_takes_at_once() -> None:
    entries = [
        *(entry(offset) for offset in range(3)),
        *(entry(offset) for offset in range(5, 7)),
        entry(7, partition=1),
        entry(8, partition=1, size=5_000),
        entry(9, partition=1),
        entry(10, partition=1, topic="u"),
    ]
    batches = list(batches_of(entries, {"t": 1_000.0, "u": 1_000.0}))
    assert [len(batch) for batch in batches] == [3, 2, 1, 1, 1, 1]
    assert list(chain(*batches)) == entries
    many = [entry(offset) for offset in range(BATCH_RECORDS + 1)]
    assert [len(batch) for batch in batches_of(many, {"t": 1e9})] == [BATCH_RECORDS, 1]
    assert list(batches_of([], {})) == []


def test_a_request_is_smaller_than_what_its_topic_takes() -> None:
    assert batch_limit(TOPICS.commands) < MAX_COMMAND_BYTES
    assert batch_limit(TOPICS.commands) < batch_limit(TOPICS.events) < MAX_BATCH_BYTES
