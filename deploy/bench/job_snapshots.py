"""The snapshot of an incremental job after 10 and after 1,000 rounds that all deploy, decided in memory."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.measurements import Figure, Goal, Measurements, MissingError, check_count
from bench.smallest import size
from bench.synthetic_log import DISPATCHER, INCARNATION, SCHEDULER, WORKER
from trackside.aggregates.dataset.messages import RegisterDataset
from trackside.aggregates.model.messages import AddModelVersion, RegisterModel
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.rounds.aggregate import ROUNDS
from trackside.aggregates.rounds.job.split import SplitRule, count
from trackside.aggregates.rounds.messages import CreateIncrementalJob, SamplesAssigned
from trackside.aggregates.rounds.state import IncrementalJob, job_of
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Command, Json, Message
from trackside.contracts.fleet.fleet import WRITE_MANIFEST
from trackside.contracts.streams.commands import RULES, CommandReceived, Source
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.tasks import AttemptEnded, TaskAccepted, TaskAssigned
from trackside.domain.commands import stream_commands
from trackside.domain.commands.react import react
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.stream_index import StreamIndex
from trackside.domain.folding.streams import Streams, pack
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream, shrink
from trackside.domain.tasks.task import Task, TaskState
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry

JOB, DATASET, MODEL = "digits", "feed", "digits-model"
TOPIC = "trackside.events"
FEW, MANY = 10, size(1_000, 40)
SAMPLES = 10
BEGAN_MS, MINUTE_MS = 1_767_225_600_000, 60_000
CAPABILITIES = Capabilities(frozenset({"train", "evaluate"}))
MOST, AIM = 2.0, 1.2
"""How many times as large it may be after 1,000 rounds."""
DEFINITION: Json = {
    "dataset": {"name": DATASET, "train_prob": 0.8},
    "model": MODEL,
    "initial_model": f"{MODEL}@1",
    "train": {"task_type": "train", "check_period_s": 0},
    "eval": {"task_type": "evaluate", "check_period_s": 0},
    "deploy": {},
    "output": {"url": "/srv/out"},
}
"""A job whose rounds begin as soon as there are samples, and deploy what they have trained."""


def measure() -> Measurements:
    """Goes through 1,000 rounds, one a minute; each trains a version of the model and deploys it."""
    world = _World()
    world.begin()
    sizes: dict[int, int] = {}
    for number in range(1, MANY + 1):
        world.go_round()
        if number in (FEW, MANY):
            sizes[number] = len(pack(world.stream))
    few, many = sizes[FEW], sizes[MANY]
    goal = Goal(MOST, AIM, at_most=True, ratio=True)
    figure = Figure("S4", f"snapshot of a job, {MANY:,} rounds", many, "B", few, f"{FEW} rounds", goal)
    counted = [check_count("rounds that deployed", world.job.updates, MANY)]
    return Measurements([figure], counted, {"job_snapshot_bytes": sizes})


@dataclass(slots=True)
class _World:
    """The streams of a dataset, a model and a job; what the job lacks is written as a dispatcher does."""

    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES))
    index: StreamIndex = field(init=False)
    offset: int = 0
    now_ms: int = BEGAN_MS
    samples: int = 0

    def __post_init__(self) -> None:
        self.index = StreamIndex(self.streams)

    @property
    def stream(self) -> Stream:
        """The stream of the job."""
        return self.streams.by_id[JOB]

    @property
    def job(self) -> IncrementalJob:
        """The job."""
        job = job_of(self.stream)
        if job is None:
            raise MissingError("the job was refused")
        return job

    def begin(self) -> None:
        """Registers a dataset and a model of one version, and creates the job."""
        self._ask(DATASET, RegisterDataset, {"url": "/srv/feed.txt"})
        self._ask(MODEL, RegisterModel, {})
        self._ask(MODEL, AddModelVersion, {"artifact": _artifact("initial"), "format": "safetensors"})
        self._ask(JOB, CreateIncrementalJob, DEFINITION)
        self._settle()

    def _ask(self, stream_id: str, kind: type[Command], body: Json) -> None:
        """Publishes a command, and writes its answer."""
        received = CommandReceived(
            command_id=new_id(),
            command_type=kind.wire_type(),
            body=body,
            digest="0" * 64,
            source=Source(topic="trackside.commands", partition=0, offset=self.offset),
            publisher="trackside/sdk/bench",
            rules=RULES,
        )
        self._write(DISPATCHER, stream_id, received)
        self._answer(stream_id)

    def _answer(self, stream_id: str) -> None:
        for proposal in react(self.streams.by_id[stream_id], CAPABILITIES, AGGREGATES, self.index)[:1]:
            self._write(DISPATCHER, stream_id, *proposal.events)

    def go_round(self) -> None:
        """Lets samples come, and workers do the tasks of the round that these begin, until it has ended."""
        self.now_ms += MINUTE_MS
        begin, self.samples = self.samples, self.samples + SAMPLES
        assigned = SamplesAssigned(
            begin=begin,
            end=self.samples,
            share="4/5",
            carry="0",
            train=8,
            evaluation=2,
            size_bytes=10 * self.samples,
            sha256=_digest(f"first {self.samples}"),
        )
        self._write(DISPATCHER, JOB, assigned)
        self._settle()
        while open_tasks := [
            each for each in self.stream.tasks.values() if each.state is not TaskState.ENDED
        ]:
            for task in open_tasks:
                self._work(task)
            self._settle()

    def _settle(self) -> None:
        """Writes what the job lacks, and the commands that it sends to its model, until nothing is left."""
        while (found := next(self._lacking(), None)) is not None:
            stream_id, proposal = found
            self._write(DISPATCHER, stream_id, *proposal.events)
            if stream_id != JOB:
                self._answer(stream_id)
        for stream_id in (JOB, MODEL):
            shrink(self.streams.by_id[stream_id])

    def _lacking(self) -> Iterator[tuple[str, Proposal]]:
        for proposal in react(self.stream, CAPABILITIES, AGGREGATES, self.index):
            yield JOB, proposal
        due_ms = ROUNDS.next_due_ms(self.stream)
        if due_ms is not None and due_ms <= self.now_ms:
            for proposal in ROUNDS.due(self.stream, self.now_ms):
                yield JOB, proposal
        yield from stream_commands.pending(self.stream, self.streams.find, AGGREGATES, TOPIC)

    def _work(self, task: Task) -> None:
        """Lets a worker do a task."""
        token: Json = {"task_id": task.task_id, "attempt": 1, "placement": 1, "incarnation": INCARNATION}
        placed: Json = {"worker_id": "bench", "device_ids": [], "seen": 0}
        self._write(SCHEDULER, JOB, TaskAssigned.model_validate(token | placed))
        self._write(WORKER, JOB, TaskAccepted.model_validate(token))
        parameters, result = task.parameters, None
        if task.task_type == WRITE_MANIFEST:
            url = f"{parameters['output']['url']}/{parameters['path']}"
            result = {"url": url, "sha256": _digest(url), "size_bytes": 8, "lines": _lines(parameters)}
        elif task.task_type == "train":
            artifact = _artifact(f"round {parameters['round']['number']}")
            saved: Json = {"number": 1, "name": "model", "version": 1, "kind": "model", **artifact}
            metadata: Json = {"metadata": {"format": "safetensors"}}
            self._write(WORKER, JOB, ArtifactSaved.model_validate(token | saved | metadata))
        else:
            result = {"trained": {"accuracy": 0.9}, "deployed": {"accuracy": 0.8}}
        ended = AttemptEnded.model_validate(token | {"end": "finished", "result": result})
        self._write(WORKER, JOB, ended)

    def _write(self, writer: RecordWriter, stream_id: str, *messages: Message) -> None:
        """Appends messages to a stream and folds them; raises MissingError if one has no effect."""
        for record in writer.decision(stream_id, messages):
            entry = Entry(TOPIC, 0, self.offset, self.now_ms, record.key, record.value, list(record.headers))
            decoded = decode(entry)
            assert decoded is not None
            self.offset += 1
            stream, outcome = self.streams.fold(decoded)
            if outcome is not Outcome.APPLIED:
                raise MissingError(f"{type(decoded.message).__name__} of {stream_id} is {outcome.name}")
            self.index.fold(stream, decoded.message)


def _lines(parameters: Json) -> int:
    """Returns how many samples the task that writes them is to write."""
    rules = [SplitRule(**each) for each in parameters["segments"]]
    return sum(count(rules, begin, end, parameters["use"]) for begin, end in parameters["ranges"])


def _artifact(name: str) -> Json:
    return {"uri": f"store:sha256/{_digest(name)}", "sha256": _digest(name), "size_bytes": 8}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
