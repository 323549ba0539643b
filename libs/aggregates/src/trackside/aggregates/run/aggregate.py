"""The run as an aggregate type: its events and commands, who folds and who decides them."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from trackside.aggregates.run import decide, evolve, messages, step_messages
from trackside.aggregates.run.causes import RunCausality
from trackside.aggregates.run.invariants import RunInvariants
from trackside.aggregates.run.messages import RunArchived, RunEnded, RunStarted
from trackside.aggregates.run.rows import GateRows, RunRows, StepRows
from trackside.aggregates.run.spec import SPECS, stop_command
from trackside.aggregates.run.state import Run
from trackside.aggregates.run.steps import cache, commands, progress, start
from trackside.aggregates.run.steps.outputs import outcome_of
from trackside.aggregates.run.view import VIEW
from trackside.contracts.envelope.message import Command, Event, Json, Message, Record
from trackside.contracts.streams.children import ChildRequested, WantedChild
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.aggregate import AggregateType, Handler
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.signals import Signal
from trackside.domain.outcome import Outcome
from trackside.domain.pipelines.definition import CACHE
from trackside.domain.proposal import Proposal
from trackside.domain.streams.child import Child
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task


class RunType(AggregateType[Run]):
    """Runs of pipelines."""

    kind = "run"
    state = Run
    begins_with = RunStarted
    ends_with = RunArchived
    events = (
        RunStarted,
        step_messages.StepReady,
        step_messages.StepResolved,
        step_messages.StepSkipped,
        step_messages.StepExpanded,
        step_messages.StepRepeated,
        step_messages.StepAbortRequested,
        step_messages.StepCacheHit,
        step_messages.StepCacheMissed,
        step_messages.StepEnded,
        step_messages.GateOpened,
        step_messages.GateDecided,
        messages.RunPaused,
        messages.RunResumed,
        messages.RunUpdated,
        messages.RunAbortRequested,
        messages.RunTimeLimitReached,
        messages.RunRevived,
        RunEnded,
        RunArchived,
    )
    indexed_after = frozenset[type[Event]]((step_messages.StepEnded, step_messages.StepCacheHit))
    commands: Mapping[type[Command], Handler] = {
        messages.StartPipelineRun: start.start,
        messages.PausePipelineRun: commands.pause,
        messages.ResumePipelineRun: commands.resume,
        messages.AbortPipelineRun: commands.abort,
        messages.RetryFailedSteps: start.retry,
        messages.RestartFromStep: start.restart,
        messages.SkipStep: commands.skip_step,
        messages.AbortStep: commands.abort_step,
        messages.ApproveGate: commands.approve,
        messages.RejectGate: commands.reject,
        messages.UpdatePipelineRun: commands.update,
        messages.ArchiveRun: commands.archive,
    }
    opened_by = frozenset[type[Command]](
        (messages.StartPipelineRun, messages.RetryFailedSteps, messages.RestartFromStep)
    )
    mailed = (RunEnded,)
    may_be_too_late = (
        messages.RunAbortRequested,
        messages.RunPaused,
        messages.RunResumed,
        messages.RunUpdated,
        messages.RunRevived,
        RunArchived,
        step_messages.StepAbortRequested,
        step_messages.StepSkipped,
        step_messages.GateDecided,
    )
    causes = RunCausality()
    specs = SPECS
    invariants = RunInvariants
    child_begins_by = messages.StartPipelineRun
    rows = (RunRows(), StepRows(), GateRows())
    view = VIEW

    def begin(self, stream_id: str, event: RunStarted, record: Record) -> Run:
        """Makes the run of a RunStarted event."""
        return progress.begin(stream_id, event, record)

    def evolve(self, root: Run, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds an event of the run."""
        return evolve.evolve(root, record)

    def admits(self, root: Run, event: TaskSubmitted) -> bool:
        """Returns whether a task is the next item of a step that may begin."""
        return progress.admits(root, event)

    def task_submitted(self, root: Run, task: Task, record: Record) -> None:
        """Counts an item that has begun."""
        assert task.part is not None
        if task.part.kind == CACHE:
            progress.note_check(root, task.part.name, task)
            return
        progress.note_begun(root, task.part.name, task.part.number)

    def task_changed(self, root: Run, task: Task, record: Record, reports: int) -> None:
        """Counts an item that runs, or has ended."""
        progress.note_task(root, task, record)

    def stop_command(self, task: str, reason: str) -> Command:
        """Returns what stops the run, or one step of it."""
        return stop_command(task, reason)

    def children_of(self, command: Command, stream_id: str) -> Iterable[WantedChild]:
        """Yields the children that a run asks for."""
        return start.children_of(command, stream_id)

    def admits_child(self, root: Run, event: ChildRequested) -> bool:
        """Returns whether a child is the next item of a step that may begin."""
        return progress.admits_child(root, event)

    def child_changed(self, root: Run, child: Child, record: Record) -> None:
        """Counts a child that was requested, or has ended."""
        progress.note_child(root, child, record)

    def outcome(self, root: Run) -> tuple[str, Json]:
        """Returns its status and what it has found."""
        return root.status.value, outcome_of(root)

    def ends(self, root: Run) -> Mapping[str, int]:
        """Counts its steps by how they ended."""
        return Counter(step.state.value for step in root.steps.values() if step.over)

    def signals(self, root: Run) -> Iterable[Signal]:
        """Yields that it is over, again after each revival."""
        for signal in super().signals(root):
            yield signal._replace(key=f"{signal.key}.{root.revival}")

    def schedules_of(self, root: Run) -> list[str]:
        """Returns the schedules that led to the run."""
        return [] if root.origin is None else list(root.origin.schedules)

    def index_keys(self, root: Run, event: Message | None) -> Iterable[tuple[str, int]]:
        """Yields the keys of steps that are in the cache: those of one event, or all."""
        assert event is None or isinstance(event, step_messages.StepEnded | step_messages.StepCacheHit)
        return cache.index_keys(root, root.steps if event is None else (event.step,))

    def artifacts_forgotten(self, root: Run, digests: Collection[str]) -> None:
        """Takes steps out of the cache whose artifacts need not be kept."""
        progress.forget_artifacts(root, digests)

    def lacking(self, stream: Stream[Run], lookup: Lookup) -> Iterable[Proposal]:
        """Yields what the run lacks now."""
        return decide.lacking(stream, lookup)

    def next_due_ms(self, stream: Stream[Run]) -> int | None:
        """Returns when its next time limit is reached."""
        return decide.next_due_ms(stream.root)

    def due(self, stream: Stream[Run], now_ms: int) -> Iterable[Proposal]:
        """Yields what follows from its time limits that are reached."""
        return decide.due(stream, now_ms)


RUN = RunType()
