"""INV-26 of commands: what a command leads to says what the command has said.

An event of the decision that accepts a command, and the command, often have a field of one name and type:
these are equal, also within a definition that the event has as a whole. What a command leaves to the service,
such as a seed, isn't compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Command, Message, Record
from trackside.contracts.streams.commands import (
    RULES,
    CommandAccepted,
    CommandReceived,
    CommandRefused,
    Source,
)
from trackside.contracts.wire.codec import COMMANDS, command_of
from trackside.domain.checks.findings import Findings

IN_PART = frozenset(
    {
        "RunStarted.parameters",  # with defaults
        "GateDecided.inputs",
        "RunRevived.indexes",  # of all steps if none are given
        "TrialsRequested.count",  # as many as there is room for
        "TrialsImported.trials",  # without known ones
        "ModelTagged.labels",  # without those that are so already
        "ChildStopRequested.reason",  # there always is one
    }
)
"""The fields that have a part of what the command says, or more than that."""
RENAMED: Mapping[str, str] = {
    "DeviceDrained.device_id": "device",
    "DeviceResumed.device_id": "device",
    "StreamAnnotated.added_tags": "add_tags",
    "StreamAnnotated.removed_tags": "remove_tags",
}
"""The fields that have another name in the command."""
COMPILED: Mapping[str, tuple[str, ...]] = {
    "RunStarted.pipeline": ("parameters", "defaults", "concurrency", "keep_days")
}
"""The definitions that are compiled, with the fields that stay as the command has them."""
MAY_BE_NONE = frozenset(
    {
        "RunStarted.origin",
        "RunStarted.copy_of",
        "RunUpdated.timeout_s",
        "RunUpdated.concurrency",
        "RunUpdated.priority",
        "StepAbortRequested.index",
        "HardExamplesReported.artifact",
        "StreamAnnotated.note",
        "StreamAnnotated.archived",
    }
)
"""The fields that have nothing if their command has: others have what was before, or a default."""


@dataclass(slots=True)
class CommandEffectChecks:
    """Keeps the commands of each stream until they are answered, and the accepted ones for their decision."""

    findings: Findings
    _received: dict[str, dict[Source, CommandReceived]] = field(default_factory=dict)
    _accepted: dict[str, tuple[bytes, str, Command | None]] = field(default_factory=dict)
    _commands: tuple[type[Command], ...] = field(default=(*AGGREGATES.commands, *COMMANDS))
    _rules: dict[str, int] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Checks one applied event."""
        event: Any = record.message
        envelope = record.envelope
        if type(event) is CommandReceived:
            self._received.setdefault(envelope.stream, {})[event.source] = event
            self._check_problems(event, record)
        elif type(event) is CommandAccepted or type(event) is CommandRefused:
            received = self._received.get(envelope.stream, {}).pop(event.source, None)
            self._answered(event, received, record)
        elif "command_id" in type(event).model_fields and event.command_id:
            self._of_command(event, record)
        elif envelope.decision_id and (command := self.command_of(record)) is not None:
            self._compare(event, command, record)

    def _of_command(self, event: Any, record: Record) -> None:
        """Checks an event that names a command: it is in the decision that accepts it."""
        found = self._accepted.get(record.envelope.stream)
        if found is not None and found[:2] == (record.envelope.decision_id, event.command_id):
            if found[2] is not None:
                self._compare(event, found[2], record)
        elif record.envelope.causation_id:  # older releases did not name that
            name = f"{type(event).__name__} is of command {event.command_id}"
            self.findings.add("INV-26", record, f"{name}, and not in the decision that accepts it")

    def command_of(self, record: Record) -> Command | None:
        """Returns the command that the decision of an event accepts."""
        found = self._accepted.get(record.envelope.stream)
        return found[2] if found is not None and found[0] == record.envelope.decision_id else None

    def newest(self, stream: str) -> Command | None:
        """Returns the command of a stream that was accepted last, if its body is known."""
        found = self._accepted.get(stream)
        return None if found is None else found[2]

    def _check_problems(self, event: CommandReceived, record: Record) -> None:
        first = event.problems[0] if event.problems else event.problem
        if first != event.problem:
            self.findings.add("INV-26", record, "the problem of the command is not the first of its problems")
        stream = record.envelope.stream
        if not self._rules.get(stream, 1) <= event.rules <= RULES:
            self.findings.add("INV-26", record, f"the rules of the stream are not {event.rules}")
        self._rules[stream] = event.rules

    def _answered(
        self, event: CommandAccepted | CommandRefused, received: CommandReceived | None, record: Record
    ) -> None:
        self._accepted.pop(record.envelope.stream, None)
        if received is None:
            return
        self.findings.checked["INV-26"] += 1
        if event.command_id != received.command_id:
            message = f"command {received.command_id} is answered as {event.command_id}"
            self.findings.add("INV-26", record, message)
        if isinstance(event, CommandAccepted):
            if received.problem is not None:
                message = (
                    f"command {event.command_id} is accepted, and has the problem {received.problem.code}"
                )
                self.findings.add("INV-26", record, message)
            command = command_of(received.command_type, received.body or {}, self._commands)
            parsed = command if isinstance(command, Command) and received.body is not None else None
            self._accepted[record.envelope.stream] = record.envelope.decision_id, event.command_id, parsed
            return
        first = event.problems[0] if event.problems else None
        if first is not None and (first.code, first.path) != (event.code, event.path):
            self.findings.add("INV-26", record, "the refusal is not for the first of its problems")
        if received.problem is not None and received.problem.code != event.code:
            message = f"it is refused as {event.code}, and its problem is {received.problem.code}"
            self.findings.add("INV-26", record, message)

    def _compare(self, event: Message, command: Command, record: Record) -> None:
        self.findings.checked["INV-26"] += 1
        for path, value, wanted in _shared(event, command):
            if value != wanted and not (path in IN_PART and _agrees(value, wanted)):
                message = f"{path} is {value!r:.80}, and its command says {wanted!r:.80}"
                self.findings.add("INV-26", record, message)


def _shared(event: Message, command: Command) -> list[tuple[str, Any, Any]]:
    """Returns the fields that both have: what they are called, the event's value, and the command's."""
    name, found = type(event).__name__, []
    said = {each: _plain(getattr(command, each)) for each in type(command).model_fields}
    alike = _alike(type(event), type(command))
    for each in type(event).model_fields:
        value, path = getattr(event, each), f"{name}.{each}"
        given = getattr(command, each, None)
        if path in COMPILED and isinstance(value, BaseModel) and isinstance(given, BaseModel):
            found += [
                (f"{path}.{inner}", _plain(getattr(value, inner)), _plain(getattr(given, inner)))
                for inner in COMPILED[path]
            ]
        elif path in RENAMED and RENAMED[path] in said:
            found.append((path, _plain(value), said[RENAMED[path]]))
        elif each in said:
            if each in alike and (said[each] is not None or path in MAY_BE_NONE):
                found.append((path, _plain(value), said[each]))
        elif (
            isinstance(value, BaseModel)
            and type(value).model_fields.keys() <= type(command).model_fields.keys()
        ):
            found += [
                (f"{path}.{inner}", _plain(getattr(value, inner)), said[inner])
                for inner in type(value).model_fields
                if inner != "direction" or not said.get("objectives")  # then it is that of the first one
            ]
    return found


def _agrees(value: Any, wanted: Any) -> bool:
    """Returns whether a value is a part of another one, or has that as a part; a text, if none is wanted."""
    match value:
        case dict():
            shared = value.keys() & wanted.keys()
            whole = len(shared) in (len(value), len(wanted))
            return whole and all(value[name] == wanted[name] for name in shared)
        case list():
            return all(each in wanted for each in value)
        case int():
            return bool(0 < value <= wanted)
    return bool(value and not wanted)


@cache
def _alike(event: type[Message], command: type[Command]) -> frozenset[str]:
    """Returns the fields of an event that a command has with the same type; others only have its name."""
    ours, theirs = event.model_fields, command.model_fields
    return frozenset(name for name in ours.keys() & theirs.keys() if _type(ours[name]) == _type(theirs[name]))


def _type(field: Any) -> Any:
    """Returns the type of a field or of an annotation, without limits, None and the types of mappings."""
    annotation = getattr(field, "annotation", field)
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (Union, UnionType):
        kinds = frozenset(_type(each) for each in inner if each is not NoneType)
        return next(iter(kinds)) if len(kinds) == 1 else kinds
    if origin is list:
        return list, _type(inner[0])
    return annotation if origin in (None, Literal) else origin


def _plain(value: Any) -> Any:
    """Returns a value that is equal to that of another model with the same fields."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
