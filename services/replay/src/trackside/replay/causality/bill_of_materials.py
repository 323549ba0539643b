"""What a version of a model was made of, back to the first one: samples, code, parameters, models, decisions.

All of it is in the log: in the stream of the model, in that of the job whose round has trained the version,
and in that of the task. What isn't there is `unknown`, as text.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from trackside.aggregates.model.messages import ModelVersionAdded
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.rounds import messages
from trackside.aggregates.rounds.job import deploy_messages
from trackside.contracts.envelope.message import Json, Message, Record
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.fleet.fleet import CatalogueChanged, WorkerJoined
from trackside.contracts.tasks.tasks import AttemptAdopted, TaskAccepted, TaskAssigned, TaskSubmitted
from trackside.domain.fleet.fleet import Fleet, evolve
from trackside.domain.folding.fold import fold
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import parse_cause
from trackside.domain.streams.stream import Stream, shrink
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Log
from trackside.replay.history.errors import UnknownStreamError, UnknownSubjectError
from trackside.replay.history.recorded_stream import RecordedStream, read_entries

FindRecorded = Callable[[str], Awaitable[RecordedStream]]
"""Returns a recorded stream by its id; raises UnknownStreamError."""
MAX_VERSIONS = 1_000
"""How many versions a bill has; a longer line of base models is cut, and that is said."""
MAX_STREAMS = 64
"""How many streams are kept for later bills: those that were asked for last."""
_Decision = deploy_messages.DeployDecided | deploy_messages.DeployApproved | deploy_messages.DeployRejected
_KEPT = (
    *(ModelVersionAdded, TaskSubmitted, TaskAssigned, TaskAccepted, AttemptAdopted),
    *(messages.RoundStarted, messages.SampleManifestWritten, messages.ModelTrained),
    *(deploy_messages.DeployDecided, deploy_messages.DeployApproved, deploy_messages.DeployRejected),
    deploy_messages.ModelDeployed,
)
M = TypeVar("M", bound=Message)


@dataclass
class _Applied:
    """The records of a stream that a bill is made of, as far as they had an effect."""

    records: list[Record]

    def of(self, kind: type[M]) -> list[tuple[M, Record]]:
        return [(each.message, each) for each in self.records if isinstance(each.message, kind)]

    def last(self, kind: type[M], wanted: Callable[[M], bool]) -> M | None:
        return next((event for event, _ in reversed(self.of(kind)) if wanted(event)), None)


@dataclass
class _ReadStream:
    """A stream as far as it was read: `recorded` begins where reading goes on."""

    recorded: RecordedStream
    applied: _Applied = field(default_factory=lambda: _Applied([]))
    stream: Stream = field(init=False)

    def __post_init__(self) -> None:
        self.stream = Stream(self.recorded.stream_id, self.recorded.partition)

    async def read_on(self, events: str) -> None:
        """Takes in what was written since to the topic `events`; may be cancelled, and goes on from there."""
        topic, partition = self.recorded.place
        ends = await self.recorded.log.ends(topic)
        end = ends[partition] if topic == events else self.recorded.end  # an imported stream does not grow
        self.recorded = replace(self.recorded, end=end)
        async with aclosing(self.recorded.records()) as records:
            async for record, entry in records:
                outcome = fold(self.stream, record, AGGREGATES)
                self._take(record, outcome)
                async for again, became, _ in self.recorded.read_again(self.stream, entry.offset + 1):
                    self._take(again, became)
                self.recorded = replace(self.recorded, begin=entry.offset + 1)
        self.recorded = replace(self.recorded, begin=end)

    def _take(self, record: Record, outcome: Outcome) -> None:
        shrink(self.stream)
        if outcome is Outcome.APPLIED and isinstance(record.message, _KEPT):
            self.applied.records.append(record)


class BillReader:
    """Makes bills from one log. It keeps what it has read of MAX_STREAMS streams, and goes on from there."""

    def __init__(self, log: Log, topics: Topics, find: FindRecorded) -> None:
        self._log, self._topics, self._find = log, topics, find
        self.catalogues: list[Record] = []
        self._catalogue_ends: dict[int, int] = {}
        self._fleet = Fleet()
        self._streams: dict[str, _ReadStream] = {}
        self._fresh: dict[str, _Applied | None] = {}
        """The streams that were read for the present bill, None for one that is not in the log."""
        self._lock = asyncio.Lock()

    async def bill(self, model: str, version: int) -> Json:
        """Returns the bill of a version, as `bill_of_materials` does."""
        async with self._lock:
            self._fresh.clear()
            await self._read_catalogues()
            found = await _bill(self, model, version)
            while len(self._streams) > MAX_STREAMS:
                self._streams.pop(next(iter(self._streams)))
            return found

    async def find(self, stream_id: str) -> None:
        """Raises UnknownStreamError if there is no such stream."""
        if stream_id not in self._streams:
            self._streams[stream_id] = _ReadStream(await self._find(stream_id))

    async def stream(self, stream_id: str) -> _Applied | None:
        """Returns what is kept of a stream, None if it is not in the log."""
        if stream_id not in self._fresh:
            try:
                await self.find(stream_id)
            except UnknownStreamError:
                self._fresh[stream_id] = None
                return None
            read = self._streams[stream_id] = self._streams.pop(stream_id)  # the newest of them
            await read.read_on(self._topics.events.name)
            self._fresh[stream_id] = read.applied
        return self._fresh[stream_id]

    async def _read_catalogues(self) -> None:
        """Takes in what workers have said of their catalogues since, in the order of time."""
        topic = self._topics.fleet.name
        begins, ends = await self._log.beginnings(topic), await self._log.ends(topic)
        for partition in range(len(ends)):
            begin = max(begins[partition], self._catalogue_ends.get(partition, 0))
            async with aclosing(
                read_entries(self._log, (topic, partition), begin, ends[partition])
            ) as batches:
                async for batch in batches:
                    records = (record for entry in batch if (record := decode(entry)) is not None)
                    self.catalogues += [
                        each
                        for each in records
                        if evolve(self._fleet, each) is Outcome.APPLIED
                        and isinstance(each.message, WorkerJoined | CatalogueChanged)
                    ]
                    self._catalogue_ends[partition] = batch[-1].offset + 1
        self.catalogues.sort(key=lambda record: record.append_time_ms)


async def bill_of_materials(log: Log, topics: Topics, find: FindRecorded, model: str, version: int) -> Json:
    """Returns the bill of a version: `versions` has it, its base model, the base of that, back to the first.

    Raises UnknownStreamError without such a model, UnknownSubjectError without such a version.
    """
    return await BillReader(log, topics, find).bill(model, version)


async def _bill(reader: BillReader, model: str, version: int) -> Json:
    await reader.find(model)
    found: dict[tuple[str, int], Json] = {}
    following: tuple[str, int] | None = (model, version)
    while following is not None and following not in found and len(found) < MAX_VERSIONS:
        found[following] = entry = await _version(reader, *following)
        base = entry["base"]
        following = None if base is None else (base["model"], base["version"])
    bill = {"model": model, "version": version, "versions": [*found.values()]}
    return bill | ({"cut": True} if len(found) == MAX_VERSIONS else {})


async def _version(reader: BillReader, model: str, version: int) -> Json:
    stream = await reader.stream(model)
    added = [] if stream is None else stream.of(ModelVersionAdded)
    event, record = next(((one, at) for one, at in added if one.version == version), (None, None))
    if event is None or record is None:
        raise UnknownSubjectError(f"model {model} has no version {version}; it has {len(added)}")
    spec = event.model
    base = next(
        (
            {"model": model, "version": one.version, "sha256": one.model.artifact.sha256}
            for one, _ in added
            if one.version < version and one.model.artifact.sha256 in _digests(spec.inputs.values())
        ),
        None,
    )
    entry: Json = {
        "model": model,
        "version": version,
        "added_ms": record.append_time_ms,
        "artifact": spec.artifact.model_dump(mode="json"),
        "format": spec.format,
        "metrics": spec.metrics,
        "parameters": spec.parameters,
        "inputs": {name: each.model_dump(mode="json") for name, each in spec.inputs.items()},
        "base": base,
        "code": None,
        "round": None,
        "unknown": [],
    }
    if spec.task is None:
        entry["unknown"].append("its task: the artifact is from outside")
    else:
        await _add_task(reader, entry, spec.task.model_dump())
    sender = parse_cause(event.command_id)
    if sender is not None:
        await _add_round(reader, entry, *sender)
    return entry


async def _add_task(reader: BillReader, entry: Json, task: Json) -> None:
    """Adds the code and the parameters of the task that has trained a version."""
    stream = await reader.stream(task["stream"])
    task_id, attempt = task["task"], task["attempt"]
    submitted = None if stream is None else stream.last(TaskSubmitted, lambda one: one.task_id == task_id)
    if stream is None or submitted is None:
        entry["unknown"].append(f"task {task_id} of {task['stream']}: it is not in the log")
        return
    assigned = stream.last(TaskAssigned, lambda one: (one.task_id, one.attempt) == (task_id, attempt))
    begun_ms = None if assigned is None else _begun_ms(stream, assigned)
    digest = None
    if assigned is not None and begun_ms is not None:
        digest = _digest(reader.catalogues, assigned, submitted.task_type, begun_ms)
    if digest is None:
        entry["unknown"].append(f"the digest of task type {submitted.task_type}: no catalogue has it")
    worker = None if assigned is None else assigned.worker_id
    entry["code"] = {**task, "task_type": submitted.task_type, "digest": digest, "worker": worker}
    entry["parameters"] = entry["parameters"] or submitted.parameters
    entry["inputs"] = entry["inputs"] or {
        name: each.model_dump(mode="json") for name, each in submitted.inputs.items()
    }


def _begun_ms(stream: _Applied, assigned: TaskAssigned) -> int | None:
    """Returns when a placement was accepted, or adopted if its worker ended before that; None for neither."""
    placement = (assigned.task_id, assigned.attempt, assigned.placement)
    begins: list[tuple[TaskAccepted | AttemptAdopted, Record]] = [
        *stream.of(TaskAccepted),
        *stream.of(AttemptAdopted),
    ]
    return min(
        (
            record.append_time_ms
            for event, record in begins
            if (event.task_id, event.attempt, event.placement) == placement
        ),
        default=None,
    )


async def _add_round(reader: BillReader, entry: Json, job: str, asked_at: int) -> None:
    """Adds the round of a job that has sent the version to the model: samples, base, and the decision."""
    stream = await reader.stream(job)
    trained = (
        []
        if stream is None
        else [one for one, at in stream.of(messages.ModelTrained) if at.offset == asked_at]
    )
    if stream is None or not trained:
        entry["unknown"].append(f"the round of {job} that it is of: it is not in the log")
        return
    number = trained[0].round
    started = stream.last(messages.RoundStarted, lambda one: one.number == number)
    stages = {}
    for stage in ("train", "eval"):
        written = stream.last(
            messages.SampleManifestWritten,
            lambda one: (one.stage, one.round) == (stage, number),  # noqa: B023
        )
        prefix = f"{job}.r{number}.{stage}-samples."
        task = stream.last(TaskSubmitted, lambda one: one.task_id.startswith(prefix))  # noqa: B023
        if written is not None:
            stages[stage] = _samples(written, task)
    decisions = [
        {"event": type(one).__name__, "offset": at.offset, "at_ms": at.append_time_ms}
        | one.model_dump(mode="json", exclude={"round"})
        for one, at in stream.of(Message)
        if isinstance(one, _Decision) and one.round == number
    ]
    live = [
        at.append_time_ms
        for one, at in stream.of(deploy_messages.ModelDeployed)
        if (one.model, one.version) == (entry["model"], entry["version"])
    ]
    entry["round"] = {
        "job": job,
        "number": number,
        "samples": stages,
        "decisions": decisions,
        "live_ms": live,
    }
    if started is not None:
        base = started.base
        entry["base"] = {"model": base.model, "version": base.version, "sha256": base.artifact.sha256}
    if "eval" not in stages:
        entry["unknown"].append("samples of the evaluation: there was none")


def _samples(written: messages.SampleManifestWritten, task: TaskSubmitted | None) -> Json:
    """Returns a file of samples, and the part of the dataset that they are from."""
    own = written.model_dump(mode="json", exclude={"stage", "round"})
    given = {} if task is None else task.parameters
    return own | {name: given.get(name) for name in ("dataset", "end", "segments", "ranges")}


def _digest(catalogues: Iterable[Record], assigned: TaskAssigned, task_type: str, at_ms: int) -> str | None:
    """Returns the digest of a task type in the catalogue of a worker, as of a time."""
    found = None
    for record in catalogues:
        event: Any = record.message
        if record.append_time_ms > at_ms:
            break
        if (event.worker_id, event.incarnation) == (assigned.worker_id, assigned.incarnation):
            found = event.digests.get(task_type)
    return found


def _digests(references: Iterable[Any]) -> set[str]:
    return {each.sha256 for each in references}
