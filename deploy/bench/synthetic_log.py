"""Writes a log like that of real searches, with the record writer of the services: the input of a rebuild."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trackside.aggregates.search.messages import (
    SearchEnded,
    SearchSpec,
    SearchStarted,
    SearchStatus,
    StartSearch,
    TrialEnded,
    TrialStatus,
    TrialSuggested,
    Tuner,
)
from trackside.aggregates.search.space.space import Choice, LogUniform, QUniform, Uniform
from trackside.contracts.envelope.ids import new_id, trial_task_id
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.parts import Part
from trackside.contracts.envelope.topics import MAX_BATCH_BYTES, Topics, partition_of
from trackside.contracts.fleet.fleet import Device, WorkerJoined
from trackside.contracts.streams.commands import RULES, CommandAccepted, CommandReceived, Source
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskAccepted,
    TaskAssigned,
    TaskStatus,
    TaskStatusChanged,
    TaskSubmitted,
)
from trackside.contracts.wire.ingress import digest_of
from trackside.eventlog.keys.decision_signer import DecisionSigner
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log, Outgoing
from trackside.telemetry import context

TRIALS = 200
REPORTS = 10
STATUSES = (TaskStatus.AVAILABLE, TaskStatus.LOADING, TaskStatus.WAITING, TaskStatus.TRAINING)
EVENTS_PER_TRIAL = 2 + 1 + 1 + len(STATUSES) + REPORTS + 1 + 1 + 1
EVENTS_PER_SEARCH = 4
INCARNATION = new_id()
SEEN = 100
"""The position in the fleet topic at which tasks are assigned: after events about keys, and the join."""
OVERHEAD_BYTES = 600

DISPATCHER, SCHEDULER, WORKER, CLIENT = (
    RecordWriter(role, "bench") for role in ("dispatcher", "scheduler", "worker", "sdk")
)


def events_of(searches: int) -> int:
    """Returns the number of events in the streams of that many searches."""
    return searches * (TRIALS * EVENTS_PER_TRIAL + EVENTS_PER_SEARCH)


def command() -> StartSearch:
    """Returns the command of the searches, with four parameters, as in the digits example."""
    return StartSearch(
        name="digits",
        task_type="digits",
        space={
            "lr": LogUniform(type="loguniform", low=1e-4, high=1e-1),
            "hidden": QUniform(type="quniform", low=16, high=128, step=16),
            "dropout": Uniform(type="uniform", low=0.0, high=0.5),
            "optimizer": Choice(type="choice", values=["adam", "sgd", "rmsprop"]),
        },
        tuner=Tuner(name="random"),
        max_trials=TRIALS,
        concurrency=2,
        seed=7,
    )


@dataclass(slots=True)
class PartitionWriter:
    """Writes one partition in batches."""

    topic: str
    partition: int
    records: list[Outgoing] = field(default_factory=list)
    size_bytes: int = 0

    async def add(self, log: Log, records: Sequence[Outgoing]) -> None:
        """Adds a decision; flushes first if the batch would be too large."""
        added_bytes = sum(len(record.value or b"") + OVERHEAD_BYTES for record in records)
        if self.records and self.size_bytes + added_bytes > MAX_BATCH_BYTES:
            await self.flush(log)
        self.records += records
        self.size_bytes += added_bytes

    async def flush(self, log: Log) -> None:
        """Appends the batch."""
        if self.records:
            await log.append(self.topic, self.partition, self.records)
        self.records, self.size_bytes = [], 0


async def write_searches(
    log: Log,
    topics: Topics,
    searches: int,
    trials: int = TRIALS,
    signers: Mapping[str, DecisionSigner] | None = None,
) -> int:
    """Writes a worker and that many finished searches; returns the number of events of both topics.

    With `signers`, by role, each event is signed.
    """
    signing = signers or {}
    await log.ensure(topics.shared)
    await join(log, topics, signing.get(WORKER.role))
    writers: dict[int, PartitionWriter] = {}
    for number in range(searches):
        stream_id = f"digits-{number:04d}"
        partition = partition_of(stream_id, topics.events.partitions)
        writer_ = writers.setdefault(partition, PartitionWriter(topics.events.name, partition))
        trace = context.new_traceparent()
        for writer, messages in _search(stream_id, topics, number, trials, command()):
            if isinstance(messages[0], CommandReceived):
                await _publish(log, topics, stream_id, messages[0])
            signed = replace(writer, signer=signing.get(writer.role))
            records = signed.decision(stream_id, messages, traceparent=trace, topic=topics.events.name)
            await writer_.add(log, records)
    for writer_ in writers.values():
        await writer_.flush(log)
    return searches * (trials * EVENTS_PER_TRIAL + EVENTS_PER_SEARCH) + 1


async def write_open_search(
    log: Log, topics: Topics, stream_id: str, trials: int, start_search: StartSearch
) -> int:
    """Writes one search that has not ended, with ended trials; returns its number of events."""
    writer_ = PartitionWriter(topics.events.name, partition_of(stream_id, topics.events.partitions))
    written = 0
    for writer, messages in _search(stream_id, topics, 0, trials, start_search, ended=False):
        await writer_.add(log, writer.decision(stream_id, messages))
        written += len(messages)
    await writer_.flush(log)
    return written


async def _publish(log: Log, topics: Topics, stream_id: str, received: CommandReceived) -> None:
    """Writes the record that the dispatcher would have received a command from."""
    record = CLIENT.single(
        stream_id, StartSearch.model_validate(received.body), message_id=received.command_id
    )
    await log.append(topics.commands.name, received.source.partition, [record])


async def join(log: Log, topics: Topics, signer: DecisionSigner | None = None) -> None:
    """Writes the join of the worker that all searches of the log ran on, signed if it has a key."""
    devices = [Device(device_id=f"cpu-{n}", kind="cpu", name="CPU slot", memory_bytes=1) for n in range(2)]
    joined = WorkerJoined(
        worker_id="bench",
        incarnation=INCARNATION,
        host="bench",
        devices=devices,
        task_types=["digits"],
        queues=["default"],
        after={},
    )
    worker = replace(WORKER, signer=signer)
    await log.append(topics.fleet.name, 0, [worker.signed(topics.fleet, worker.single("bench", joined))])


async def end_trial(log: Log, topics: Topics, stream_id: str, trial: int) -> None:
    """Writes a suggested trial to its end, except for the dispatcher's TrialEnded."""
    partition = partition_of(stream_id, topics.events.partitions)
    steps = [*list(_start_events(stream_id, trial))[1:], *list(_end_events(stream_id, trial))[:-1]]
    for writer, messages in steps:
        await log.append(topics.events.name, partition, writer.decision(stream_id, messages))


Step = tuple[RecordWriter, list[Message]]


def _search(
    stream_id: str, topics: Topics, number: int, trials: int, start_search: StartSearch, ended: bool = True
) -> Iterator[Step]:
    if ended:
        start_search = start_search.model_copy(update={"max_trials": trials})
    command_id = new_id()
    source = Source(topic=topics.commands.name, partition=0, offset=number)
    body = start_search.model_dump(mode="json")
    digest = digest_of(StartSearch.wire_type(), body)
    received = CommandReceived(
        command_id=command_id,
        command_type=StartSearch.wire_type(),
        body=body,
        digest=digest,
        source=source,
        publisher=CLIENT.source,
        rules=RULES,
    )
    spec = SearchSpec(**{name: getattr(start_search, name) for name in SearchSpec.model_fields})
    started = SearchStarted(command_id=command_id, search=spec, seed=7)
    yield DISPATCHER, [received]
    yield DISPATCHER, [CommandAccepted(command_id=command_id, source=source), started]
    for first in range(0, trials, 2):
        for trial in range(first, min(first + 2, trials)):
            yield from _start_events(stream_id, trial)
        for trial in range(first, min(first + 2, trials)):
            yield from _end_events(stream_id, trial)
    if ended:
        yield DISPATCHER, [SearchEnded(status=SearchStatus.DONE, trials=trials)]


def _start_events(stream_id: str, trial: int) -> Iterator[Step]:
    task_id = trial_task_id(stream_id, trial)
    part = Part(kind="trial", number=trial)
    parameters = {"lr": 0.0123 / (1 + trial), "hidden": 64.0, "dropout": 0.25, "optimizer": "adam"}
    yield (
        DISPATCHER,
        [
            TrialSuggested(trial=trial, parameters=parameters, seen=0),
            TaskSubmitted(task_id=task_id, task_type="digits", parameters=parameters, part=part),
        ],
    )
    token = {"task_id": task_id, "attempt": 1, "placement": 1, "incarnation": INCARNATION}
    device = {"worker_id": "bench", "device_ids": [f"cpu-{trial % 2}"], "seen": SEEN}
    yield SCHEDULER, [TaskAssigned.model_validate(token | device)]
    yield WORKER, [TaskAccepted.model_validate(token)]
    for status in STATUSES:
        yield WORKER, [TaskStatusChanged.model_validate(token | {"status": status})]


def _end_events(stream_id: str, trial: int) -> Iterator[Step]:
    task_id = trial_task_id(stream_id, trial)
    token = {"task_id": task_id, "attempt": 1, "placement": 1}
    value = 0.0
    for step in range(REPORTS):
        value = 0.9 - 0.5 / (1 + step) + 0.0001 * trial
        report = token | {"kind": "PERIODICAL", "step": step, "value": value}
        yield WORKER, [MetricReported.model_validate(report)]
    yield WORKER, [MetricReported.model_validate(token | {"kind": "FINAL", "step": REPORTS, "value": value})]
    ending = {
        "incarnation": INCARNATION,
        "end": AttemptEnd.FINISHED,
        "result": {"accuracy": value},
        "load_time_ms": 12,
        "train_time_ms": 2_345,
        "exit_code": 0,
    }
    yield WORKER, [AttemptEnded.model_validate(token | ending)]
    yield DISPATCHER, [TrialEnded(trial=trial, status=TrialStatus.SUCCEEDED, value=value)]
