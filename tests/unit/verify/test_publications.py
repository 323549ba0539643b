"""INV-8: what a stream has received was published, and as it was received."""

import json
from typing import Any

import pytest

from tests.unit.domain.given import record_of
from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.children import ChildRequested
from trackside.contracts.streams.commands import CommandReceived, Source
from trackside.contracts.wire.ingress import digest_of, read_command
from trackside.domain.checks.findings import RecordPosition
from trackside.verify.checks.publications import UNREADABLE, command_record
from trackside.verify.verifier import Verifier

TOPICS = Topics(event_partitions=3)
PLACE = Source(topic=TOPICS.commands.name, partition=2, offset=40)
DEAD_LETTER = RecordPosition(TOPICS.dead_letters.name, 0, 7, "")
KIND, BODY = "trackside.ping.v1", {"n": 1}


def event(**changes: Any) -> CommandReceived:
    """Returns the event of a command as it was published, but for some fields."""
    said: dict[str, Any] = {"command_id": "c-1", "command_type": KIND, "body": BODY, "rules": 1}
    fields = {**said, "digest": digest_of(KIND, BODY), "source": PLACE, "publisher": "cli", **changes}
    return CommandReceived(**fields)


def record(received: CommandReceived, stream: str = "s") -> Record:
    return record_of(received, 0, stream=stream, partition=partition_of(stream, TOPICS.event_partitions))


def verifier(*, published: bool = True) -> Verifier:
    """Returns a verifier that has read the commands topic, with one record or without any."""
    made = Verifier(topics=TOPICS)
    headers = {"ce_id": b"c-1", "ce_type": KIND.encode(), "ce_source": b"cli", "ce_partitionkey": b"s"}
    if published:
        arrival = read_command(CODEC.envelope(headers.items()).headers, b"s", json.dumps(BODY).encode())
        made.publications.note(PLACE, command_record(arrival, PLACE))
    return made


def found(made: Verifier, *records: Record) -> list[str]:
    for each in records:
        made.take(each)
    return [each.message for each in made.finish() if each.invariant == "INV-8"]


def test_a_command_that_was_published_as_it_was_received_is_right() -> None:
    problem = Problem(code="unsigned", path="$signature", message="not signed")
    unsigned = event(command_id="trackside.commands-2-40", body=None, problem=problem)
    for right in (record(event()), record(sent("parent", 5), stream="child"), record(unsigned)):
        assert found(verifier(), right) == []


def test_a_command_that_the_topic_lacks_or_cannot_be_read_is_told_from_one_of_nobody() -> None:
    its = "its record, trackside.commands-2@40,"
    elsewhere = event(source=Source(topic=TOPICS.metrics.name, partition=0, offset=1))
    assert found(verifier(), record(event(), "another")) == [f"{its} is a command for stream s"]
    assert found(verifier(published=False), record(event())) == [f"{its} was never published"]
    (message,) = found(verifier(), record(elsewhere))
    assert message == "it names trackside.metrics-0@1; commands are published in trackside.commands"
    made = verifier(published=False)
    made.publications.first = {2: 41}
    assert (found(made, record(event())), made.publications.expired) == ([], 1)
    made = verifier()
    made.publications.note(PLACE, UNREADABLE)
    assert found(made, record(event())) == ["its record, trackside.commands-2@40, has no JSON object"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"command_id": "c-2"}, "is command c-1, and c-2 was received"),
        ({"digest": "0" * 64}, "says something else than what was received"),
        ({"body": {"n": 2}}, "says something else than what was received"),
        (
            {"body": {"n": 2}, "digest": digest_of(KIND, {"n": 2})},
            "says something else than what was received",
        ),
        ({"publisher": "root"}, "was published by 'cli', and not by 'root'"),
    ],
)
def test_a_command_that_was_published_differently_is_found(changes: dict[str, Any], message: str) -> None:
    assert found(verifier(), record(event(**changes))) == [f"its record, trackside.commands-2@40, {message}"]


def test_a_command_beyond_a_limit_is_compared_without_its_body() -> None:
    problem = Problem(code="too_many", path="$source", message="later", retry_at_ms=10_000)
    assert found(verifier(), record(event(body=None, problem=problem))) == []
    (message,) = found(verifier(), record(event(body=None, problem=problem, digest="0" * 64)))
    assert "says something else" in message


@pytest.mark.parametrize(("published", "said"), [(True, "can be read"), (False, "was never published")])
def test_a_dead_letter_of_what_can_be_read_or_is_not_there_is_found(published: bool, said: str) -> None:
    made = verifier(published=published)
    made.publications.dead_letter(PLACE, DEAD_LETTER)
    assert found(made) == [f"trackside.commands-2@40 is a dead letter, but {said}"]


def sent(parent: str, offset: int, **changes: Any) -> CommandReceived:
    """Returns the command that an event of a parent stream asks for."""
    source = Source(topic=TOPICS.events.name, partition=partition_of(parent, 3), offset=offset)
    named = {"command_id": f"{parent}@{offset}", "publisher": f"trackside/stream/{parent}"}
    return event(source=source, **named, **changes)


@pytest.mark.parametrize(
    "changes", [{"command_id": "parent@6"}, {"command_id": "c-1"}, {"command_id": "stranger@5"}]
)
def test_a_command_of_a_parent_stream_is_named_by_the_event_that_asks_for_it(changes: dict[str, str]) -> None:
    (message,) = found(verifier(), record(sent("parent", 5).model_copy(update=changes), stream="child"))
    assert message.startswith(f"command {changes['command_id']} is not the one that trackside.events-")


def test_a_command_that_another_child_was_sent_is_found() -> None:
    made = verifier()
    asked = record(event(), stream="parent")
    asked.message = ChildRequested(child_id="child", kind="search", body={})
    made.publications.child_asked(asked.message, asked)
    (message,) = found(made, record(sent("parent", asked.offset), stream="stranger"))
    assert message == f"command parent@{asked.offset} was sent to stream child, not to this one"
