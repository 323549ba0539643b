"""INV-18: the cause that an event names is an applied event before it, which may lead to such an event.

An event may name none before the first one of its stream, by its role, that does: older releases wrote none.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import NamedTuple
from zlib import crc32

from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.streams.children import ChildEnded
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.domain.checks.findings import Findings, RecordPosition, position_of
from trackside.domain.proposal import parse_cause
from trackside.verify.checks.cause_rules import ANSWERS, CauseRule, command_name, rule_of

StreamEnds = Callable[[str], float]
"""Returns the offset after the last record read of the partition of a stream."""
MAX_KINDS = 1_000
"""From how many kinds of events on further names of commands are not told apart: anyone may invent some."""
INDEXER = "summary-indexer"
"""The role whose events rest on files, and name no cause."""


def _nothing_follows(stream: str) -> float:
    """Returns the end of a partition of which everything was read."""
    return float("inf")


class EventKind(NamedTuple):
    """What an event is as a cause: its type, and the name of the command if it is a CommandReceived."""

    type: type[Message]
    command: str = ""


@dataclass(slots=True)
class AppliedEvents:
    """The applied events of one stream, 14 bytes each: offset, kind, and a checksum of the task's id."""

    offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    kinds: "array[int]" = field(default_factory=lambda: array("H"))
    tasks: "array[int]" = field(default_factory=lambda: array("I"))
    named_by: frozenset[str] = frozenset()
    """The roles that have named a cause so far."""
    accepting: bytes = b""
    """The newest decision that accepts a command."""

    def add(self, offset: int, kind: int, task: int) -> None:
        """Adds an event; one that was held while its stream was parked may be before others."""
        at = len(self.offsets)
        if at and offset < self.offsets[-1]:
            at = bisect_left(self.offsets, offset)
        self.offsets.insert(at, offset)
        self.kinds.insert(at, kind)
        self.tasks.insert(at, task)

    def index(self, offset: int) -> int:
        """Returns the index of the event at an offset, -1 if none was applied there."""
        at = bisect_left(self.offsets, offset)
        return at if at < len(self.offsets) and self.offsets[at] == offset else -1


class OtherCause(NamedTuple):
    """A cause in another stream, which may be read later than the event that names it."""

    stream: str
    offset: int
    place: RecordPosition


@dataclass(slots=True)
class CauseChecks:
    """Checks the applied events of one topic, in the order of each stream; they name one if `required`."""

    findings: Findings
    required: bool = True
    _streams: dict[str, AppliedEvents] = field(default_factory=dict)
    _others: list[OtherCause] = field(default_factory=list)
    _rules: dict[type[Message], CauseRule] = field(default_factory=dict)
    _kinds: list[EventKind] = field(default_factory=list)
    _codes: dict[EventKind, int] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Checks the cause of one applied event."""
        event, envelope = record.message, record.envelope
        stream, cause = envelope.stream, envelope.causation_id
        events = self._streams.get(stream)
        if events is None:
            events = self._streams[stream] = AppliedEvents()
        if not cause and type(event) is CommandReceived and parse_cause(event.command_id) is not None:
            cause = event.command_id  # as that of a child, in logs without causes
        if cause:
            self.findings.checked["INV-18"] += 1
            if envelope.role not in events.named_by and type(event) is not CommandReceived:
                events.named_by |= {envelope.role}
            self._check(stream, cause, events, record)
        elif self.required and envelope.role in events.named_by:
            self._check_none(record)
        self._check_seen(event, record)
        if type(event) is CommandAccepted:
            events.accepting = envelope.decision_id
        events.add(record.offset, self._code(event), _checksum(event))

    def finish(self, others: Container[str] = (), ends: StreamEnds = _nothing_follows) -> None:
        """Reports causes in streams that neither this topic has nor `others`, and those not applied there.

        A cause at or after the end to which the partition of its stream was read is left open.
        """
        for stream, offset, place in self._others:
            events = self._streams.get(stream)
            at = -1 if events is None else events.index(offset)
            if stream in others:
                continue
            if events is not None and at >= 0:
                self._check_other(self._kinds[events.kinds[at]], stream, offset, place)
                continue
            message = f"its cause, offset {offset} of stream {stream}, is not an applied event"
            if events is None:
                message = f"its cause is an event of stream {stream}, which is not there"
            if offset >= ends(stream):
                self.findings.leave_open("INV-18", place, message)
            else:
                self.findings.add("INV-18", place, message)

    def _check_seen(self, event: Message, record: Record) -> None:
        """Checks that an assessor has read the log up to an offset before its answer.

        Its cause is the newest report of the task, which may have come while the assessor was asked.
        """
        if type(event) is TaskStopRequested and event.seen is not None and event.seen >= record.offset:
            message = f"it was decided on offset {event.seen}, which is not before it"
            self.findings.add("INV-18", record, message)

    def _check_none(self, record: Record) -> None:
        """Checks that an event may name no cause, where events before it name theirs."""
        kind = type(record.message)
        if kind is not CommandReceived and record.envelope.role != INDEXER:
            message = f"{kind.__name__} names no cause, and events before it by the {record.envelope.role} do"
            self.findings.add("INV-18", record, message)

    def _check(self, stream: str, cause: str, events: AppliedEvents, record: Record) -> None:
        found, event = parse_cause(cause), record.message
        if found is None:
            self.findings.add("INV-18", record, f"its cause {cause!r} names no event")
        elif found[0] != stream:
            self._check_stream(found[0], event, record)
            self._others.append(OtherCause(*found, position_of(record)))
        elif found[1] >= record.offset:
            self.findings.add("INV-18", record, f"its cause, offset {found[1]}, is not before it")
        elif (at := events.index(found[1])) < 0:
            message = f"its cause, offset {found[1]}, is not an applied event of its stream"
            self.findings.add("INV-18", record, message)
        elif message := self._difference(events, at, record):
            self.findings.add("INV-18", record, f"its cause, offset {found[1]}, is {message}")

    def _difference(self, events: AppliedEvents, at: int, record: Record) -> str:
        """Returns why an event of its stream can't be the cause of an event; empty if it can."""
        event, rule, name = record.message, self._rule(type(record.message)), type(record.message).__name__
        cause = self._kinds[events.kinds[at]]
        if rule.free:
            return ""
        if cause.type is CommandReceived:
            if type(event) in ANSWERS:
                return ""
            if cause.command not in rule.commands:
                return f"a command {cause.command}, which leads to no {name}"
            if not record.envelope.index or record.envelope.decision_id != events.accepting:
                return f"a command, and {name} is not in the decision that accepts it"
            return ""
        if not rule.decides:
            needed = " or ".join(sorted(rule.commands)) or "CommandReceived"
            return f"{cause.type.__name__}; {name} follows only from {needed}"
        if rule.kinds is not None and cause.type not in rule.kinds:
            return f"{cause.type.__name__}, which leads to no {name}"
        if rule.one_task and events.tasks[at] != _checksum(event):
            return f"{cause.type.__name__} of another task than that of {name}"
        return ""

    def _check_stream(self, stream: str, event: Message, record: Record) -> None:
        """Checks that an event may rest on one of another stream, and that a child's end rests on its own."""
        rule = self._rule(type(event))
        if not (rule.elsewhere or rule.free):
            message = f"its cause is in stream {stream}; {type(event).__name__} rests on its own stream"
            self.findings.add("INV-18", record, message)
        elif isinstance(event, ChildEnded) and stream != event.child_id:
            message = f"its cause is in stream {stream}, which is not that of child {event.child_id}"
            self.findings.add("INV-18", record, message)

    def _check_other(self, cause: EventKind, stream: str, offset: int, place: RecordPosition) -> None:
        if cause.type is CommandReceived:
            message = f"its cause, offset {offset} of stream {stream}, is {cause.type.__name__}"
            self.findings.add("INV-18", place, f"{message}, which leads to nothing elsewhere")

    def _rule(self, kind: type[Message]) -> CauseRule:
        rule = self._rules.get(kind)
        if rule is None:
            rule = self._rules[kind] = rule_of(kind)
        return rule

    def _code(self, event: Message) -> int:
        command = command_name(event.command_type) if type(event) is CommandReceived else ""
        kind = EventKind(type(event), command)
        code = self._codes.get(kind)
        if code is None:
            if command and len(self._kinds) >= MAX_KINDS:
                kind = EventKind(CommandReceived, "of another name")
                if kind in self._codes:
                    return self._codes[kind]
            code = self._codes[kind] = len(self._kinds)
            self._kinds.append(kind)
        return code


def _checksum(event: Message) -> int:
    """Returns a checksum of the id of the task that an event is about, 0 for none."""
    task_id = getattr(event, "task_id", "")
    return crc32(task_id.encode()) if task_id else 0
