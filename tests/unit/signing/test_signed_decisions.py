"""Where signatures are required, events count that are signed with a key of whoever may write them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.unit.signing.given import (
    KEYS,
    STREAM,
    TOPIC,
    SignedPartition,
    beginning,
    decoded,
    received,
    requiring,
    trusted,
    with_header,
)
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.keys import KeyRevoked, keys_stream
from trackside.contracts.tasks.tasks import TaskAccepted, TaskAssigned, TaskSubmitted
from trackside.contracts.trust.decision_signing import CHAIN, KEY_ID, SIGNATURE
from trackside.domain.folding.fold import fold
from trackside.domain.folding.streams import Streams, dump, load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decision_signer import new_signer
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Outgoing

APPLIED, DUPLICATE, OVERTAKEN = Outcome.APPLIED, Outcome.DUPLICATE, Outcome.OVERTAKEN


def unsigned(messages: Sequence[Message]) -> list[Outgoing]:
    return list(RecordWriter("dispatcher", "1").decision(STREAM, messages))


def begun() -> SignedPartition:
    """Returns a partition that requires signatures, with a stream that has received a command."""
    log = requiring()
    assert log.decide(received()) == [APPLIED]
    return log


@pytest.mark.parametrize("knows_a_key", [False, True])
def test_signatures_are_not_checked_before_they_are_required(knows_a_key: bool) -> None:
    log = SignedPartition()
    if knows_a_key:
        log.trust(log.root, "setup")
    assert log.append(unsigned(received())) == [APPLIED]
    assert log.decide(beginning(), signer=new_signer()) == [APPLIED, APPLIED]


def test_a_signed_decision_has_effect_and_an_unsigned_one_has_none() -> None:
    log = begun()
    assert log.append(unsigned(beginning())) == [OVERTAKEN] * 2
    assert log.reasons == ["unsigned", "broken_chain"]
    assert log.stream.root is None
    assert log.decide(beginning()) == [APPLIED, APPLIED]
    again = Streams(AGGREGATES)
    for entry in log.entries:
        again.fold(decoded(entry))
    assert {name: dump(each) for name, each in again.by_id.items()} == {
        name: dump(each) for name, each in log.streams.by_id.items()
    }, "a second reader agrees"


@pytest.mark.parametrize(("role", "reason"), [("dispatcher", "unknown_key"), ("scheduler", "another_role")])
def test_a_key_counts_only_where_it_is_trusted(role: str, reason: str) -> None:
    log, other = requiring(), new_signer()
    if role == "scheduler":
        log.trust(other, role)
    assert log.decide(received(), signer=other) == [OVERTAKEN]
    assert log.reasons == [reason]


def test_a_revoked_key_counts_no_longer_and_its_stream_goes_on_with_another() -> None:
    log, newer = begun(), new_signer()
    unknown = KeyRevoked(topic=TOPIC, partition=log.partition, key_id="0" * 16)
    assert log.about_keys(unknown) is OVERTAKEN
    log.trust(newer, "dispatcher")
    assert log.revoke(log.dispatcher) is APPLIED
    assert log.decide(beginning()) == [OVERTAKEN] * 2
    assert log.reasons[0] == "revoked_key"
    assert log.trust(log.dispatcher, "dispatcher") is DUPLICATE
    assert log.decide(beginning()) == [OVERTAKEN] * 2
    assert log.decide(beginning(), signer=newer) == [APPLIED] * 2


@pytest.mark.parametrize(
    "header", ["", "ce_id", "ce_time", "ce_causationid", "ce_decisionid", "ce_index", "traceparent", CHAIN]
)
@pytest.mark.parametrize("at", [0, 1])
def test_another_value_or_header_makes_the_rest_of_a_decision_void(header: str, at: int) -> None:
    log = begun()
    records = log.writer().decision(STREAM, beginning(), topic=TOPIC)
    if header:
        records[at] = with_header(records[at], header, b"2" if header == "ce_index" else b"another")
    else:
        records[at] = replace(records[at], value=(records[at].value or b"").replace(b"c-1", b"c-2"))
    assert log.append(records)[at:] == [OVERTAKEN] * (2 - at), log.reasons
    assert header or log.reasons[at] == ("broken_chain" if at else "bad_signature")


def test_a_signature_that_is_played_again_adds_nothing() -> None:
    log = begun()
    records = log.writer().decision(STREAM, beginning(), topic=TOPIC)
    assert log.append(records) == [APPLIED] * 2
    before = dump(log.stream)
    assert APPLIED not in log.append(records)
    assert APPLIED not in log.append(records[1:])
    same = load(before, AGGREGATES)
    same.ignored_decision, same.next_digest = log.stream.ignored_decision, log.stream.next_digest
    same.commands_at = log.stream.commands_at  # where it was played again
    assert dump(log.stream) == dump(same)


def test_a_copied_signature_is_not_one_of_other_content() -> None:
    log = requiring()
    first = log.writer().decision(STREAM, received(), topic=TOPIC)[0]
    log.append([first])
    (other,) = unsigned(received(command_id="c-2"))
    copied = [each for each in first.headers if each[0] in (KEY_ID, SIGNATURE)]
    assert log.append([replace(other, headers=[*other.headers, *copied])]) == [OVERTAKEN]
    assert log.reasons == ["bad_signature"]


def test_a_decision_is_signed_for_one_stream_and_one_topic() -> None:
    log = requiring()
    (record,) = log.writer().decision(STREAM, received(), topic=TOPIC)
    names = (f"other-{number}" for number in range(1_000))
    other = next(name for name in names if partition_of(name, 12) == log.partition)
    assert log.append([with_header(record, "ce_partitionkey", other.encode())]) == [OVERTAKEN]
    (elsewhere,) = log.writer().decision(STREAM, received(), topic="other.trackside.events")
    assert log.append([elsewhere]) == [OVERTAKEN]
    assert log.append([record]) == [APPLIED]


def test_the_rest_of_a_forged_decision_is_not_let_in_by_its_own_chain() -> None:
    """A forger chains what is unsigned, and gives the second record another decision."""
    log = begun()
    forged = new_signer().sign(TOPIC, unsigned(beginning()))
    last = with_header(forged[1], "ce_decisionid", b"another")
    forged = new_signer().sign(TOPIC, [forged[0], last])
    assert log.append(forged) == [OVERTAKEN] * 2
    assert log.reasons == ["unknown_key", "broken_chain"]


def test_the_rest_of_an_overtaken_decision_can_not_be_played_alone() -> None:
    log = requiring()
    late = log.writer().decision(STREAM, beginning(), topic=TOPIC)
    assert log.append(late) == [OVERTAKEN] * 2  # its stream has not begun
    log.decide(received())
    log.append(unsigned(received(command_id="c-9")))
    assert log.append(late[1:]) == [OVERTAKEN]
    assert log.stream.root is None


def test_a_snapshot_may_cut_a_decision() -> None:
    log = begun()
    first, second = log.writer().decision(STREAM, beginning(), topic=TOPIC)
    log.append([first])
    found = [each for name in (KEYS, STREAM) if (each := log.streams.find(name)) is not None]
    loaded = [load(pack(each), AGGREGATES) for each in found]
    given = Streams(AGGREGATES, {each.stream_id: each for each in loaded})
    log.streams = Streams(AGGREGATES)
    for each in found:
        log.streams.adopt(load(pack(each), AGGREGATES))
    assert log.append([with_header(second, "ce_time", b"later")]) == [OVERTAKEN]
    assert log.reasons == ["broken_chain"]
    assert log.append([second]) == [APPLIED]  # what is forged leaves no trace
    assert log.append(unsigned(beginning())) == [OVERTAKEN] * 2
    log.streams = given
    assert log.append([second]) == [APPLIED]


def test_a_worker_writes_only_as_itself() -> None:
    log, scheduler, w1, w2 = requiring(), new_signer(), new_signer(), new_signer()
    log.trust(scheduler, "scheduler")
    log.trust(w1, "worker", "w1")
    log.trust(w2, "worker", "w2")
    log.decide(received())
    log.decide([TaskSubmitted(task_id="t", task_type="digits", parameters={})])
    token = {"task_id": "t", "attempt": 1, "placement": 1, "incarnation": "i-1"}
    assigned = TaskAssigned(**token, worker_id="w1", device_ids=["cpu-0"], seen=3)
    assert log.decide([assigned], role="scheduler", signer=scheduler) == [APPLIED]
    accepted = TaskAccepted(**token)

    def write(instance: str, signer_of: object) -> list[Outcome]:
        writer = RecordWriter("worker", instance, w1 if signer_of == "w1" else w2)
        return log.append(writer.decision(STREAM, [accepted], topic=TOPIC))

    assert write("w1", "w2") == [OVERTAKEN]
    assert log.reasons == ["another_worker"]
    assert write("w2", "w2") == [OVERTAKEN]  # signed as it should be, but w1 has the placement
    assert log.reasons == ["another_worker"]
    assert write("w1", "w1") == [APPLIED]


def test_only_the_key_of_the_installation_makes_others_known() -> None:
    log, other = requiring(), new_signer()
    assert log.trust(other, "worker", "w1", signer=other) is OVERTAKEN
    assert log.trust(other, "setup", signer=other) is OVERTAKEN
    assert log.trust(other, "worker", "w1", signer=log.dispatcher) is OVERTAKEN
    assert log.set_mode("off", signer=log.dispatcher) is OVERTAKEN
    assert log.decide(received(), signer=other) == [OVERTAKEN]


def test_the_key_of_the_installation_is_rotated_too() -> None:
    log, newer = requiring(), new_signer()
    assert log.revoke(log.root) is OVERTAKEN  # the last one: nothing could follow
    assert log.trust(newer, "setup") is APPLIED
    assert log.revoke(log.root, signer=newer) is APPLIED
    assert log.trust(new_signer(), "scheduler") is OVERTAKEN
    assert log.trust(new_signer(), "scheduler", signer=newer) is APPLIED


def test_events_about_keys_count_in_their_own_partition_and_stream() -> None:
    log, rival = requiring(), new_signer()
    elsewhere = trusted(new_signer(), "scheduler", partition=(log.partition + 1) % 12)
    assert log.about_keys(elsewhere) is OVERTAKEN
    names = (f"keys/{number}" for number in range(1_000))
    second = next(name for name in names if name != KEYS and partition_of(name, 12) == log.partition)
    writer = RecordWriter("setup", "test", rival)
    pinned = writer.decision(second, [trusted(rival, "setup")], topic=TOPIC)
    assert log.append(pinned) == [OVERTAKEN]
    assert log.decide(received()) == [APPLIED]


def test_a_key_is_what_its_id_says() -> None:
    log = requiring()
    wrong = trusted(new_signer(), "scheduler").model_copy(update={"key_id": "0" * 16})
    assert log.about_keys(wrong) is OVERTAKEN
    assert log.trust(new_signer(), "worker") is OVERTAKEN  # of which worker?


def test_signatures_are_required_no_longer_if_the_installation_says_so() -> None:
    log = requiring()
    assert log.set_mode("require") is DUPLICATE
    assert log.set_mode("off") is APPLIED
    off = log.entries[-1]
    assert log.append(unsigned(received())) == [APPLIED]
    log.set_mode("require")
    assert log.append([Outgoing(off.key, off.value, off.headers)]) == [DUPLICATE], "it is played again"
    assert log.append(unsigned(received(command_id="c-2"))) == [OVERTAKEN]


@pytest.mark.parametrize("partitions", [1, 4, 12])
def test_each_partition_has_a_stream_for_its_keys(partitions: int) -> None:
    streams = [keys_stream(partition, partitions) for partition in range(partitions)]
    assert [partition_of(name, partitions) for name in streams] == list(range(partitions))


def test_the_order_of_records_is_that_of_the_chain() -> None:
    log = begun()
    first, second = log.writer().decision(STREAM, beginning(), topic=TOPIC)
    assert dict(first.headers)[CHAIN]
    assert CHAIN not in dict(second.headers)
    assert log.append([second, first, second]) == [OVERTAKEN, APPLIED, APPLIED]


def test_who_reads_a_stream_alone_needs_the_newest_keys_only() -> None:
    log = SignedPartition()
    log.trust(log.root, "setup")
    log.append(unsigned(received()))
    log.trust(log.dispatcher, "dispatcher")
    log.set_mode("require")
    log.decide(beginning())
    log.revoke(log.dispatcher)
    log.decide([TaskSubmitted(task_id="t", task_type="digits", parameters={})])
    newest = log.streams.trust_in(log.partition)
    alone = Stream(STREAM, log.partition)
    for entry in log.entries:
        record = decoded(entry)
        if record.envelope.stream == STREAM:
            record.trust = newest
            fold(alone, record, AGGREGATES)
    assert dump(alone) == dump(log.stream)
    assert not alone.tasks
