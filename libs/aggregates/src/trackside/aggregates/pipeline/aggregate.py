"""The pipeline as an aggregate type: its events and commands, who folds and who decides them."""

from collections.abc import Iterable, Mapping

from trackside.aggregates.pipeline import decide, evolve
from trackside.aggregates.pipeline.causes import PipelineCausality
from trackside.aggregates.pipeline.firing import schedules, triggers
from trackside.aggregates.pipeline.invariants import PipelineInvariants
from trackside.aggregates.pipeline.messages import (
    CancelPipelineRuns,
    DefinePipeline,
    PipelineDefined,
    PipelineRetired,
    RetirePipeline,
    RunCancelled,
    RunNumbered,
    RunPipeline,
)
from trackside.aggregates.pipeline.rows import (
    PipelineRows,
    PipelineRunRows,
    PipelineVersionRows,
    ScheduleRows,
)
from trackside.aggregates.pipeline.schedule import schedule_messages
from trackside.aggregates.pipeline.spec import SPECS, stop_command
from trackside.aggregates.pipeline.state import DefinedPipeline
from trackside.aggregates.pipeline.view import VIEW
from trackside.contracts.envelope.message import Command, Event, Record
from trackside.contracts.streams.children import ChildRequested, WantedChild
from trackside.contracts.streams.watches import TaskWatch
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.aggregate import Aggregates, AggregateType, FindStream, Handler
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.signals import Signal
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.child import Child
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task


class PipelineType(AggregateType[DefinedPipeline]):
    """Pipelines."""

    kind = "pipeline"
    state = DefinedPipeline
    begins_with = PipelineDefined
    begins_once = False
    events: tuple[type[Event], ...] = (
        PipelineDefined,
        PipelineRetired,
        RunNumbered,
        RunCancelled,
        schedule_messages.ScheduleCreated,
        schedule_messages.ScheduleUpdated,
        schedule_messages.SchedulePaused,
        schedule_messages.ScheduleResumed,
        schedule_messages.ScheduleDeleted,
        schedule_messages.ScheduleArmed,
        schedule_messages.ScheduleWatched,
        schedule_messages.ScheduleFired,
    )
    commands: Mapping[type[Command], Handler] = {
        DefinePipeline: decide.define,
        RetirePipeline: decide.retire,
        RunPipeline: decide.run,
        CancelPipelineRuns: decide.cancel,
        schedule_messages.CreateSchedule: schedules.create,
        schedule_messages.UpdateSchedule: schedules.update,
        schedule_messages.PauseSchedule: schedules.pause,
        schedule_messages.ResumeSchedule: schedules.resume,
        schedule_messages.DeleteSchedule: schedules.delete,
        schedule_messages.FireSchedule: schedules.fire,
    }
    opened_by = frozenset[type[Command]]((RunPipeline, schedule_messages.FireSchedule))
    causes = PipelineCausality()
    specs = SPECS
    invariants = PipelineInvariants
    rows = (PipelineRows(), PipelineVersionRows(), PipelineRunRows(), ScheduleRows())
    view = VIEW

    def begin(self, stream_id: str, event: PipelineDefined, record: Record) -> DefinedPipeline:
        """Makes the pipeline of its first PipelineDefined event."""
        return evolve.begin(stream_id, event, record)

    def evolve(self, root: DefinedPipeline, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds an event of the pipeline."""
        return evolve.evolve(root, record)

    def admits(self, root: DefinedPipeline, event: TaskSubmitted) -> bool:
        """Returns False, for a pipeline has no tasks: those of its steps are in the streams of its runs."""
        return False

    def stop_command(self, task: str, reason: str) -> Command | None:
        """Returns what cancels all of its runs, or with `task` the run of that number."""
        return stop_command(task, reason)

    def children_of(self, command: Command, stream_id: str) -> Iterable[WantedChild]:
        """Yields the children that runs of a definition ask for."""
        return decide.children_of(command, stream_id)

    def admits_child(self, root: DefinedPipeline, event: ChildRequested) -> bool:
        """Returns whether a child is the run whose turn it is."""
        return evolve.admits_child(root, event)

    def child_changed(self, root: DefinedPipeline, child: Child, record: Record) -> None:
        """Takes in that a run was begun, is to stop, or has ended."""
        evolve.note_child(root, child, record)

    def lacking(self, stream: Stream[DefinedPipeline], lookup: Lookup) -> Iterable[Proposal]:
        """Yields the run whose turn it is, and the next times of schedules."""
        return decide.lacking(stream)

    def signals(self, root: DefinedPipeline) -> Iterable[Signal]:
        """Yields the run that ended last, of all and with each status."""
        return triggers.signals(root)

    def awaits(self, root: DefinedPipeline) -> Iterable[tuple[str, TaskWatch | None]]:
        """Returns the streams that its schedules wait for, with what of their tasks."""
        return triggers.awaits(root)

    def signalled(
        self, stream: Stream[DefinedPipeline], find: FindStream, aggregates: Aggregates
    ) -> Iterable[Proposal]:
        """Yields what follows from what its schedules wait for."""
        return triggers.signalled(stream, find, aggregates)

    def next_due_ms(self, stream: Stream[DefinedPipeline]) -> int | None:
        """Returns the next time of a schedule."""
        return schedules.next_due_ms(stream.root)

    def due(self, stream: Stream[DefinedPipeline], now_ms: int) -> Iterable[Proposal]:
        """Yields what follows from the times of schedules that have come."""
        return schedules.due(stream, now_ms)


PIPELINE = PipelineType()
