"""Given histories of searches, as services write them; the fold applies all their events."""

import json
import random
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from tests.commands import INPUT
from tests.unit.projections.given_batches import eventful_batch, stopped_batch, unfinished_batch
from tests.unit.projections.given_services import served_batch
from tests.unit.projections.published_commands import with_publication
from trackside.aggregates.search import messages
from trackside.aggregates.search.space.space import Space
from trackside.contracts.envelope.ids import trial_task_id
from trackside.contracts.envelope.message import Event, Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.fleet.draining import DeviceDrained, DeviceResumed
from trackside.contracts.fleet.fleet import WorkerJoined, WorkerLost
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.streams.labels import StreamAnnotated
from trackside.contracts.tasks import tasks
from trackside.contracts.tasks.artifacts import ArtifactSaved, ArtifactsForgotten, CheckpointReference
from trackside.contracts.tasks.summaries import MetricPointsReported, Series
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log, Outgoing

DISPATCHER, SCHEDULER, WORKER = (RecordWriter(role, "1") for role in ("dispatcher", "scheduler", "worker"))
SPACE: Space = messages.SearchSpec.model_validate_json(
    '{"task_type": "t", "max_trials": 1, "space": {"lr": {"type": "uniform", "low": 0, "high": 1}}}'
).space
INPUTS = {"digits": INPUT}
BEGUN_WITH = CheckpointReference(
    uri=f"store:sha256/{INPUT.sha256}",
    sha256=INPUT.sha256,
    size_bytes=2_048,
    source="digits-1/digits-1.3/checkpoint@2",
    step=10,
)
ANNOTATIONS = (
    StreamAnnotated(command_id="", added_tags=["paper", "draft"], note="for table\x00 2"),
    StreamAnnotated(command_id="", added_tags=["baseline"], removed_tags=["draft"], archived=True),
    StreamAnnotated(command_id="", archived=False),
)
DRAINS = (
    DeviceDrained(command_id="", device_id="cpu0", reason="fan\x00"),
    DeviceDrained(command_id="", device_id="cpu1"),
    DeviceResumed(command_id="", device_id="cpu1"),
)
Decision = list[Outgoing]
NUMBERS: WeakKeyDictionary[Log, Counter[str]] = WeakKeyDictionary()
"""The last number of each incarnation in a log."""


@dataclass
class HistoryWriter:
    """Writes decisions to a log, each in one append."""

    log: Log
    topics: Topics

    async def append(self, stream: str, decision: Decision) -> None:
        """Appends one decision to the partition of its stream; workers' events get the next number."""
        topic = self.topics.events
        published = [await with_publication(self.log, self.topics, stream, record) for record in decision]
        numbered = [self._numbered(record) for record in published]
        await self.log.append(topic.name, partition_of(stream, topic.partitions), numbered)

    def _numbered(self, record: Outgoing) -> Outgoing:
        """Returns the event of a worker with its number, unless it was recovered.

        The end that a worker gives an attempt which is lost has a number too, but is not in the log.
        """
        body = json.loads(record.value or b"{}")
        by_worker = ("ce_source", WORKER.source.encode()) in record.headers
        if "incarnation" not in body or not (by_worker or "end" in body) or body.get("recovered"):
            return record
        numbers = NUMBERS.setdefault(self.log, Counter())
        numbers[body["incarnation"]] += 1
        number = f"{numbers[body['incarnation']]:09}".encode()
        return replace(record, headers=[*record.headers, ("ce_sequence", number)]) if by_worker else record

    async def join(self, worker: str, incarnation: str, devices: int = 2) -> None:
        slot = {"kind": "cpu", "name": "slot", "memory_bytes": 2**30}
        has = {"devices": [{"device_id": f"cpu{at}", **slot} for at in range(devices)]}
        runs = {"host": "here", "task_types": ["digits"], "queues": ["default"], "after": {}}
        joined = WorkerJoined.model_validate({"worker_id": worker, "incarnation": incarnation, **has, **runs})
        await self.log.append(self.topics.fleet.name, 0, [self._numbered(WORKER.single(worker, joined))])

    async def lose(self, worker: str, incarnation: str) -> None:
        lost = WorkerLost(worker_id=worker, incarnation=incarnation, silent_ms=10_000)
        await self.log.append(self.topics.fleet.name, 0, [SCHEDULER.single(worker, lost)])

    async def search(self, search: str, **options: int) -> None:
        for decision in search_decisions(search, **options):
            await self.append(search, decision)

    async def metrics(self, task: str, attempt: int, tag: str, steps: list[int], stream: str = "s") -> None:
        """Writes a batch of metric points of one series."""
        times_ms, values = [1_000 + step for step in steps], [step / 2 for step in steps]
        series = Series(tag=tag, steps=steps, times_ms=times_ms, values=values)
        message = MetricPointsReported(stream=stream, task_id=task, attempt=attempt, series=[series])
        topic = self.topics.metrics
        await self.log.publish(topic.name, partition_of(task, topic.partitions), WORKER.single(task, message))


def command_received(search: str, command: str, kind: str, offset: int) -> CommandReceived:
    source = Source(topic="trackside.commands", partition=0, offset=offset)
    said = {"command_id": command, "command_type": kind, "body": {"n": offset}, "digest": command}
    return CommandReceived.model_validate({**said, "source": source, "publisher": "cli", "rules": 1})


def refused_command(search: str, command: str, kind: str, offset: int) -> Iterator[Decision]:
    received = command_received(search, command, kind, offset)
    yield [DISPATCHER.single(search, received)]
    why: Any = {"code": "unknown_field", "path": "$.x", "message": "no x\x00"}
    refused = CommandRefused(command_id=command, source=received.source, **why)
    yield [DISPATCHER.single(search, refused)]


def saved_digest(task: str, number: int, attempt: int = 1) -> str:
    token = {"task_id": task, "attempt": attempt, "placement": 1, "incarnation": "i1"}
    return saved_artifacts(token)[number - 1].sha256


def forgetting(search: str, command: str, digests: list[str], offset: int = 1) -> Iterator[Decision]:
    received = command_received(search, command, "trackside.forget-artifacts.v1", offset)
    yield [DISPATCHER.single(search, received)]
    accepted = CommandAccepted(command_id=command, source=received.source)
    forgotten = ArtifactsForgotten(command_id=command, artifacts=digests, reason="old\x00")
    yield DISPATCHER.decision(search, [accepted, forgotten])


def carried_out(stream: str, command: str, event: Event, offset: int) -> Iterator[Decision]:
    received = command_received(stream, command, "test", offset)
    yield [DISPATCHER.single(stream, received)]
    accepted = CommandAccepted(command_id=command, source=received.source)
    yield DISPATCHER.decision(stream, [accepted, event.model_copy(update={"command_id": command})])


def search_decisions(
    search: str, trials: int = 3, reports: int = 5, lost: int = -1, failed: int = -1, open_ended: int = 0
) -> Iterator[Decision]:
    """Yields the decisions of a search whose trials run one after another.

    `lost`: the trial whose first attempt is lost; `failed`: the trial that fails.
    """
    received = command_received(search, f"{search}-start", "trackside.start-search.v1", 0)
    yield [DISPATCHER.single(search, received)]
    limits: Any = {"max_trials": trials, "concurrency": 1}
    spec = messages.SearchSpec(name="three", task_type="digits", space=SPACE, **limits)
    accepted = CommandAccepted(command_id=received.command_id, source=received.source)
    started = messages.SearchStarted(command_id=received.command_id, search=spec, seed=7)
    yield DISPATCHER.decision(search, [accepted, started])
    chance = random.Random(search)
    for trial in range(trials):
        yield from _trial(search, trial, reports, chance, trial == lost, trial == failed)
    if not open_ended:
        ended = messages.SearchEnded(status=messages.SearchStatus.DONE, trials=trials)
        yield [DISPATCHER.single(search, ended)]


def _trial(
    search: str, trial: int, reports: int, chance: random.Random, lost: bool, failed: bool
) -> Iterator[Decision]:
    task = trial_task_id(search, trial)
    parameters = {"lr": chance.random(), "hidden": chance.randrange(500), "optimizer": "adam"}
    has = {"inputs": INPUTS if trial == 0 else {}, "checkpoint": BEGUN_WITH if trial == 1 else None}
    what: Any = {"task_id": task, "task_type": "digits", "parameters": parameters, **has}
    submitted = tasks.TaskSubmitted(part=Part(kind="trial", number=trial), **what)
    suggested = messages.TrialSuggested(trial=trial, parameters=parameters, seen=0)
    yield DISPATCHER.decision(search, [suggested, submitted])
    if lost:
        yield from _attempt(search, task, 1, reports // 2, chance)
        yield [_ended(SCHEDULER, search, task, 1, tasks.AttemptEnd.LOST)]
    attempt = 2 if lost else 1
    values = yield from _attempt(search, task, attempt, reports, chance)
    end = tasks.AttemptEnd.FAILED if failed else tasks.AttemptEnd.FINISHED
    yield [_ended(WORKER, search, task, attempt, end)]
    status = messages.TrialStatus.FAILED if failed else messages.TrialStatus.SUCCEEDED
    value = None if failed or not values else values[-1]
    yield [DISPATCHER.single(search, messages.TrialEnded(trial=trial, status=status, value=value))]


def _attempt(
    search: str, task: str, attempt: int, reports: int, chance: random.Random
) -> Generator[Decision, None, list[float]]:
    token = {"task_id": task, "attempt": attempt, "placement": 1}
    here = {**token, "incarnation": "i1"}
    assigned = {**here, "worker_id": "w1", "device_ids": ["cpu0"], "seen": 0}
    yield [SCHEDULER.single(search, tasks.TaskAssigned.model_validate(assigned))]
    yield [WORKER.single(search, tasks.TaskAccepted.model_validate(here))]
    for status in (tasks.TaskStatus.LOADING, tasks.TaskStatus.WAITING, tasks.TaskStatus.TRAINING):
        yield [WORKER.single(search, tasks.TaskStatusChanged.model_validate({**here, "status": status}))]
    values = [chance.random() for _ in range(reports)]
    for step, value in enumerate(values):
        yield [WORKER.single(search, _report(token, "PERIODICAL", step, value))]
    yield [WORKER.single(search, saved) for saved in saved_artifacts(here)]
    if values:
        yield [WORKER.single(search, _report(token, "FINAL", reports, values[-1]))]
    return values


def saved_artifacts(token: dict[str, Any]) -> list[ArtifactSaved]:
    named = [("weights\x00", "file", None, {"note": "\x00"}), ("checkpoint", "checkpoint", 2, {})]
    found = []
    for number, (name, kind, step, metadata) in enumerate(named, 1):
        digest = sha256(f"{token}{name}".encode()).hexdigest()
        stored = {"uri": f"store:sha256/{digest}", "sha256": digest, "size_bytes": 2**53}
        what = {"name": name, "kind": kind, "step": step, "metadata": metadata}
        fields = {**token, **what, **stored, "number": number, "version": token["attempt"]}
        found.append(ArtifactSaved.model_validate(fields))
    return found


def _report(token: dict[str, object], kind: str, step: int, value: float) -> Message:
    return tasks.MetricReported.model_validate({**token, "kind": kind, "step": step, "value": value})


def _ended(writer: RecordWriter, search: str, task: str, attempt: int, end: tasks.AttemptEnd) -> Outgoing:
    error = None
    if end is tasks.AttemptEnd.FAILED:
        why: Any = {"stage": "TRAIN", "type": "ValueError", "message": "bad\x00value"}
        error = tasks.TaskError(**why, traceback="Traceback")
    is_good = end is tasks.AttemptEnd.FINISHED
    token = {"task_id": task, "attempt": attempt, "placement": 1, "incarnation": "i1"}
    took = {"load_time_ms": 12, "train_time_ms": 345, "exit_code": 0 if is_good else 1}
    result = {"accuracy": 0.5, "note": "\x00"} if is_good else None
    ended = tasks.AttemptEnded.model_validate({**token, **took, "end": end, "error": error, "result": result})
    return writer.single(search, ended)


async def write_small_history(log: Log, topics: Topics) -> HistoryWriter:
    """Writes two finished searches and an open one, four batches, a refused command, some points."""
    history = HistoryWriter(log, topics)
    await log.ensure(topics.shared)
    await history.join("w1", "i0", devices=3)
    await history.join("w1", "i1")
    await history.join("w2", "i2")
    await history.search("one", lost=1)
    await history.search("two", trials=4, failed=2)
    for batch_id, written in (
        ("tasks", eventful_batch),
        ("halted", stopped_batch),
        ("going", unfinished_batch),
        ("serving", served_batch),
    ):
        for decision in written(batch_id):
            await history.append(batch_id, decision)
    for decision in refused_command("two", "late", "trackside.stop-search.v1", 9):
        await history.append("two", decision)
    for decision in forgetting("one", "forget", [saved_digest("one.0", 2), saved_digest("one.2", 1)] * 2):
        await history.append("one", decision)
    await history.search("open", trials=5, open_ended=1)
    for number, event in enumerate(ANNOTATIONS, 20):
        for name in ("one", "open"):  # one has ended
            for decision in carried_out(name, f"annotate-{number}", event, number):
                await history.append(name, decision)
    for number, drain in enumerate(DRAINS, 30):
        for decision in carried_out("w2", f"drain-{number}", drain, number):
            await history.append("w2", decision)
    await history.metrics("one.0", 1, "loss", [0, 1, 2])
    await history.metrics("one.0", 1, "loss", [2, 3])
    return history
