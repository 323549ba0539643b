"""The incremental job as an aggregate type: its events and commands, who folds and who decides them."""

from collections.abc import Iterable, Mapping

from trackside.aggregates.rounds import evolve, gauges, messages
from trackside.aggregates.rounds.causes import RoundsCausality
from trackside.aggregates.rounds.decisions import decide, output_paths
from trackside.aggregates.rounds.decisions.deploying import outgoing
from trackside.aggregates.rounds.invariants import RoundsInvariants
from trackside.aggregates.rounds.job import deploy_messages
from trackside.aggregates.rounds.messages import IncrementalJobCreated
from trackside.aggregates.rounds.rows import RECORD_ROWS, IncrementalJobRows, InferenceServiceRows
from trackside.aggregates.rounds.spec import SPECS
from trackside.aggregates.rounds.stages import tasks
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.aggregates.rounds.view import VIEW
from trackside.contracts.envelope.message import Command, Event, Json, Message, Record
from trackside.contracts.streams.children import ChildRequested, WantedChild
from trackside.contracts.streams.watches import TaskWatch
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.aggregate import AggregateType, Handler
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.signals import GaugeReading
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.child import Child
from trackside.domain.streams.outgoing import OutgoingCommand
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task


class RoundsType(AggregateType[IncrementalJob]):
    """Jobs of incremental learning."""

    kind = "rounds"
    state = IncrementalJob
    begins_with = IncrementalJobCreated
    events: tuple[type[Event], ...] = (
        IncrementalJobCreated,
        messages.IncrementalJobUpdated,
        messages.IncrementalJobPaused,
        messages.IncrementalJobResumed,
        messages.IncrementalJobDeleted,
        messages.SamplesAssigned,
        messages.TriggerEvaluated,
        messages.SampleManifestWritten,
        messages.RoundStarted,
        messages.StageBlocked,
        messages.ModelTrained,
        messages.StageEnded,
        messages.RoundEnded,
        deploy_messages.DeployDecided,
        deploy_messages.DeployApproved,
        deploy_messages.DeployRejected,
        deploy_messages.ModelUpdatePublished,
        deploy_messages.ModelCopied,
        deploy_messages.ModelUpdateConfirmed,
        deploy_messages.ModelUpdateFailed,
        deploy_messages.ModelUpdateTimedOut,
        deploy_messages.ModelDeployed,
        deploy_messages.ModelRolledBack,
        deploy_messages.ConfigRemovalEnded,
        deploy_messages.HardExamplesReported,
    )
    commands: Mapping[type[Command], Handler] = {
        messages.CreateIncrementalJob: decide.create,
        messages.UpdateIncrementalJob: decide.update,
        messages.PauseIncrementalJob: decide.pause,
        messages.ResumeIncrementalJob: decide.resume,
        messages.DeleteIncrementalJob: decide.delete,
        messages.FireTrain: decide.fire_train,
        messages.FireEval: decide.fire_eval,
        messages.FireDeploy: decide.fire_deploy,
        messages.ApproveDeploy: decide.approve,
        messages.RejectDeploy: decide.reject,
        messages.RollbackModel: decide.rollback,
        messages.ReportHardExamples: decide.report_hard_examples,
    }
    opened_by = frozenset[type[Command]]((messages.CreateIncrementalJob,))
    specs = SPECS
    rows = (IncrementalJobRows(), InferenceServiceRows())
    record_rows = RECORD_ROWS
    view = VIEW
    may_be_too_late = (
        messages.IncrementalJobUpdated,
        messages.IncrementalJobPaused,
        messages.IncrementalJobResumed,
        messages.IncrementalJobDeleted,
        messages.TriggerEvaluated,
        deploy_messages.DeployDecided,
        deploy_messages.DeployApproved,
        deploy_messages.DeployRejected,
        deploy_messages.ModelRolledBack,
        deploy_messages.ConfigRemovalEnded,
        deploy_messages.HardExamplesReported,
    )

    indexed_after = frozenset[type[Event]]((IncrementalJobCreated, messages.IncrementalJobUpdated))
    mailed = (deploy_messages.ModelDeployed, deploy_messages.ModelUpdateTimedOut)
    causes = RoundsCausality()
    invariants = RoundsInvariants

    def begin(self, stream_id: str, event: IncrementalJobCreated, record: Record) -> IncrementalJob:
        """Makes the job of an IncrementalJobCreated event."""
        return evolve.begin(stream_id, event, record)

    def evolve(self, root: IncrementalJob, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds an event of the job."""
        return evolve.evolve(root, record)

    def admits(self, root: IncrementalJob, event: TaskSubmitted) -> bool:
        """Returns whether a task is the next one that the job lacks."""
        return tasks.admits(root, event)

    def task_submitted(self, root: IncrementalJob, task: Task, record: Record) -> None:
        """Takes in that a task was submitted."""
        tasks.task_submitted(root, task, record)

    def task_changed(self, root: IncrementalJob, task: Task, record: Record, reports: int) -> None:
        """Takes in what became of a task."""
        tasks.task_changed(root, task, record)

    def children_of(self, command: Command, stream_id: str) -> Iterable[WantedChild]:
        """Yields the children that a definition asks for."""
        if isinstance(command, messages.CreateIncrementalJob):
            return decide.children_of(command, stream_id, "$")
        if isinstance(command, messages.UpdateIncrementalJob):
            return decide.children_of(command.job, stream_id, "$.job")
        return ()

    def admits_child(self, root: IncrementalJob, event: ChildRequested) -> bool:
        """Returns whether a child is the stage that is to run now."""
        return tasks.admits_child(root, event)

    def child_changed(self, root: IncrementalJob, child: Child, record: Record) -> None:
        """Takes in that a child was requested, or has ended."""
        tasks.child_changed(root, child, record)

    def stop_command(self, task: str, reason: str) -> Command | None:
        """Returns what ends a job; a task of it alone can't be stopped."""
        return None if task else messages.DeleteIncrementalJob(reason=reason)

    def outcome(self, root: IncrementalJob) -> tuple[str, Json]:
        """Returns its status, and the model that is live."""
        return root.status.value, {"live": root.live.model_dump(mode="json"), "rounds": root.rounds}

    def gauges(self, root: IncrementalJob) -> Iterable[GaugeReading]:
        """Yields its samples, rounds, stage and metrics, and what is live."""
        return gauges.readings(root)

    def awaits(self, root: IncrementalJob) -> Iterable[tuple[str, TaskWatch | None]]:
        """Returns its dataset, and the model that its trained ones become versions of."""
        named = {root.spec.dataset.name, root.spec.model}
        if root.round is not None:
            named.add(root.round.spec.model)
        return [(name, None) for name in sorted(named)]

    def index_keys(self, root: IncrementalJob, event: Message | None) -> Iterable[tuple[str, int]]:
        """Yields the keys of the files and folders that the job writes."""
        return output_paths.index_keys(root)

    def outgoing(self, root: IncrementalJob) -> Iterable[OutgoingCommand]:
        """Yields versions of its model that were trained, and the stage of the one that is live."""
        return outgoing(root)

    def lacking(self, stream: Stream[IncrementalJob], lookup: Lookup) -> Iterable[Proposal]:
        """Yields what the job lacks now."""
        return decide.lacking(stream, lookup)

    def next_due_ms(self, stream: Stream[IncrementalJob]) -> int | None:
        """Returns when the next thing follows from time alone."""
        return decide.next_due_ms(stream)

    def due(self, stream: Stream[IncrementalJob], now_ms: int) -> Iterable[Proposal]:
        """Yields what follows from the times that are reached."""
        return decide.due(stream, now_ms)


ROUNDS = RoundsType()
