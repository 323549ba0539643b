"""A job in a log with a clock of its own: dispatchers write what it lacks, workers do their tasks."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.unit.aggregates.given import published
from tests.unit.domain.given import FIRST_MS, record_of
from trackside.aggregates.dataset.aggregate import DATASET
from trackside.aggregates.dataset.messages import RegisterDataset
from trackside.aggregates.registry import AGGREGATES as REGISTERED
from trackside.aggregates.rounds.aggregate import ROUNDS
from trackside.aggregates.rounds.job.split import SplitRule, samples
from trackside.aggregates.rounds.state import IncrementalJob, job_of
from trackside.contracts.envelope.message import Command, Event, Json, Message, Record
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.fleet.fleet import COPY_MODEL, WRITE_MANIFEST
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.instructions import InstructionAcknowledged, TaskReady
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskError,
    TaskSubmitted,
)
from trackside.domain.commands import stream_commands
from trackside.domain.commands.react import react
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.aggregate import Aggregates
from trackside.domain.folding.stream_index import StreamIndex
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream, shrink
from trackside.domain.tasks.task import Task, TaskState

NEWER = [each for each in (DATASET, ROUNDS) if each not in REGISTERED.types]
AGGREGATES = Aggregates([*REGISTERED.types, *NEWER])
JOB, DATASET_ID, MODEL = "digits", "feed", "digits-model"
CAPABILITIES = Capabilities(
    frozenset({"train", "evaluate", "serve"}), services=frozenset({"serve"}), credentials=frozenset({"minio"})
)
EVENTS = "trackside.events"
APPLIED = [Outcome.APPLIED]
CREATE, UPDATE = "trackside.create-incremental-job.v1", "trackside.update-incremental-job.v1"
FIRE_TRAIN, FIRE_DEPLOY = "trackside.fire-train.v1", "trackside.fire-deploy.v1"
APPROVE, ROLLBACK = "trackside.approve-deploy.v1", "trackside.rollback-model.v1"
DELETE = "trackside.delete-incremental-job.v1"
M = TypeVar("M", bound=Message)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def condition(metric: str, operator: str, threshold: float) -> Json:
    return {"type": "condition", "metric": metric, "operator": operator, "threshold": threshold}


BETTER = condition("accuracy_delta", ">", 0.1)


def job_body(**changed: Any) -> Json:
    fields: Json = {"dataset": {"name": DATASET_ID, "train_prob": 0.8}, "model": MODEL}
    fields |= {"initial_model": {"model": MODEL, "version": 1}}
    fields |= {"train": {"task_type": "train", "check_period_s": 0}}
    fields |= {"eval": {"task_type": "evaluate", "check_period_s": 0}, "deploy": {"trigger": BETTER}}
    fields |= {"output": {"url": "/srv/out"}}
    return {**fields, **changed}


@dataclass
class JobLog:
    """The log of one partition, with a dataset, a model and a job; its clock is set by hand."""

    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES))
    now_ms: int = FIRST_MS
    records: list[Record] = field(default_factory=list)
    written: list[Event] = field(default_factory=list)
    commands: int = 0
    lines: int = 0
    accuracies: dict[str, float] = field(default_factory=dict)
    """The accuracy of each model by its digest; of others it is 0.5."""
    next_accuracy: Callable[[int], float] = lambda number: 0.5
    """The accuracy of what a round trains, by its number."""
    index: StreamIndex = field(init=False)

    def __post_init__(self) -> None:
        self.index = StreamIndex(self.streams)
        self.command(DATASET_ID, RegisterDataset(url="/srv/feed.txt"))
        self.command(MODEL, "trackside.register-model.v1", {})
        artifact = {"uri": f"store:sha256/{digest('initial')}", "sha256": digest("initial"), "size_bytes": 8}
        self.command(MODEL, "trackside.add-model-version.v1", {"artifact": artifact, "format": "safetensors"})

    @property
    def stream(self) -> Stream:
        return self.streams.by_id[JOB]

    @property
    def job(self) -> IncrementalJob:
        found = job_of(self.stream)
        assert found is not None
        return found

    def of(self, kind: type[M]) -> list[M]:
        return [event for event in self.written if isinstance(event, kind)]

    def tell(self, *messages: Message, role: str = "", stream: str = JOB) -> list[Outcome]:
        at = len(self.records)
        name = f"d-{at}" if len(messages) > 1 else ""
        found = []
        for index, message in enumerate(messages):
            place = (name, index, len(messages)) if name else None
            record = record_of(message, len(self.records), role, stream, place)
            record.append_time_ms = self.now_ms
            self.records.append(record)
            folded, outcome = self.streams.fold(record)
            if outcome is Outcome.APPLIED:
                self.index.fold(folded, message)
            found.append(outcome)
        return found

    def command(self, stream: str, wanted: Command | str, body: Json | None = None) -> list[Event]:
        self.commands += 1
        kind = wanted if isinstance(wanted, str) else wanted.wire_type()
        given = body if isinstance(wanted, str) else wanted.model_dump(mode="json", exclude_none=True)
        self.tell(published(self.commands, kind, given or {}), stream=stream)
        return self.settle()

    def refusals(self, wanted: Command | str, body: Json | None = None, stream: str = JOB) -> list[Problem]:
        found: list[Problem] = []
        for event in self.command(stream, wanted, body):
            if isinstance(event, CommandRefused):
                own = Problem(code=event.code, path=event.path, message=event.message)
                found += event.problems or [own]
        return found

    def refused(self, wanted: Command | str, body: Json | None = None) -> str:
        found = self.refusals(wanted, body)
        return found[0].code if found else ""

    def create(self, **changed: Any) -> list[Event]:
        written = self.command(JOB, "trackside.create-incremental-job.v1", job_body(**changed))
        assert not [event for event in written if isinstance(event, CommandRefused)], written
        return written

    def settle(self) -> list[Event]:
        events: list[Event] = []
        for _ in range(10_000):
            found = next(self._proposals(), None)
            if found is None:
                break
            stream, proposal = found
            outcomes = self.tell(*proposal.events, role="dispatcher", stream=stream)
            assert set(outcomes) == {Outcome.APPLIED}, (stream, proposal, outcomes)
            events += proposal.events
            for each in self.streams.by_id.values():
                shrink(each)
        else:
            raise AssertionError(f"no end of decisions: {events[-5:]}")
        self.written += events
        return events

    def _proposals(self) -> Iterator[tuple[str, Proposal]]:
        for stream in list(self.streams.by_id.values()):
            for proposal in react(stream, CAPABILITIES, AGGREGATES, self.index):
                yield stream.stream_id, proposal
            yield from stream_commands.pending(stream, self.streams.find, AGGREGATES, EVENTS)
            aggregate = AGGREGATES.of(stream)
            if aggregate is not None:
                due_ms = aggregate.next_due_ms(stream)
                if due_ms is not None and due_ms <= self.now_ms:
                    for proposal in aggregate.due(stream, self.now_ms):
                        yield stream.stream_id, proposal

    def next_due_ms(self) -> int | None:
        found = []
        for stream in self.streams.by_id.values():
            aggregate = AGGREGATES.of(stream)
            due_ms = None if aggregate is None else aggregate.next_due_ms(stream)
            found += [] if due_ms is None else [due_ms]
        return min(found, default=None)

    def wait(self, seconds: float) -> list[Event]:
        """Lets time pass, with what follows at each time limit on its way; workers do nothing meanwhile."""
        until_ms, written = self.now_ms + int(seconds * 1000), len(self.written)
        self.settle()
        while (due_ms := self.next_due_ms()) is not None and due_ms <= until_ms:
            known = len(self.records)
            self.now_ms = max(self.now_ms, due_ms)
            self.settle()
            assert len(self.records) > known, f"a limit is reached, and nothing follows: {self.job}"
        self.now_ms = until_ms
        self.settle()
        return self.written[written:]

    def append(self, count: int) -> list[Event]:
        written = len(self.written)
        self.lines += count
        watcher = next(iter(self.streams.by_id[DATASET_ID].tasks.values()))
        if not watcher.attempts[-1].ready_number:
            self.ready(watcher)
            self.acknowledge(watcher)
        end = {"lines": self.lines, "size": self.lines * 10, "sha256": digest(f"first {self.lines}")}
        self.ready(watcher, end=end)
        return self.written[written:]

    def next_round(self) -> None:
        self.append(10)
        self.work()

    def first_round(self, **changed: Any) -> None:
        self.create(**changed)
        self.next_round()

    def tasks(self) -> list[Task]:
        return [task for task in self.stream.tasks.values() if task.state is not TaskState.ENDED]

    def stage_task(self, task_type: str) -> Task:
        """Lets workers do what comes before the open task of a type, and returns that."""
        for _ in range(20):
            open_tasks = [task for task in self.tasks() if task.task_type != "serve"]
            if found := [task for task in open_tasks if task.task_type == task_type]:
                return found[0]
            self.do(open_tasks[0])
        raise AssertionError(f"no task of type {task_type}")

    def place(self, task: Task, placement: int = 0) -> Json:
        attempt, stream = task.attempts[-1], stream_of(task)
        number = placement or attempt.placement or 1
        token: Json = {"task_id": task.task_id, "attempt": attempt.number, "placement": number}
        token["incarnation"] = "i-1"
        if task.state is TaskState.QUEUED:
            placed = {"worker_id": "w1", "device_ids": [], "seen": 0}
            assert self.tell(TaskAssigned.model_validate({**token, **placed}), stream=stream) == APPLIED
            assert self.tell(TaskAccepted.model_validate(token), stream=stream) == APPLIED
        return token

    def save(
        self,
        task: Task,
        text: str,
        kind: str = "model",
        media_type: str = "application/octet-stream",
        **metadata: Any,
    ) -> None:
        token = self.place(task)
        what = {"number": task.saved + 1, "name": "model", "version": task.saved + 1, "kind": kind}
        sha256 = digest(text)
        stored = {"uri": f"store:sha256/{sha256}", "sha256": sha256, "size_bytes": len(text)}
        about = {"media_type": media_type, "metadata": metadata}
        saved = ArtifactSaved.model_validate({**token, **what, **stored, **about})
        assert self.tell(saved, role="worker", stream=stream_of(task)) == APPLIED

    def end(
        self, task: Task, result: Json | None = None, error: str = "", how: AttemptEnd | None = None
    ) -> list[Event]:
        token = self.place(task)
        found = None if not error else TaskError(stage="TRAIN", type=error, message=f"it was {error}")
        end = how or (AttemptEnd.FAILED if error else AttemptEnd.FINISHED)
        ended = AttemptEnded.model_validate({**token, "end": end, "result": result, "error": found})
        role = "scheduler" if end is AttemptEnd.LOST else "worker"
        assert self.tell(ended, role=role, stream=stream_of(task)) == APPLIED
        return self.settle()

    def ready(self, task: Task, **detail: Any) -> list[Event]:
        token = self.place(task)
        number = task.attempts[-1].ready_number + 1
        said = TaskReady(**token, number=number, detail=detail)
        assert self.tell(said, role="worker", stream=stream_of(task)) == APPLIED
        return self.settle()

    def acknowledge(self, task: Task, ok: bool = True, **detail: Any) -> list[Event]:
        """Lets a service answer its newest instruction, as it asks for unless it is given otherwise."""
        assert task.instruction is not None
        body = task.instruction.body
        given = detail
        if ok and "model" in body:
            given = {"update": body["update"], "sha256": body["model"]["artifact"]["sha256"], **detail}
        number = task.instruction.number
        answer = InstructionAcknowledged(**self.place(task), number=number, ok=ok, detail=given)
        assert self.tell(answer, role="worker", stream=stream_of(task)) == APPLIED
        return self.settle()

    def work(self, steps: int = 1_000) -> list[Event]:
        """Lets workers do what tasks are for, until nothing is left to do now; returns what was written."""
        written = len(self.written)
        self.settle()
        for _ in range(steps):
            if not any(self.do(task) for task in self.tasks()):
                break
        return self.written[written:]

    def do(self, task: Task) -> bool:
        if task.task_type == WRITE_MANIFEST:
            self.end(task, manifest_of(task.parameters))
        elif task.task_type == COPY_MODEL and task.parameters["target"] == "removal":
            self.end(task, {"url": task.parameters["url"], "files": 2, "others": 0})
        elif task.task_type == COPY_MODEL:
            wanted = task.parameters["model"]["sha256"]
            self.end(task, {"url": task.parameters["url"], "sha256": wanted, "size_bytes": 8})
        elif task.task_type == "train":
            number = task.parameters["round"]["number"]
            name = f"round {number}"
            self.accuracies[digest(name)] = self.next_accuracy(number)
            self.save(task, name, format="safetensors")
            self.end(task)
        elif task.task_type == "evaluate":
            digests = {name: task.inputs[name].sha256 for name in ("trained", "deployed")}
            self.end(task, {name: {"accuracy": self.accuracies.get(digests[name], 0.5)} for name in digests})
        elif task.task_type == "serve":
            return self._serve(task)
        else:
            return False
        return True

    def _serve(self, task: Task) -> bool:
        if task.stop_reason:
            self.end(task)
        elif not task.attempts[-1].ready_number:
            self.ready(task, sha256=task.inputs["model"].sha256)
        elif task.instruction is not None and task.acknowledged < task.instruction.number:
            self.acknowledge(task)
        else:
            return False
        return True


def stream_of(task: Task) -> str:
    return DATASET_ID if task.task_id.startswith(f"{DATASET_ID}.") else JOB


def manifest_of(parameters: Json) -> Json:
    segments = [SplitRule(**each) for each in parameters["segments"]]
    numbers = [
        str(number)
        for begin, end in parameters["ranges"]
        for number in samples(segments, begin, end, parameters["use"])
    ]
    url = f"{parameters['output']['url']}/{parameters['path']}"
    count = len(numbers)
    return {"url": url, "sha256": digest(" ".join(numbers)), "size_bytes": count, "lines": count}


def event_names(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def submitted(events: list[Event]) -> list[str]:
    """Returns the ids of the tasks that were submitted, without that of the job."""
    return [event.task_id.removeprefix(f"{JOB}.") for event in events if isinstance(event, TaskSubmitted)]
