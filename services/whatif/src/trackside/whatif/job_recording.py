"""Reads from a recorded incremental job what a what-if needs: its rounds, samples, metrics and decisions."""

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.rounds import messages
from trackside.aggregates.rounds.job import deploy_messages
from trackside.aggregates.rounds.job.deploy_messages import RoundModel
from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.aggregates.rounds.messages import FireDeploy, Range
from trackside.aggregates.rounds.stages.evaluation import results_problem
from trackside.aggregates.rounds.stages.task_ids import ROUND
from trackside.aggregates.rounds.state import IncrementalJob, job_of
from trackside.contracts.envelope.message import Json, Message, Record
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.streams.commands import CommandReceived
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnded,
    TaskAccepted,
    TaskReturned,
    TaskSubmitted,
)
from trackside.domain.folding.fold import fold
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream, forget_settled
from trackside.replay.history.errors import NotRecordedError
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import RecordedStream
from trackside.whatif.run_recording import ItemTrace

EvalSamples = tuple[str, int, int]
"""The samples of an evaluation: those for it of a dataset, from the first number up to the second."""


@dataclass(slots=True)
class RoundTrace:
    """A round as it was recorded; times are ms since 1970, 0 for what has not happened.

    Models are named by their digests: `base`, what was `trained`, and what that was `compared` with.
    """

    number: int
    fired_ms: int
    spec: JobSpec
    train: Range
    command_id: str = ""
    """The command that began it; empty if its trigger did."""
    evaluation: EvalSamples | None = None
    base: str = ""
    trained: str = ""
    compared: str = ""
    metrics: dict[str, Json] = field(default_factory=dict)
    """Of the `trained` and of the `deployed` model; empty before the evaluation has ended."""
    evaluated_ms: int = 0
    """When its evaluation began."""
    decided_ms: int = 0
    deploy: bool | None = None
    """Whether its model was to be deployed; None before that was decided."""
    decided_by: str = ""
    """The command that asked for the decision; empty if its trigger did."""
    forced: bool = False
    """Whether that command asked for the deployment in any case."""
    approved: bool | None = None
    """What a person has decided, or the time limit of that; None if that was not decided."""
    live_ms: int = 0
    """When its model was live."""
    ended_ms: int = 0
    status: str = ""
    """`completed`, `failed`, or empty before its end."""
    device_ms: int = 0
    """For how long its tasks held devices, times their number."""


@dataclass(slots=True)
class JobRecording:
    """A recorded job: its rounds, and what else its triggers have seen. Times are ms since 1970."""

    stream_id: str
    created_ms: int
    initial: str
    """The digest of the model that it began with."""
    initial_eval: str
    """The digest of the model that evaluations compare with before the first deployment."""
    last_ms: int = 0
    """When its last event was written."""
    rounds: list[RoundTrace] = field(default_factory=list)
    specs: list[tuple[int, JobSpec]] = field(default_factory=list)
    """Its definitions, each with the time from which on it counts."""
    samples: list[tuple[int, int, int, dict[str, Any]]] = field(default_factory=list)
    """What has arrived: when, from which number up to which, and the metrics of its watcher."""
    hard_examples: list[tuple[int, int]] = field(default_factory=list)
    """When services have reported how many hard examples."""
    pauses: list[tuple[int, bool]] = field(default_factory=list)
    """When it was paused (true), deleted (true), or resumed (false)."""
    rollbacks: list[tuple[int, str]] = field(default_factory=list)
    """When a model was live again by a command, and which."""
    names: dict[str, str] = field(default_factory=dict)
    """The names of models, such as `digits@3`, by their digests."""

    def name_of(self, model: RoundModel) -> str:
        """Returns the digest of a model, and keeps its name."""
        digest = model.artifact.sha256
        self.names.setdefault(digest, f"{model.model}@{model.version}")
        return digest


@dataclass(slots=True)
class JobCollector:
    """Collects from a job that is folded what its state doesn't keep."""

    recording: JobRecording | None = None
    tasks: dict[str, tuple[int, ItemTrace]] = field(default_factory=dict)
    """The tasks that have not ended, each with the number of its round."""
    forced: set[str] = field(default_factory=set)
    """The commands that asked for a deployment in any case."""
    causes: dict[int, str] = field(default_factory=dict)
    """Why the newest update was made."""

    def observe(self, job: IncrementalJob, record: Record) -> None:
        """Adds an event that was applied; `job` is the state after it."""
        message, now_ms = record.message, record.append_time_ms
        if isinstance(message, messages.IncrementalJobCreated):
            self.recording = _begun(job, now_ms)
        elif self.recording is not None:
            self.recording.last_ms = max(self.recording.last_ms, now_ms)
            self._note_task(message, now_ms)
            self._note_input(self.recording, job, message, now_ms)
            self._note_round(self.recording, job, message, now_ms)
            self._note_deployment(self.recording, message, now_ms)

    def note_command(self, message: CommandReceived) -> None:
        """Keeps a command that forces a deployment."""
        if message.command_type == FireDeploy.wire_type() and (message.body or {}).get("force"):
            self.forced.add(message.command_id)

    def _note_input(
        self, recording: JobRecording, job: IncrementalJob, message: Message, now_ms: int
    ) -> None:
        match message:
            case messages.SamplesAssigned():
                recording.samples.append((now_ms, message.begin, message.end, dict(message.metrics)))
            case messages.IncrementalJobUpdated():
                recording.specs.append((now_ms, job.spec))
            case messages.IncrementalJobPaused() | messages.IncrementalJobDeleted():
                recording.pauses.append((now_ms, True))
            case messages.IncrementalJobResumed():
                recording.pauses.append((now_ms, False))
            case deploy_messages.HardExamplesReported():
                recording.hard_examples.append((now_ms, message.hard))

    def _note_round(
        self, recording: JobRecording, job: IncrementalJob, message: Message, now_ms: int
    ) -> None:
        round_ = job.round
        if isinstance(message, messages.RoundEnded) and recording.rounds:
            recording.rounds[-1].ended_ms, recording.rounds[-1].status = now_ms, message.status
            return
        if round_ is None:
            return
        if isinstance(message, messages.TriggerEvaluated) and message.fired and message.stage == "train":
            trace = RoundTrace(round_.number, now_ms, round_.spec, round_.train, message.command_id)
            recording.rounds.append(trace)
        if not recording.rounds:
            return
        trace = recording.rounds[-1]
        if round_.evaluation:
            begin, end = round_.evaluation[0][0], round_.evaluation[-1][1]
            trace.evaluation = round_.spec.dataset.name, begin, end
        if isinstance(message, messages.RoundStarted):
            trace.base = recording.name_of(message.base)
        elif isinstance(message, messages.StageEnded) and message.model is not None:
            trace.trained = recording.name_of(message.model)
        elif isinstance(message, messages.TriggerEvaluated) and message.stage == "eval" and message.fired:
            trace.evaluated_ms, trace.compared = now_ms, recording.name_of(job.compared)
        elif isinstance(message, messages.StageEnded) and message.stage == "eval":
            trace.metrics = {} if results_problem(round_) else dict(round_.metrics)

    def _note_deployment(self, recording: JobRecording, message: Message, now_ms: int) -> None:
        trace = recording.rounds[-1] if recording.rounds else None
        match message:
            case deploy_messages.DeployDecided() if trace is not None:
                trace.decided_ms, trace.deploy = now_ms, message.deploy
                trace.decided_by = message.command_id
                trace.forced = message.command_id in self.forced
            case deploy_messages.DeployApproved() if trace is not None:
                trace.approved = True
            case deploy_messages.DeployRejected() if trace is not None:
                trace.approved = False
            case deploy_messages.ModelUpdatePublished():
                self.causes = {message.update: message.cause}
            case deploy_messages.ModelDeployed():
                cause = self.causes.get(message.update)
                if cause == "rollback":
                    recording.rollbacks.append((now_ms, message.sha256))
                elif cause == "round" and trace is not None:
                    trace.live_ms = now_ms

    def _note_task(self, message: Message, now_ms: int) -> None:
        match message:
            case TaskSubmitted() if (number := number_of(message.part, ROUND)) is not None:
                item = ItemTrace(now_ms, message.needs.resources.devices)
                self.tasks[message.task_id] = number, item
                self._note_compared(message, number)
            case TaskAccepted() | AttemptAdopted() if message.task_id in self.tasks:
                item = self.tasks[message.task_id][1]
                if item.since_ms < 0:
                    item.begin(now_ms)
            case TaskReturned() if message.task_id in self.tasks:
                self.tasks[message.task_id][1].pause(now_ms)
            case AttemptEnded() if message.task_id in self.tasks:
                number, item = self.tasks.pop(message.task_id)
                item.pause(now_ms)
                self._add_device_time(number, item)

    def _note_compared(self, message: TaskSubmitted, number: int) -> None:
        """Takes the model that is compared with from the inputs of the evaluation, where it is a task."""
        deployed, rounds = (
            message.inputs.get("deployed"),
            [] if self.recording is None else self.recording.rounds,
        )
        is_eval = message.part is not None and message.part.name == "eval"
        if is_eval and deployed is not None and rounds and rounds[-1].number == number:
            rounds[-1].compared = deployed.sha256

    def _add_device_time(self, number: int, item: ItemTrace) -> None:
        rounds = [] if self.recording is None else self.recording.rounds
        trace = next((each for each in reversed(rounds) if each.number == number), None)
        if trace is not None:
            trace.device_ms += item.busy_ms * item.devices


def _begun(job: IncrementalJob, now_ms: int) -> JobRecording:
    recording = JobRecording(job.job_id, now_ms, "", "", last_ms=now_ms, specs=[(now_ms, job.spec)])
    recording.initial = recording.name_of(job.initial)
    recording.initial_eval = recording.name_of(job.initial_eval)
    return recording


def recorded_job(stream: Stream, records: Iterable[Record]) -> JobRecording | None:
    """Folds records into a stream and returns the job that they are of; None if there is none."""
    collector = JobCollector()
    for record in records:
        _take(stream, collector, record)
    return collector.recording


def _take(stream: Stream, collector: JobCollector, record: Record) -> None:
    if isinstance(record.message, CommandReceived):
        collector.note_command(record.message)
    _observe(stream, collector, record, fold(stream, record, AGGREGATES))


def _observe(stream: Stream, collector: JobCollector, record: Record, outcome: Outcome) -> None:
    if outcome is Outcome.APPLIED and (job := job_of(stream)) is not None:
        collector.observe(job, record)
        forget_settled(stream)


async def read_job(recorded: RecordedStream, point: PointInTime = NOW) -> JobRecording:
    """Reads a job up to a moment; raises NotRecordedError for a stream without one."""
    stream, collector = Stream(recorded.stream_id, recorded.partition), JobCollector()
    async with aclosing(recorded.records()) as records:
        async for record, entry in records:
            if not point.includes(record):
                break
            _take(stream, collector, record)
            async for again, outcome, _ in recorded.read_again(stream, entry.offset + 1):
                _observe(stream, collector, again, outcome)
    if collector.recording is None:
        raise NotRecordedError(
            f"{recorded.stream_id} has no incremental job at that moment; what-if needs one"
        )
    return collector.recording
