"""The summary job as an aggregate type: its events and commands, who folds and who decides them."""

from collections.abc import Iterable, Mapping

from trackside.aggregates.summary import decide, evolve
from trackside.aggregates.summary.causes import SummaryCausality
from trackside.aggregates.summary.invariants import SummaryInvariants
from trackside.aggregates.summary.messages import (
    AnnotateSummaryJob,
    CacheTrainJob,
    DeleteSummaryJob,
    RegisterSummaryDirectory,
    RestoreSummaryJob,
    RetrySummaryFile,
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryFileReplaced,
    SummaryFileRetried,
    SummaryJobAnnotated,
    SummaryJobDeleted,
    SummaryJobFound,
    SummaryJobRestored,
    SummaryJobVanished,
)
from trackside.aggregates.summary.rows import SummaryFileRows, SummaryJobRows
from trackside.aggregates.summary.spec import SPECS
from trackside.aggregates.summary.state import Summary
from trackside.aggregates.summary.view import VIEW
from trackside.contracts.envelope.message import Command, Event, Record
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.aggregate import AggregateType, Handler
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.signals import Signal
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task


class SummaryType(AggregateType[Summary]):
    """Summary jobs."""

    kind = "summary"
    state = Summary
    begins_with = SummaryJobFound
    events: tuple[type[Event], ...] = (
        SummaryJobFound,
        SummaryFileIndexed,
        SummaryFileReplaced,
        SummaryFileQuarantined,
        SummaryFileRetried,
        SummaryJobVanished,
        SummaryJobDeleted,
        SummaryJobRestored,
        SummaryJobAnnotated,
    )
    commands: Mapping[type[Command], Handler] = {
        RegisterSummaryDirectory: decide.register,
        CacheTrainJob: decide.cache,
        RetrySummaryFile: decide.retry,
        DeleteSummaryJob: decide.delete,
        RestoreSummaryJob: decide.restore,
        AnnotateSummaryJob: decide.annotate,
    }
    causes = SummaryCausality()
    specs = SPECS
    invariants = SummaryInvariants
    rows = (SummaryJobRows(), SummaryFileRows())
    view = VIEW

    def begin(self, stream_id: str, event: SummaryJobFound, record: Record) -> Summary:
        """Makes the job of a SummaryJobFound event."""
        return evolve.begin(stream_id, event, record)

    def evolve(self, root: Summary, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds an event of the job."""
        return evolve.evolve(root, record)

    def admits(self, root: Summary, event: TaskSubmitted) -> bool:
        """Returns False: a summary job has no tasks."""
        return False

    def signals(self, root: Summary) -> Iterable[Signal]:
        """Yields nothing: no schedule waits for it."""
        return ()

    def lacking(self, stream: Stream[Summary], lookup: Lookup) -> Iterable[Proposal]:
        """Yields nothing: it changes by commands and by what is read of its files."""
        return ()


SUMMARY = SummaryType()
