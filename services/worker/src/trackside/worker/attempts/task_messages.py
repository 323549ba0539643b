"""What a task says while it runs: each message goes to the one that reports or answers it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

import structlog

from trackside.contracts.tasks.tasks import TaskStatus
from trackside.worker.artifacts.summary_uploads import SummaryUploads
from trackside.worker.attempts.artifacts_in_use import ArtifactsInUse
from trackside.worker.attempts.checkpoint_exchange import CheckpointExchange
from trackside.worker.attempts.conversation import Conversation
from trackside.worker.attempts.spec import AttemptListener
from trackside.worker.child.channel.progress import FORKED, is_kept
from trackside.worker.messages.process_messages import (
    AnswerReceived,
    AnswerTaken,
    ArtifactReleased,
    AttemptEnding,
    AttemptOver,
    CheckpointRequest,
    FetchRequest,
    FromTask,
    InstructionAnswer,
    ParametersRequest,
    PhaseBegan,
    ProcessFree,
    ServiceAlive,
    ServiceReady,
    TrainingInterrupted,
    TrainingResumed,
    type_of,
)
from trackside.worker.messages.report_messages import (
    ArtifactReady,
    FinalValue,
    PointBatch,
    ReportBatch,
    StoredRequest,
    SummaryOmitted,
    SummaryValueReport,
)
from trackside.worker.reporting.reporter import Reporter

log = structlog.get_logger("trackside.worker")


@dataclass(slots=True)
class TaskMessages:
    """Hands on the messages of one attempt; `phase` is the last one that it reported."""

    reporter: Reporter
    listener: AttemptListener
    conversation: Conversation
    exchange: CheckpointExchange
    artifacts: ArtifactsInUse
    summaries: SummaryUploads
    on_over: Callable[[AttemptOver | AttemptEnding], None]
    on_free: Callable[[ProcessFree], None]
    phase: TaskStatus = TaskStatus.INIT
    _last_request: int = 0
    _last_answered: int = 0
    _last_received: int = 0
    _is_restored: bool = False

    def needs_parameters(self, request: int) -> bool:
        """Returns whether the task is to be sent the answer to its request, which happens once.

        Reports an answer again that it has received.
        """
        if request <= self._last_received:
            self.reporter.parameters_taken(request)
        elif self._last_answered < request == self._last_request:
            self._last_answered = request
            return True
        return False

    def handle(self, message: FromTask) -> None:
        """Takes a message of the process."""
        self._handle(message)
        # After a takeover it isn't known which of these are in the progress that was read then.
        if not self._is_restored and is_kept(message):
            self.reporter.progress.handled += 1

    def _handle(self, message: FromTask) -> None:
        match message:
            case PhaseBegan(status):
                self.phase = TaskStatus.of(status)
                self.reporter.status(self.phase)
            case ReportBatch(reports):
                self.reporter.reports(reports)
            case FinalValue(final):
                self.reporter.final(final)
            case PointBatch(points):
                self.reporter.points(points)
            case ParametersRequest(request):
                self._last_request = request
                self.reporter.parameters_requested(request)
            case AnswerReceived(request, goes_on):
                self._last_received = request
                self.reporter.parameters_taken(request)
                self.reporter.count_requests(request, goes_on)
                if goes_on:
                    self.exchange.begin_part(request)
            case ServiceReady() | ServiceAlive() | InstructionAnswer():
                self.conversation.handle(message)
            case CheckpointRequest() | TrainingResumed():
                self.exchange.handle(message)
            case FetchRequest() | ArtifactReleased():
                self.artifacts.handle(message)
            case TrainingInterrupted():
                self.phase = TaskStatus.INTERRUPT
                self.listener.interrupted(message)
            case SummaryValueReport() | SummaryOmitted() | StoredRequest():
                self.summaries.handle(message)
            case ArtifactReady():
                self.listener.saved(message)
                self.exchange.saved(message)
            case AttemptOver() | AttemptEnding():
                self.on_over(message)
            case ProcessFree():
                self.on_free(message)
            case _:
                assert_never(message)

    def restore(self, progress: Sequence[FromTask | AnswerTaken], in_log: int) -> tuple[list[FromTask], bool]:
        """Takes what the task has said to an earlier worker, of which so many messages are in the log.

        What that worker may not have written is reported again. What the task has saved is in its spool, and
        comes from there. Returns the requests that the task waits for, and whether all could be used: a task
        can write to the file that this comes from.
        """
        self._is_restored = True
        try:
            return self._restore(progress, in_log), True
        except Exception as error:  # noqa: BLE001 - see above: a worker doesn't stop for it
            log.error("the progress of a task is unusable: it is lost", reason=repr(error))
            return [], False
        finally:
            self.reporter.progress.muted = False

    def _restore(self, progress: Sequence[FromTask | AnswerTaken], in_log: int) -> list[FromTask]:
        waiting: dict[tuple[str, int], FromTask] = {}
        known = self.reporter.progress
        known.appended = 0 if any(_is_fork(message) for message in progress) else in_log
        for message in progress:
            known.muted = known.handled < known.appended
            known.handled += not isinstance(message, AnswerTaken)
            match message:
                case AnswerTaken(kind, request):
                    taken = waiting.pop((kind, request), None)
                    if isinstance(taken, FetchRequest):
                        self.artifacts.hold_again(taken)
                case CheckpointRequest() | FetchRequest() | StoredRequest():
                    waiting[type_of(message), message.request] = message
                case TrainingResumed():
                    self.exchange.resumed_before(message)
                case InstructionAnswer():
                    self.conversation.answered_before(message)
                case ArtifactReady():
                    self.exchange.saved(message)
                case _:
                    self._handle(message)
        return list(waiting.values())


def _is_fork(message: FromTask | AnswerTaken) -> bool:
    return isinstance(message, AnswerTaken) and message.kind == FORKED
