"""INV-8: a stream has received only what was published, and as it was published."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.children import ChildRequested, ChildStopRequested
from trackside.contracts.streams.commands import CommandReceived, Source
from trackside.contracts.wire.ingress import Arrival, digest_of
from trackside.contracts.wire.signing import KEY_ID
from trackside.domain.checks.findings import Findings, RecordPosition, position_of
from trackside.domain.proposal import parse_cause
from trackside.eventlog.keys.dead_letters import position_id

_CUT_TYPE = 200
"""From how many characters on a wire type may be shortened in an event, while its digest is of the whole."""


class CommandRecord(NamedTuple):
    """What a record of the commands topic says; `readable` is false for bytes that have no JSON object."""

    stream: str
    command_id: str
    digest: str
    publisher: str
    readable: bool = True
    key_id: str = ""


UNREADABLE = CommandRecord("", "", "", "", readable=False)


def command_record(
    arrival: Arrival, source: Source, headers: Mapping[str, bytes] | None = None
) -> CommandRecord:
    """Returns what a record says, addressed as the dispatcher addresses it."""
    command_id = arrival.command_id or position_id(source)
    stream = arrival.stream or arrival.command_id or f"commands/{position_id(source)}"
    key_id = (headers or {}).get(KEY_ID, b"").decode("utf-8", "replace")
    return CommandRecord(stream, command_id, arrival.digest, arrival.publisher, key_id=key_id)


@dataclass(slots=True)
class PublicationChecks:
    """Compares each CommandReceived with its record in the commands topic, or with the stream that sent it.

    Without `topics` nothing is compared. `first` has the first offset that each partition keeps; `expired`
    counts events whose record came before it.
    """

    findings: Findings
    topics: Topics | None = None
    first: Mapping[int, int] = field(default_factory=dict)
    expired: int = 0
    _published: dict[tuple[int, int], CommandRecord] = field(default_factory=dict)
    _missing: list[tuple[Source, RecordPosition]] = field(default_factory=list)
    _dead_letters: list[tuple[Source, RecordPosition]] = field(default_factory=list)
    _asked: dict[str, ChildRequested | ChildStopRequested] = field(default_factory=dict)
    _sent: list[tuple[str, str, Json | None, RecordPosition]] = field(default_factory=list)

    def note(self, source: Source, published: CommandRecord) -> None:
        """Adds a record of the commands topic."""
        self._published[source.partition, source.offset] = published

    def dead_letter(self, source: Source, place: RecordPosition) -> None:
        """Adds a dead letter at a place that is about a record of the commands topic."""
        self._dead_letters.append((source, place))

    def child_asked(self, event: ChildRequested | ChildStopRequested, record: Record) -> None:
        """Notes which stream an event asks to begin, or to stop."""
        self._asked[f"{record.envelope.stream}@{record.offset}"] = event

    def received(self, event: CommandReceived, record: Record) -> bool:
        """Checks one CommandReceived; returns whether it may be the one of its record."""
        if self.topics is None:
            return True
        source, message = event.source, ""
        if source.topic == self.topics.events.name:
            message = self._sent_by_stream(event, record, self.topics.event_partitions)
        elif source.topic != self.topics.commands.name:
            message = f"it names {text_of(source)}; commands are published in {self.topics.commands.name}"
        elif (published := self._published.get((source.partition, source.offset))) is None:
            self._missing.append((source, position_of(record)))
        else:
            message = _difference(event, record, published)
        if message:
            self.findings.add("INV-8", record, message)
        return not message

    def finish(self) -> None:
        """Reports what was never published."""
        for source, place in self._missing:
            if self._is_kept(source):
                self.findings.add("INV-8", place, f"its record, {text_of(source)}, was never published")
            else:
                self.expired += 1
        for source, place in self._dead_letters:
            published = self._published.get((source.partition, source.offset))
            if published is not None and published.readable:
                self.findings.add("INV-8", place, f"{text_of(source)} is a dead letter, but can be read")
            elif published is None and self._is_kept(source):
                self.findings.add(
                    "INV-8", place, f"{text_of(source)} is a dead letter, but was never published"
                )
        for command_id, stream, body, place in self._sent:
            asked = self._asked.get(command_id)
            if asked is None:
                continue
            if asked.child_id != stream:
                message = f"command {command_id} was sent to stream {asked.child_id}, not to this one"
                self.findings.add("INV-8", place, message)
            elif body is not None and body != _body_of(asked, body):
                message = f"command {command_id} was sent with another body than was asked for"
                self.findings.add("INV-8", place, message)

    def _is_kept(self, source: Source) -> bool:
        """Returns whether the topic has a place still, or never had it."""
        return source.offset >= self.first.get(source.partition, 0)

    def _sent_by_stream(self, event: CommandReceived, record: Record, partitions: int) -> str:
        """Returns what is wrong with a command that another stream sends: an event there asks for it."""
        sender, cause = parse_cause(event.command_id), record.envelope.causation_id
        source = event.source
        if (
            sender is None
            or (source.partition, source.offset) != (partition_of(sender[0], partitions), sender[1])
            or cause not in ("", event.command_id)
        ):
            return f"command {event.command_id} is not the one that {text_of(source)} asks for"
        if not _has_own_body(event):
            return f"the body of command {event.command_id} has another digest"
        self._sent.append((event.command_id, record.envelope.stream, event.body, position_of(record)))
        return ""


def _difference(event: CommandReceived, record: Record, published: CommandRecord) -> str:
    """Returns in what an event differs from its record, empty if in nothing."""
    place = position_id(event.source)
    by_place = event.problem is not None and event.command_id == place
    streams = {published.stream, f"commands/{place}"} if by_place else {published.stream}
    record_text = f"its record, {text_of(event.source)},"
    if not published.readable:
        return f"{record_text} has no JSON object"
    if record.envelope.stream not in streams:
        return f"{record_text} is a command for stream {published.stream}"
    if event.command_id != published.command_id and not by_place:
        return f"{record_text} is command {published.command_id}, and {event.command_id} was received"
    if event.digest != published.digest or not _has_own_body(event):
        return f"{record_text} says something else than what was received"
    if event.key_id not in ("", published.key_id):
        return f"{record_text} was signed with key {published.key_id!r}, and not with {event.key_id!r}"
    if event.publisher != published.publisher:
        return f"{record_text} was published by {published.publisher!r}, and not by {event.publisher!r}"
    return ""


def _has_own_body(event: CommandReceived) -> bool:
    """Returns whether the digest of an event is that of its body, if it has kept one."""
    if event.body is None or len(event.command_type) >= _CUT_TYPE:
        return True
    return digest_of(event.command_type, event.body) == event.digest


def text_of(source: Source) -> str:
    """Returns a place as it is printed."""
    return f"{source.topic}-{source.partition}@{source.offset}"


def _body_of(asked: ChildRequested | ChildStopRequested, sent: Json) -> Json:
    """Returns the body of what a child is asked for; of a stop only the reason is known."""
    return asked.body if isinstance(asked, ChildRequested) else {**sent, "reason": asked.reason}
