"""A version of a model from an artifact of a task: the log has the digest, and what is known of the task."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.model.messages import AddModelVersion, source_of
from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.tasks.artifacts import ArtifactReference, ArtifactSaved, artifact_source
from trackside.contracts.tasks.tasks import Figure
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task
from trackside.sdk.errors import UnsendableError

EXPECTED = "STREAM/TASK/NAME, with @VERSION for another version than the newest"
VALUE = "value"
"""The name of the deciding value of a task among the metrics of a version."""
_FORMATS = {
    ".safetensors": "safetensors",
    ".pt": "torch",
    ".pth": "torch",
    ".onnx": "onnx",
    ".npz": "npz",
    ".gguf": "gguf",
    ".json": "json",
    ".csv": "csv",
    ".txt": "text",
}
_ARTIFACT = re.compile(r"([^/@]+)/([^/@]+)/([^/@]+)(?:@([1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True)
class WantedArtifact:
    """The artifact that a text names; version 0 is the newest one."""

    stream: str
    task: str
    name: str
    version: int

    def is_of(self, task_id: str) -> bool:
        """Returns whether its task is the one of an id, which may be given without the stream's id."""
        return task_id in (self.task, f"{self.stream}.{self.task}")


@dataclass(frozen=True, slots=True)
class _Saved:
    """An artifact, and what its task had when it was saved."""

    event: ArtifactSaved
    part: object
    parameters: Json
    inputs: dict[str, ArtifactReference]


def wanted_artifact(text: str) -> WantedArtifact:
    """Reads `STREAM/TASK/NAME[@VERSION]`; raises UnsendableError."""
    found = _ARTIFACT.fullmatch(text)
    if found is None:
        raise _unknown(f"{text!r} names no artifact; expected {EXPECTED}")
    return WantedArtifact(found[1], found[2], found[3], int(found[4] or 0))


def format_of(name: str) -> str:
    """Returns the format that the ending of a name or a URL stands for; `file` for any other one."""
    path = name.partition("?")[0].partition("#")[0].lower()
    return next((known for ending, known in _FORMATS.items() if path.endswith(ending)), "file")


async def version_of(
    wanted: WantedArtifact,
    folded: AsyncIterator[tuple[Stream, Outcome, Record]],
    facts: dict[str, Any],
) -> AddModelVersion:
    """Returns the command that adds an artifact to a model, with the facts of the task that has saved it.

    `folded` are the records of its stream, from the start. `facts` are more fields of the command, which
    count before those from the log. Raises UnsendableError if the stream has no such artifact.
    """
    saved, read = dict[tuple[str, int], _Saved](), None
    async for stream, outcome, record in folded:
        event, applied, read = record.message, outcome is Outcome.APPLIED, stream
        if applied and isinstance(event, ArtifactSaved) and wanted.is_of(event.task_id):
            task = stream.tasks[event.task_id]
            saved[event.name, event.version] = _Saved(event, task.part, task.parameters, task.inputs)
    tasks: dict[str, Task] = {} if read is None else read.tasks
    newest = max((version for name, version in saved if name == wanted.name), default=0)
    found = saved.get((wanted.name, wanted.version or newest))
    if found is None:
        raise _unknown(_absent(wanted, [*tasks], sorted(saved), is_begun=read is not None))
    return AddModelVersion.model_validate(_fields(wanted.stream, found, tasks[found.event.task_id]) | facts)


def _fields(stream: str, saved: _Saved, task: Task) -> Json:
    event = saved.event
    where = artifact_source(stream, event.task_id, event.name, event.version)
    assert source_of(where) is not None
    pinned = {name: getattr(event, name) for name in ("uri", "sha256", "size_bytes", "media_type")}
    is_newest = task.attempt.number == event.attempt and task.part == saved.part
    return {
        "artifact": ArtifactReference(**pinned, source=where),
        "format": format_of(event.name),
        "task": {"stream": stream, "task": event.task_id, "attempt": event.attempt},
        "parameters": saved.parameters,
        "metrics": _metrics(task) if is_newest else {},
        "inputs": saved.inputs,
    }


def _metrics(task: Task) -> dict[str, Figure]:
    """Returns what a task has reported: the deciding value, and the numbers beside it."""
    last = task.final if task.has_final else task.reports[-1][1] if task.reports else None
    return dict(task.others) | ({} if last is None else {VALUE: last})


def _absent(wanted: WantedArtifact, tasks: list[str], saved: list[tuple[str, int]], *, is_begun: bool) -> str:
    if not is_begun:
        return f"there is no stream {wanted.stream} in the log"
    if not any(wanted.is_of(task) for task in tasks):
        return f"stream {wanted.stream} has no task {wanted.task}{nearest(wanted.task, tasks)}"
    names = sorted({name for name, _ in saved})
    if wanted.name not in names:
        has = f"it has saved {', '.join(names[:10])}" if names else "it has saved none"
        hint = nearest(wanted.name, names)
        return f"task {wanted.task} of {wanted.stream} has saved no {wanted.name!r}; {has}{hint}"
    versions = ", ".join(str(version) for name, version in saved if name == wanted.name)
    return f"{wanted.name!r} has no version {wanted.version}; it has {versions}"


def _unknown(message: str) -> UnsendableError:
    return UnsendableError(Problem(code="unknown_artifact", path="$.artifact.source", message=message))
