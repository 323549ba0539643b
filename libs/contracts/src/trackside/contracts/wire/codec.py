"""Between messages and records: CloudEvents 1.0 over Kafka, binary written, structured accepted.

Source: CloudEvents Kafka protocol binding 1.0.2. Wire types end in a version; an older one is lifted
to the current form by its upcaster before it is validated.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from trackside.contracts.envelope.message import Command, Envelope, Event, Json, Message
from trackside.contracts.envelope.refusals import Problem, field_names, nearest, problems_of
from trackside.contracts.fleet import draining, fleet
from trackside.contracts.streams import (
    children,
    commands,
    forgetting,
    imports,
    keys,
    labels,
    parking,
    watches,
)
from trackside.contracts.tasks import artifacts, device_commands, instructions, summaries, tasks
from trackside.contracts.trust.decision_signing import HEADERS
from trackside.contracts.trust.encryption import ENCRYPTION_HEADERS

Headers = list[tuple[str, bytes]]
Upcaster = Callable[[Json], Json]

COMMANDS: tuple[type[Command], ...] = (
    commands.Ping,
    instructions.InstructTask,
    artifacts.ForgetArtifacts,
    labels.AnnotateStream,
    draining.DrainDevice,
    draining.ResumeDevice,
    parking.SkipRecord,
    forgetting.ForgetStream,
)
DEVICE_COMMANDS: tuple[type[Command], ...] = (
    device_commands.RunTask,
    device_commands.RecallTask,
    device_commands.StopTask,
    device_commands.NextParameters,
    device_commands.GiveInstruction,
)
EVENTS: tuple[type[Event], ...] = (
    commands.CommandReceived,
    commands.CommandAccepted,
    commands.CommandRefused,
    tasks.TaskSubmitted,
    tasks.TaskStopRequested,
    tasks.TaskHeld,
    tasks.TaskReleased,
    tasks.TaskAssigned,
    tasks.TaskUnschedulable,
    tasks.TaskPreemptionRequested,
    tasks.TaskRecallRequested,
    tasks.TimeLimitReached,
    tasks.TaskAccepted,
    tasks.AttemptAdopted,
    tasks.TaskRefused,
    tasks.TaskReturned,
    tasks.TaskInterrupted,
    tasks.TaskStatusChanged,
    tasks.ParametersRequested,
    tasks.ParametersWithheld,
    tasks.TaskContinued,
    tasks.ParametersTaken,
    tasks.MetricReported,
    artifacts.ArtifactSaved,
    artifacts.TaskResumed,
    artifacts.ArtifactsForgotten,
    instructions.InstructionGiven,
    instructions.InstructionAcknowledged,
    instructions.TaskReady,
    tasks.AttemptEnded,
    children.ChildRequested,
    children.ChildStopRequested,
    children.ChildEnded,
    watches.TasksWatched,
    labels.StreamAnnotated,
    draining.DeviceDrained,
    draining.DeviceResumed,
    *keys.KEY_EVENTS,
    parking.RecordSkipped,
    forgetting.StreamForgotten,
)
FLEET_EVENTS: tuple[type[Event], ...] = (
    fleet.LogBegun,
    fleet.WorkerJoined,
    fleet.WorkerLeft,
    fleet.WorkerLost,
    fleet.CatalogueChanged,
    fleet.DeviceUnhealthy,
    fleet.LaneBacklogged,
    fleet.LaneCleared,
)
HEARTBEATS: tuple[type[Event], ...] = (
    fleet.WorkerHeartbeat,
    fleet.WorkerHeartbeatDigest,
    fleet.SchedulerHeartbeat,
)
METRICS: tuple[type[Event], ...] = (
    summaries.MetricPointsReported,
    summaries.SummaryItemsReported,
    summaries.SummariesPurged,
    summaries.SummaryUpdaterFailed,
)
LOGS: tuple[type[Event], ...] = (summaries.OutputWritten,)
DEAD_LETTERS: tuple[type[Event], ...] = (commands.RecordDeadLettered,)
IMPORTS: tuple[type[Event], ...] = (imports.StreamImported,)
MESSAGES: tuple[type[Message], ...] = (
    *COMMANDS,
    *DEVICE_COMMANDS,
    *EVENTS,
    *FLEET_EVENTS,
    *HEARTBEATS,
    *METRICS,
    *LOGS,
    *DEAD_LETTERS,
    *IMPORTS,
)
"""The messages that belong to no aggregate."""


def _task_submitted_v2(body: Json) -> Json:
    """Returns version 2 of TaskSubmitted: `part` instead of `trial`, or of `group` and `name`."""
    lifted = {name: value for name, value in body.items() if name not in ("trial", "group", "name")}
    for kind in ("trial", "group"):
        if body.get(kind) is not None:
            lifted["part"] = {"kind": kind, "number": body[kind], "name": body.get("name", "")}
            break
    return lifted


UPCASTERS: Mapping[str, Upcaster] = {"trackside.task-submitted.v1": _task_submitted_v2}
"""Each lifts the body of an older wire type to the next version of it."""
OUR_HEADERS = frozenset(
    {"ce_specversion", "ce_id", "ce_type", "ce_source", "ce_time", "ce_partitionkey", "content-type"}
    | {"ce_subject", "ce_causationid", "ce_correlationid", "traceparent"}
    | {"ce_decisionid", "ce_index", "ce_count", "ce_sequence"}
    | HEADERS
    | ENCRYPTION_HEADERS
)
"""The headers that `encode` writes, and those of a signature and of an encrypted value."""
UNREADABLE = (ValidationError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""What reading a body raises that isn't what its type says; an upcaster sees it before it is validated."""


class UndecodableError(Exception):
    """A record that can't be read: `code` for the dead letters, the message for a person."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class UnknownMessageError(UndecodableError):
    """A record of a type or version that this release doesn't know."""


@dataclass(slots=True)
class Draft:
    """A message about to be written, with the attributes of its envelope.

    `sequence` numbers the events of one incarnation of a worker in the order in which they happened, from 1.
    """

    message: Message
    id: str
    source: str
    stream: str
    time: str
    subject: str = ""
    causation_id: str = ""
    correlation_id: str = ""
    decision_id: str = ""
    index: int = 0
    count: int = 1
    traceparent: str = ""
    sequence: int = 0


def encode(draft: Draft) -> tuple[bytes, bytes, Headers]:
    """Returns key, value and headers of a record in CloudEvents binary mode."""
    headers: Headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", draft.id.encode()),
        ("ce_type", draft.message.wire_type().encode()),
        ("ce_source", draft.source.encode()),
        *([("ce_time", draft.time.encode())] if draft.time else ()),
        ("ce_partitionkey", draft.stream.encode()),
        ("content-type", b"application/json"),
    ]
    optional = (
        ("ce_subject", draft.subject),
        ("ce_causationid", draft.causation_id),
        ("ce_correlationid", draft.correlation_id),
        ("traceparent", draft.traceparent),
    )
    headers += [(name, text.encode()) for name, text in optional if text]
    if draft.decision_id:
        headers += [
            ("ce_decisionid", draft.decision_id.encode()),
            ("ce_index", str(draft.index).encode()),
            ("ce_count", str(draft.count).encode()),
        ]
    if draft.sequence:
        # CloudEvents' extension `sequence` is a string whose order is that of the numbers.
        headers.append(("ce_sequence", f"{draft.sequence:09}".encode()))
    return draft.stream.encode(), draft.message.model_dump_json().encode(), headers


class Codec:
    """Knows which class a wire type means, and how older versions become the current one."""

    def __init__(
        self,
        messages: Iterable[type[Message]] = MESSAGES,
        upcasters: Mapping[str, Upcaster] = UPCASTERS,
    ) -> None:
        self._classes: dict[bytes, type[Message]] = {}
        self._read: dict[bytes, Callable[[bytes], Any]] = {}
        self._upcasters = {wire.encode(): lift for wire, lift in upcasters.items()}
        self.add(messages)

    def add(self, messages: Iterable[type[Message]]) -> None:
        """Adds types of messages. Raises ValueError if there is one of that name and version already."""
        for kind in messages:
            wire = kind.wire_type().encode()
            if self._classes.setdefault(wire, kind) is not kind:
                raise ValueError(f"there are two messages of type {kind.wire_type()}")
            self._read[wire] = kind.__pydantic_validator__.validate_json

    @property
    def messages(self) -> Collection[type[Message]]:
        """All types of messages that it knows."""
        return self._classes.values()

    def envelope(self, headers: Iterable[tuple[str, bytes | None]]) -> Envelope:
        """Wraps the headers of a record, in any order; a header without bytes counts as missing."""
        pairs = tuple(headers)
        found = dict(pairs)
        if OUR_HEADERS.issuperset(found) and None not in found.values():
            return Envelope(found)  # type: ignore[arg-type]  # all but foreign records: three times as fast
        return Envelope({name.lower(): octets for name, octets in pairs if octets is not None})

    def decode(self, envelope: Envelope, value: bytes | None) -> Message:
        """Reads a message of ours; raises UnknownMessageError or UndecodableError."""
        wire = envelope.headers.get("ce_type", b"")
        read = self._read.get(wire)
        if value is None:
            raise UndecodableError("tombstone", "a record of the log has no value")
        try:
            if read is not None:
                message: Message = read(value)
                return message
            if wire in self._upcasters:
                return self._lifted(wire, json.loads(value))
        except UNREADABLE as error:
            raise UndecodableError("not_valid", f"{envelope.type}: {error}"[:2_000]) from error
        name = envelope.type or "none"
        raise UnknownMessageError("unknown_type", f"type {name!r} is not known to this release; upgrade it")

    def message(self, wire_type: str, value: bytes) -> Message:
        """Reads a message of a type, as `decode` does."""
        return self.decode(Envelope({"ce_type": wire_type.encode()}), value)

    def _lifted(self, wire: bytes, body: Json) -> Message:
        while wire in self._upcasters:
            body = self._upcasters[wire](body)
            name, _, version = wire.rpartition(b".v")
            wire = name + b".v" + str(int(version) + 1).encode()
        if wire not in self._classes:
            raise UnknownMessageError("unknown_type", f"no class for {wire.decode()!r} after upcasting")
        return self._classes[wire].model_validate(body)


def command_of(wire_type: str, body: Json, known: Iterable[type[Command]]) -> Command | Problem:
    """Reads the body of one of the known commands, or returns the first of its problems."""
    found = validate_command(wire_type, body, known)
    return found[0] if isinstance(found, tuple) else found


def validate_command(
    wire_type: str, body: Json, known: Iterable[type[Command]]
) -> Command | tuple[Problem, ...]:
    """Reads the body of one of the known commands, or returns all its problems: wrong fields, and why."""
    classes = {kind.wire_type(): kind for kind in known}
    kind = classes.get(wire_type)
    if kind is None:
        return (_unknown_command(wire_type, list(classes)),)
    try:
        return kind.model_validate_json(json.dumps(body))
    except ValidationError as error:
        return problems_of(error, field_names(kind), body)


def _unknown_command(wire_type: str, known: list[str]) -> Problem:
    name, dot, version = wire_type.rpartition(".v")
    same = [other for other in known if dot and other.rpartition(".v")[0] == name]
    if same and version.isdigit():
        message = f"version {version} of {name} is not known here, which has {same[0]}"
        return Problem(code="unknown_version", path="$type", message=message)
    listed = ", ".join(known)
    message = f"unknown command {wire_type[:200]!r}; known: {listed}{nearest(wire_type, known)}"
    return Problem(code="unknown_command", path="$type", message=message)
