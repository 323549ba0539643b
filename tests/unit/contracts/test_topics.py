from aiokafka.partitioner import DefaultPartitioner
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.contracts.envelope.topics import (
    DAY_MS,
    HOUR_MS,
    MAX_BATCH_BYTES,
    MAX_COMMAND_BYTES,
    MAX_RECORD_BYTES,
    Topics,
    partition_of,
)

PARTITIONS = (1, 4, 12, 50)


@settings(max_examples=200)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(PARTITIONS))
def test_a_key_has_the_partition_that_the_kafka_client_gives_it(key: str, partitions: int) -> None:
    everything = list(range(partitions))
    expected = DefaultPartitioner()(key.encode(), everything, everything)
    assert partition_of(key, partitions) == expected


def test_the_hash_is_that_of_kafka_s_own_tests() -> None:
    hashes = {"21": -973932308, "foobar": -790332482, "abc": 479470107}
    hashes["a-little-bit-long-string"] = -985981536
    for key, hashed in hashes.items():
        assert partition_of(key, 2**31) == hashed & 0x7FFFFFFF


def test_a_prefix_is_put_before_every_topic() -> None:
    topics = Topics("team-a.")
    names = [topic.name for topic in (*topics.shared, topics.device("w", "cpu-0"))]
    assert all(name.startswith("team-a.trackside.") for name in names)
    assert len(set(names)) == len(names)
    assert topics.device("w", "cpu-0").name == "team-a.trackside.device.w.cpu-0"


def test_what_is_the_truth_is_kept_for_ever_and_timed_by_the_log() -> None:
    topics = Topics()
    for topic in (topics.events, topics.fleet, topics.imports):
        assert topic.settings["retention.ms"] == topic.settings["retention.bytes"] == "-1"
        assert topic.settings["cleanup.policy"] == "delete"
        assert topic.settings["message.timestamp.type"] == "LogAppendTime"
        assert topic.created_settings == topic.settings
    assert topics.metrics.created_settings == topics.metrics.settings
    assert topics.heartbeats.settings["message.timestamp.type"] == "LogAppendTime"
    assert topics.commands.retention_ms == 7 * DAY_MS
    assert topics.dead_letters.retention_ms == 30 * DAY_MS
    assert topics.heartbeats.created_settings["segment.ms"] == str(HOUR_MS // 4)
    assert topics.device("w", "cpu-0").created_settings["segment.ms"] == str(DAY_MS // 4)
    assert topics.dead_letters.created_settings["segment.ms"] == str(7 * DAY_MS)
    assert topics.commands.settings["max.message.bytes"] == str(MAX_COMMAND_BYTES)
    assert MAX_COMMAND_BYTES < MAX_BATCH_BYTES < MAX_RECORD_BYTES
    assert all(int(topic.settings["max.message.bytes"]) <= MAX_RECORD_BYTES for topic in topics.shared)
