"""The verifier of streams: passes each applied event to the checks that it concerns.

The fold that every reader shares decides what is applied; but the checks keep histories of their own, so that
a fold that applies too much is found as well.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.fleet.draining import DeviceDrained, DeviceResumed, DrainDevice, ResumeDevice
from trackside.contracts.streams.children import ChildEnded, ChildRequested, ChildStopRequested
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.streams.forgetting import StreamForgotten
from trackside.contracts.streams.labels import AnnotateStream, StreamAnnotated
from trackside.contracts.streams.parking import RecordSkipped
from trackside.contracts.streams.watches import TasksWatched
from trackside.contracts.tasks.artifacts import ArtifactSaved, ArtifactsForgotten
from trackside.contracts.tasks.instructions import InstructionGiven
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    MetricReported,
    TaskAssigned,
    TaskContinued,
    TaskSubmitted,
)
from trackside.contracts.trust.encryption import EncryptedRecord
from trackside.domain.checks.findings import Finding, Findings, RecordPosition, position_of
from trackside.domain.checks.invariants import AggregateInvariants
from trackside.domain.folding.aggregate import AggregateType
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import parse_cause
from trackside.domain.streams import child, key_events
from trackside.domain.streams.stream import Stream, forget_settled, shrink
from trackside.domain.tasks.task_events import KINDS, task_of
from trackside.verify.checks.artifacts import ArtifactChecks
from trackside.verify.checks.causes import CauseChecks
from trackside.verify.checks.children import ChildHistory, check_child_event, check_none_open
from trackside.verify.checks.command_effects import CommandEffectChecks
from trackside.verify.checks.commands import CommandChecks, CommandEvent, CommandHistory
from trackside.verify.checks.decisions import DecisionChecks
from trackside.verify.checks.facts import FactChecks, child_facts
from trackside.verify.checks.numbers import NumberChecks
from trackside.verify.checks.offsets import OffsetChecks
from trackside.verify.checks.publications import PublicationChecks
from trackside.verify.checks.tasks.device_commands import DeviceCommandChecks
from trackside.verify.checks.tasks.devices import ResourceChecks
from trackside.verify.checks.tasks.incarnations import IncarnationChecks, check_role
from trackside.verify.checks.tasks.running_tasks import check_forgotten
from trackside.verify.checks.tasks.task_history import TaskHistory, TaskPhase
from trackside.verify.checks.tasks.tasks import TaskChecks
from trackside.verify.checks.tasks.worker_reports import WorkerReportChecks, is_report
from trackside.verify.checks.tasks.writers import check_repeated

Fold = Callable[[Record], tuple[Stream, Outcome]]
COMMAND_EVENTS = frozenset({CommandReceived, CommandAccepted, CommandRefused})


@dataclass(slots=True)
class StreamHistory:
    """The histories of one stream; once it is over only those of its commands are kept.

    `root` is the history of its aggregate, once that has begun.
    """

    commands: CommandHistory = field(default_factory=CommandHistory)
    aggregate: AggregateType[Any] | None = None
    root: AggregateInvariants | None = None
    tasks: dict[str, TaskHistory] = field(default_factory=dict)
    children: ChildHistory = field(default_factory=ChildHistory)
    annotated: set[str] = field(default_factory=set)
    """The commands that have changed its labels."""
    drained: set[str] = field(default_factory=set)
    """The devices that are drained, of the stream of a worker."""
    changed_at: int = -1
    """The offset of the last event that was applied, but for those of commands."""
    root_changed_at: int = -1
    """That of the last one that is not of a task."""
    over: bool = False
    begun: RecordPosition | None = None


class Verifier:
    """Takes the records of the fleet topic, then those of the events topic, and collects findings.

    Records come in order within a partition, in any order between partitions. `whole` is false if it takes
    the events of one stream only: what other streams have can't be checked then. `topics` are those that it
    reads; without them it isn't known in which partition a stream is, nor what was published.
    """

    def __init__(self, fold: Fold | None = None, *, whole: bool = True, topics: Topics | None = None) -> None:
        self.findings = Findings()
        self.offsets = OffsetChecks(self.findings)
        self.incarnations = IncarnationChecks(self.findings)
        self.resources = ResourceChecks(self.findings)
        self.publications = PublicationChecks(self.findings, topics)
        self.commands = CommandChecks(self.findings, self.publications)
        self.device_commands = DeviceCommandChecks(self.findings)
        self.histories: dict[str, StreamHistory] = {}
        self.uncompared_uses = 0
        self._whole = whole
        self._partitions = topics.event_partitions if topics is not None else 0
        self._ends: dict[int, int] = {}
        self.streams = Streams(AGGREGATES, partitions=self._partitions)
        self._fold = fold or self.streams.fold
        self._unreadable: set[str] = set()
        """Encrypted streams that were forgotten, or whose key this reader lacks."""
        self._artifacts = ArtifactChecks(self.findings)
        self._causes = CauseChecks(self.findings)
        self._decisions = DecisionChecks(self.findings)
        self._numbers = NumberChecks(self.findings)
        self._reports = WorkerReportChecks(self.findings)
        self._effects = CommandEffectChecks(self.findings)
        self._facts = FactChecks(self.findings)
        self._tasks = TaskChecks(self.findings, self.incarnations, self.resources)

    def take_again(self, stream: Stream, outcome: Outcome, record: Record) -> None:
        """Checks a record that waited while its stream was parked, once that goes on."""
        if outcome is Outcome.APPLIED:
            self._check_applied(stream, record)
            forget_settled(stream)

    def take_fleet(self, record: Record) -> None:
        """Checks one record of the fleet topic."""
        self.incarnations.take(record)
        self._reports.take(record)
        self._take_number(record)

    def take(self, record: Record) -> tuple[Stream, Outcome]:
        """Checks one record of the events topic; one that isn't applied for its decision and number alone."""
        stream, outcome = self._fold(record)
        self._ends[record.partition] = record.offset + 1
        self._decisions.take(record, outcome)
        is_copy = record.distrust != "" or self._reports.take(record)
        if outcome is Outcome.APPLIED:
            self._check_applied(stream, record)
            forget_settled(stream)
        elif type(record.message) is EncryptedRecord:
            if stream.lacks_key or stream.forgotten is not None:  # else a stranger has written it
                self._unreadable.add(stream.stream_id)
        elif outcome is not Outcome.PARKED and not record.distrust:
            self._check_ignored(stream.stream_id, record, is_copy)
        self._take_number(record)
        return stream, outcome

    def _take_number(self, record: Record) -> None:
        """Checks the number of a worker's record, unless its signature says that it is not that worker's."""
        if not record.distrust:
            self._numbers.take(record)
            self.resources.take(record)

    def _check_ignored(self, name: str, record: Record, is_copy: bool) -> None:
        """Checks a record without effect: something before it must have taken that."""
        event, history = record.message, self.histories.get(name)
        if history is None or history.over:
            return
        if is_report(record):
            task = history.tasks.get(task_of(event) or getattr(event, "task_id", ""))
            self._reports.ignored(task, record, is_copy=is_copy)
            if task is not None and type(event) is MetricReported:
                check_repeated(task, event, record, self.findings)
            elif task is not None and type(event) is AttemptAdopted:
                task.claimed.add(event.incarnation)
            return
        if type(event) is TaskAssigned:
            self._tasks.ignored(history.tasks.get(event.task_id), event, record)
        why = ""
        if history.root is not None and AGGREGATES.by_event.get(type(event)) is history.aggregate:
            why = history.root.not_repeated(event, record) or history.root.ignored(event)
        if why := why or _not_overtaken(history, record):
            self.findings.leave_open("INV-10", record, f"{type(event).__name__} has no effect, and {why}")

    def finish(self) -> list[Finding]:
        """Adds what only the whole log shows, and returns all findings; others are open, in `findings`."""
        self._decisions.finish()
        self.incarnations.finish()
        if self._whole:
            self._reports.finish(self.incarnations.by_name.values())
            self._causes.finish({*self.incarnations.newest, *self._unreadable}, self._end_of)
            self._artifacts.finish()
            self._facts.finish({*self._unreadable})
        self.publications.finish()
        self.device_commands.finish(self._unreadable)
        self.commands.finish((history.commands for history in self.histories.values()), self._unreadable)
        for history in self.histories.values():
            self._check_finished(history)
        self.uncompared_uses = self.resources.finish()
        return self.findings.sorted()

    def _check_finished(self, history: StreamHistory) -> None:
        """Leaves open that a stream which has begun is not over, or lacks the end of a child."""
        if history.begun is None:
            return
        self.findings.checked["INV-27"] += 1
        children = (name for name in sorted(history.children.open) if self._facts.has(name, "its end"))
        left = [f"child {name} has ended, and no event of its parent says so" for name in children]
        if history.root is not None:
            left.append(history.root.unfinished())
        for message in filter(None, left):
            self.findings.leave_open("INV-27", history.begun, message)

    def _end_of(self, stream: str) -> float:
        """Returns how far the partition of a stream was read."""
        if not self._partitions:
            return float("inf")
        return self._ends.get(partition_of(stream, self._partitions), 0)

    def _check_applied(self, stream: Stream, record: Record) -> None:
        event = record.message
        self.findings.checked["INV-7"] += 1
        self.findings.checked["INV-10"] += 1
        check_role(self.findings, record)
        if type(event) in key_events.KINDS:
            return  # they are in streams of their own, and the fold has checked who signed them
        if stream.forgotten is not None:
            self._take_forgotten(stream, record)
            return
        self._causes.take(record)
        self._effects.take(record)
        history = self.histories.get(stream.stream_id)
        if history is None:
            history = self.histories[stream.stream_id] = StreamHistory()
            if not isinstance(event, CommandReceived | RecordSkipped):
                self.findings.add("INV-10", record, "a stream does not begin with a command")
        if type(event) in COMMAND_EVENTS:
            is_new = self.commands.take(history.commands, cast(CommandEvent, event), record)
            if is_new and record.envelope.count == 1:
                self._check_alone(history, record)
        elif type(event) in KINDS:
            self._check_task_event(history, stream.stream_id, record)
        elif isinstance(event, ArtifactsForgotten):
            check_forgotten(history.tasks, event, record, self.findings)  # also of a stream that is over
        elif isinstance(event, DeviceDrained):
            history.drained.add(event.device_id)
        elif isinstance(event, DeviceResumed):
            history.drained.discard(event.device_id)
        elif isinstance(event, TasksWatched):
            self._facts.states(record, [(f"the watch {event.watch.key}", True)])
            waiting = parse_cause(record.envelope.causation_id)
            if waiting is not None:
                fact = (waiting[0], f"the watch of {stream.stream_id}", event.watch)
                self._facts.repeats(record, [fact])
        elif type(event) is RecordSkipped:
            pass  # what it skips has no effect
        elif type(event) is StreamAnnotated:  # also of a stream that is over
            self._check_annotated(history, event, record)
        elif history.over:
            name = type(event).__name__
            self.findings.add("INV-10", record, f"the stream was over before this {name}")
        else:
            self._check_root_event(history, stream, record)
        _note_change(history, record)

    def _check_alone(self, history: StreamHistory, record: Record) -> None:
        """Checks that a command without events asks for what is so already; older releases named no cause."""
        command, why = self._effects.command_of(record), ""
        match command:
            case DrainDevice():
                why = "the device is not drained"
            case ResumeDevice(device=device) if device in history.drained:
                why = "the device is drained"
            case AnnotateStream() if command != AnnotateStream():
                why = "its labels are not those"
            case _ if history.root is not None:
                why = history.root.accepted_alone(command)
        if why and record.envelope.causation_id:
            name = type(command).__name__
            self.findings.add("INV-26", record, f"{name} is accepted without an event, and {why}")

    def _take_forgotten(self, stream: Stream, record: Record) -> None:
        """Checks only that a command has asked for a stream to be forgotten: the rest can't be read."""
        event = record.message
        self.histories.pop(stream.stream_id, None)
        self._unreadable.add(stream.stream_id)
        if isinstance(event, StreamForgotten) and not event.commands:
            self.findings.add("INV-10", record, "the stream was forgotten, and no command has asked for that")

    def _check_annotated(self, history: StreamHistory, event: StreamAnnotated, record: Record) -> None:
        if history.aggregate is None:
            self.findings.add("INV-10", record, "a stream was annotated in which nothing has begun")
        if event.command_id in history.annotated:
            self.findings.add("INV-10", record, f"command {event.command_id} has annotated the stream twice")
        history.annotated.add(event.command_id)

    def _check_root_event(self, history: StreamHistory, stream: Stream, record: Record) -> None:
        event, kind = record.message, type(record.message)
        begun = AGGREGATES.begun_by(kind)
        if kind in child.KINDS and history.root is not None:
            known = cast(child.ChildEvent, event)
            if isinstance(event, ChildRequested | ChildStopRequested):
                self.publications.child_asked(event, record)
            check_child_event(history.children, history.root, known, record, self.findings)
            if isinstance(event, ChildEnded) and event.status != "REFUSED":
                self._facts.repeats(record, child_facts(event))
            return
        if begun is not None and history.root is None:
            history.aggregate, history.begun = begun, position_of(record)
            history.root = begun.invariants(record, history.tasks, self.findings)
            self._facts.states(record, history.root.facts_of(event))
            self._facts.repeats(record, history.root.repeated_by(event))
            history.root.changed(event, record)
            history.root.begun_by(self._effects.newest(stream.stream_id), record)
        elif begun is not None and (begun.begins_once or begun is not history.aggregate):
            self.findings.add("INV-10", record, f"{kind.__name__} in a stream that has its root")
        elif history.root is None or AGGREGATES.by_event.get(kind) is not history.aggregate:
            self.findings.illegal(record, "has no such root")
        else:
            history.root.command = self._effects.command_of(record)
            history.root.changed(event, record)
            history.root.take(event, record)
            self._facts.states(record, history.root.facts_of(event))
            self._facts.repeats(record, history.root.repeated_by(event))
            for reference in history.root.artifacts_of(event):
                self._artifacts.named(reference, record)
            if history.aggregate is not None and kind is history.aggregate.ends_with:
                self._end_stream(history, stream, record)

    def _check_task_event(self, history: StreamHistory, stream: str, record: Record) -> None:
        event, task_id = record.message, task_of(record.message)
        if type(event) is ArtifactSaved:
            self._artifacts.saved(event, record)
        if history.over:
            message = f"task {task_id}: the stream was over before this {type(event).__name__}"
            self.findings.add("INV-2", record, message)
            return
        if type(event) is TaskSubmitted:
            if self._tasks.submitted(history.tasks, event, record) and history.root is not None:
                history.root.task_submitted(event, record)
            return
        task = history.tasks.get(task_id)
        if type(event) is InstructionGiven:
            self.device_commands.instructed(event, record)
        elif type(event) is TaskAssigned:
            self.device_commands.assigned(stream, event, task)
        if task is None:
            message = f"{type(event).__name__} of task {task_id}, which was never submitted"
            self.findings.add("INV-10", record, message)
        elif self._tasks.take(task, event, record) and history.root is not None:  # type: ignore[arg-type]
            history.root.task_ended(task_id)
        elif type(event) is TaskContinued and history.root is not None:
            history.root.task_continued(event, record)

    def _end_stream(self, history: StreamHistory, stream: Stream, record: Record) -> None:
        history.over = True
        for name, task in history.tasks.items():
            if task.phase is not TaskPhase.ENDED:
                self.findings.add("INV-2", record, f"the stream is over, its task {name} has not ended")
        check_none_open(history.children, record, self.findings)
        history.tasks, history.root, history.children = {}, None, ChildHistory()
        shrink(stream)


def _not_overtaken(history: StreamHistory, record: Record) -> str:
    """Returns that a decision has no effect, and nothing that it is about has changed since its cause.

    Of a decision only the first event is asked about. An answer may be a second one, and what is written
    before its time has no effect.
    """
    event, envelope = record.message, record.envelope
    cause = parse_cause(envelope.causation_id)
    due_ms = getattr(event, "due_ms", None)
    if cause is None or cause[0] != envelope.stream or envelope.index:
        return ""
    early = due_ms is not None and record.append_time_ms < due_ms
    if early or type(event) is TaskAssigned or type(event) in COMMAND_EVENTS:
        return ""
    changed_at = history.changed_at
    if name := task_of(event):
        task = history.tasks.get(name)
        changed_at = max(history.root_changed_at, -1 if task is None else task.changed_at)
    return "" if changed_at > cause[1] else f"nothing has changed since {cause[1]}, its cause"


def _note_change(history: StreamHistory, record: Record) -> None:
    if type(record.message) in COMMAND_EVENTS:
        return
    history.changed_at = record.offset
    name = task_of(record.message)
    task = history.tasks.get(name)
    if task is not None:
        task.changed_at = record.offset
    elif not name:
        history.root_changed_at = record.offset
