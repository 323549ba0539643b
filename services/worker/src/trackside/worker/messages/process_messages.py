"""The messages between worker, forkserver and task processes, and their encoding. Pure.

    worker  -> forkserver     fork, signal, hold, release, progress-appended, contact    a packet each
    forkserver -> worker      ready, forked, fork-failed, exited, offer, held
    worker  -> task process   assignment, LOAD, TRAIN, EXIT, NEXT, CHECKPOINT, FETCHED,      a line each
                              STORED, INSTRUCTION
    task process -> worker    status, reports, final, points, parameters-request, answer-received,
                              ready-to-serve, alive, instruction-answer, checkpoint-request, fetch-request,
                              release, resumed, interrupted, artifact, summary, summary-omitted,
                              stored-request, ending, over, free
    task process -> its files ending, artifact; its progress: what decides of the above, answer-taken

A message is a JSON object on one line: `type` and the fields of its class. The processes are of one release,
except where a worker takes over what an earlier one has started: see PROTOCOL of forkserver_messages. File
descriptors are sent with a message, next to it. The forkserver imports this module: it uses the standard
library only, and named tuples, which are defined faster than dataclasses.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from trackside.worker.messages.assignment import Assignment
from trackside.worker.messages.forkserver_messages import (
    ForkFailed,
    ForkProcess,
    ForkserverOffer,
    ForkserverReady,
    HeldProcess,
    HoldProcess,
    LogContact,
    ProcessExited,
    ProcessForked,
    ProgressAppended,
    ReleaseProcess,
    SignalProcess,
)
from trackside.worker.messages.report_messages import (
    ArtifactReady,
    FinalValue,
    MetricPoint,
    PointBatch,
    ReportBatch,
    ReportedValue,
    StepReport,
    StoredAnswer,
    StoredRequest,
    SummaryOmitted,
    SummaryValueReport,
)

MAX_SHOWN_BYTES = 200


class UnreadableMessageError(Exception):
    """A line or packet that is not one of the expected messages; the text says what was expected."""


class LoadCommand(NamedTuple):
    """Load, which needs no device."""


class TrainCommand(NamedTuple):
    """Train; `device` is torch's name of the first device."""

    device: str


class ExitCommand(NamedTuple):
    """End without beginning another phase."""


class ParametersAnswer(NamedTuple):
    """The answer to a ParametersRequest: parameters, none, or a `problem` with the ones that there were."""

    request: int
    parameters: dict[str, Any] | None = None
    problem: str = ""


class InstructionMessage(NamedTuple):
    """The newest instruction of the task, which replaces the one before."""

    number: int
    body: dict[str, Any]


class CheckpointAnswer(NamedTuple):
    """The answer to a CheckpointRequest: a checkpoint and where it was put, none, or a `problem`.

    `warning` says why it is not the newest one.
    """

    request: int
    checkpoint: dict[str, Any] | None = None
    """The fields of a CheckpointReference."""
    path: str = ""
    code: str = ""
    problem: str = ""
    warning: str = ""


class FetchAnswer(NamedTuple):
    """The answer to a FetchRequest: the path of the artifact, or a `problem`."""

    request: int
    path: str = ""
    code: str = ""
    problem: str = ""


class PhaseBegan(NamedTuple):
    """A phase has begun: a number of TaskStatus."""

    status: int


class ParametersRequest(NamedTuple):
    """The task asks for the parameters of another trial; requests of an attempt are counted from 1."""

    request: int


class AnswerReceived(NamedTuple):
    """The task has the answer to a request, and runs another trial if `goes_on`."""

    request: int
    goes_on: bool


class ServiceReady(NamedTuple):
    """The service serves; `detail` is what it says of that."""

    detail: dict[str, Any]


class ServiceAlive(NamedTuple):
    """The service has asked for instructions."""


class InstructionAnswer(NamedTuple):
    """The task has carried out an instruction, or has not (`ok`); `detail` is what it says of that."""

    number: int
    ok: bool
    detail: dict[str, Any]


class CheckpointRequest(NamedTuple):
    """The last checkpoint is wanted: `by_task`, or by its process, which has a program to start with it.

    Requests of an attempt are counted from 1.
    """

    request: int
    by_task: bool


class TrainingResumed(NamedTuple):
    """Training continues from a checkpoint, whose fields are those of the CheckpointAnswer."""

    checkpoint: dict[str, Any]


class FetchRequest(NamedTuple):
    """The task wants an artifact, such as one that an instruction names; requests count from 1."""

    request: int
    reference: dict[str, Any]
    """The fields of an ArtifactReference, unless they are wrong."""


class ArtifactReleased(NamedTuple):
    """The task no longer uses an artifact that it has fetched."""

    reference: dict[str, Any]
    """The fields of an ArtifactReference, unless they are wrong."""


class TrainingInterrupted(NamedTuple):
    """Training ran out of memory of `resource`, host or device, and may be repeated; peaks are in bytes."""

    resource: str
    error: dict[str, str]
    peak_memory_bytes: int
    peak_cuda_memory_bytes: int


class AttemptEnding(NamedTuple):
    """How the attempt ended: the content of its ending file, or sent if that could not be written."""

    end: str
    """An AttemptEnd."""
    result: dict[str, Any] | None
    error: dict[str, str] | None
    """The fields of a TaskError; None for a task that finished."""
    exit_code: int | None
    """That of a program which failed; else the exit code of the process counts."""
    leftovers: list[str]
    """The names of processes of the task that were killed at its end."""
    load_time_ms: int
    """-1 for a task that did not load to the end; so is `train_time_ms`."""
    train_time_ms: int
    peak_memory_bytes: int
    peak_cuda_memory_bytes: int
    interrupts: int
    """How often training has run out of memory, earlier placements included."""
    reports: list[StepReport]
    """The reports of its current trial; none in an ending that is sent, as they were sent before."""
    final: ReportedValue | None
    requests: int
    """How many requests for the parameters of another trial were answered."""
    resumed: dict[str, Any] | None = None
    """The checkpoint that its last training continued from, as a CheckpointReference."""


class AttemptOver(NamedTuple):
    """The attempt has ended, and its ending is in its file."""


class AnswerTaken(NamedTuple):
    """The task has the answer to a request of this type, such as `fetch-request`; in its progress only."""

    kind: str
    request: int


class ProcessFree(NamedTuple):
    """A warm process waits for another task; what it uses now, in bytes."""

    memory_bytes: int
    cuda_memory_bytes: int


ToForkserver = ForkProcess | SignalProcess | HoldProcess | ReleaseProcess | ProgressAppended | LogContact
FromForkserver = ForkserverReady | ProcessForked | ForkFailed | ProcessExited | ForkserverOffer | HeldProcess
ControlMessage = (
    LoadCommand
    | TrainCommand
    | ExitCommand
    | ParametersAnswer
    | CheckpointAnswer
    | FetchAnswer
    | StoredAnswer
    | InstructionMessage
)
FromTask = (
    PhaseBegan
    | ReportBatch
    | FinalValue
    | PointBatch
    | ParametersRequest
    | AnswerReceived
    | ServiceReady
    | ServiceAlive
    | InstructionAnswer
    | CheckpointRequest
    | FetchRequest
    | ArtifactReleased
    | TrainingResumed
    | TrainingInterrupted
    | ArtifactReady
    | SummaryValueReport
    | SummaryOmitted
    | StoredRequest
    | AttemptEnding
    | AttemptOver
    | ProcessFree
)
ProcessMessage = ToForkserver | FromForkserver | Assignment | ControlMessage | FromTask | AnswerTaken

TO_FORKSERVER: Mapping[str, type[ToForkserver]] = {
    "fork": ForkProcess,
    "signal": SignalProcess,
    "hold": HoldProcess,
    "release": ReleaseProcess,
    "progress-appended": ProgressAppended,
    "contact": LogContact,
}
FROM_FORKSERVER: Mapping[str, type[FromForkserver]] = {
    "ready": ForkserverReady,
    "forked": ProcessForked,
    "fork-failed": ForkFailed,
    "exited": ProcessExited,
    "offer": ForkserverOffer,
    "held": HeldProcess,
}
ASSIGNMENT: Mapping[str, type[Assignment]] = {"assignment": Assignment}
CONTROL: Mapping[str, type[ControlMessage]] = {
    "LOAD": LoadCommand,
    "TRAIN": TrainCommand,
    "EXIT": ExitCommand,
    "NEXT": ParametersAnswer,
    "CHECKPOINT": CheckpointAnswer,
    "FETCHED": FetchAnswer,
    "STORED": StoredAnswer,
    "INSTRUCTION": InstructionMessage,
}
FROM_TASK: Mapping[str, type[FromTask]] = {
    "status": PhaseBegan,
    "reports": ReportBatch,
    "final": FinalValue,
    "points": PointBatch,
    "parameters-request": ParametersRequest,
    "answer-received": AnswerReceived,
    "ready-to-serve": ServiceReady,
    "alive": ServiceAlive,
    "instruction-answer": InstructionAnswer,
    "checkpoint-request": CheckpointRequest,
    "fetch-request": FetchRequest,
    "release": ArtifactReleased,
    "resumed": TrainingResumed,
    "interrupted": TrainingInterrupted,
    "artifact": ArtifactReady,
    "summary": SummaryValueReport,
    "summary-omitted": SummaryOmitted,
    "stored-request": StoredRequest,
    "ending": AttemptEnding,
    "over": AttemptOver,
    "free": ProcessFree,
}
ENDING_FILE: Mapping[str, type[AttemptEnding]] = {"ending": AttemptEnding}
PROGRESS: Mapping[str, type[FromTask | AnswerTaken]] = {**FROM_TASK, "answer-taken": AnswerTaken}
SPOOL_RECORD: Mapping[str, type[ArtifactReady]] = {"artifact": ArtifactReady}
_TYPES: dict[type, str] = {
    kind: name
    for kinds in (TO_FORKSERVER, FROM_FORKSERVER, ASSIGNMENT, CONTROL, PROGRESS)
    for name, kind in kinds.items()
}
_ITEMS: dict[Any, Any] = {list[StepReport]: StepReport, list[MetricPoint]: MetricPoint}
Expected = TypeVar("Expected")


def type_of(message: ProcessMessage) -> str:
    """Returns the name of a message's type."""
    return _TYPES[type(message)]


def encode(message: ProcessMessage) -> bytes:
    """Returns a message as a line, with its newline."""
    return json.dumps({"type": type_of(message), **message._asdict()}).encode() + b"\n"


def decode(octets: bytes, expected: Mapping[str, type[Expected]]) -> Expected:
    """Returns the message of a line or packet. Raises UnreadableMessageError if it is not an expected one."""
    try:
        found = json.loads(octets)
    except (ValueError, RecursionError):
        found = None
    name = found.pop("type", None) if isinstance(found, dict) else None
    kind: Any = expected.get(name) if isinstance(name, str) else None
    if kind is None:
        *others, last = expected
        names = f"{', '.join(others)} or {last}" if others else last
        raise UnreadableMessageError(f"expected {names}, got {octets[:MAX_SHOWN_BYTES]!r}")
    readers = _readers(kind)
    try:
        message: Expected = kind(**{key: readers[key](value) for key, value in found.items()})
    except (KeyError, TypeError, ValueError) as error:
        reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise UnreadableMessageError(f"{name}: {reason}; got {octets[:MAX_SHOWN_BYTES]!r}") from error
    return message


@cache
def _readers(kind: type) -> dict[str, Callable[[Any], Any]]:
    return {name: partial(_read, name, annotation) for name, annotation in kind.__annotations__.items()}


def _read(name: str, annotation: Any, value: Any) -> Any:
    """Checks the type of a field; within a list or an object only the lengths of named tuples."""
    kinds = _kinds(annotation)
    fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
    if not fits:
        raise TypeError(f"{name}: expected {' or '.join(kind.__name__ for kind in kinds)}")
    item = _ITEMS.get(annotation)
    return value if item is None else [item._make(each) for each in value]


@cache
def _kinds(annotation: Any) -> tuple[type, ...]:
    """Returns the classes that an annotation permits; for float also int, as JSON writes 1 for both."""
    parts = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    kinds = tuple(get_origin(part) or part for part in parts)
    return (*kinds, int) if float in kinds else kinds
