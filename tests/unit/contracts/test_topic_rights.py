import pytest

from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import (
    ADMIN,
    PRINCIPALS,
    USES,
    AclOperation,
    ResourceKind,
    Right,
    rights,
    rights_of,
)

TOPICS = Topics(prefix="lab.")


def test_each_topic_and_each_principal_of_an_installation_is_in_the_table() -> None:
    used = [getattr(TOPICS, use.topic).name for use in USES]
    assert sorted(used) == sorted(topic.name for topic in TOPICS.shared)
    assert all(rights_of(principal, TOPICS) for principal in (*PRINCIPALS, "worker-gpu-1"))


def test_only_those_that_write_events_of_their_own_may_write_to_the_log() -> None:
    of_writes = [right for right in rights(TOPICS, ["gpu-1"]) if right.operation is AclOperation.WRITE]
    writers = {each.principal for each in of_writes if TOPICS.events.name.startswith(each.name)}
    assert writers == {"dispatcher", "scheduler", "summary-indexer", "worker-gpu-1", ADMIN}


def test_a_worker_has_no_right_to_the_device_topics_of_another() -> None:
    held = rights_of("worker-gpu-1", TOPICS)
    mine, other = TOPICS.device("gpu-1", "cpu").name, TOPICS.device("gpu-10", "cpu").name
    assert any(right.prefixed and mine.startswith(right.name) for right in held)
    assert not any(right.prefixed and other.startswith(right.name) for right in held)
    assert not any(right.name == other for right in held)


@pytest.mark.parametrize("worker_id", ["gpu.1", "", "a/b", "*"])
def test_a_worker_that_no_prefix_can_hold_gets_no_rights(worker_id: str) -> None:
    with pytest.raises(ValueError, match="can't have rights of its own"):
        rights(TOPICS, [worker_id])


def test_only_the_set_up_has_rights_to_more_than_it_uses() -> None:
    found = rights(TOPICS, ["gpu-1"], receipts=["lab.answers"])
    assert all(right.name.startswith("lab.") for right in found if right.kind is not ResourceKind.CLUSTER)
    assert {right.principal for right in found if right.kind is ResourceKind.CLUSTER} == {ADMIN}
    assert {right.principal for right in found if right.name == TOPICS.every_prefix} == {ADMIN}
    assert len(set(found)) == len(found) and list(found) == sorted(found)


def test_receipts_are_written_by_the_dispatcher_and_read_by_publishers() -> None:
    added = set(rights(TOPICS, receipts=["lab.answers"])) - set(rights(TOPICS))
    topic = (ResourceKind.TOPIC, "lab.answers", False)
    write, read = (AclOperation.WRITE, AclOperation.READ)
    assert added == {Right("dispatcher", *topic, write), Right("publisher", *topic, read)}
