"""The events of a summary job as short lines."""

from collections.abc import Mapping

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
)
from trackside.aggregates.summary.state import Summary
from trackside.contracts.envelope.message import Command, Message
from trackside.domain.streams.causality import Causality


class SummaryCausality(Causality[Summary]):
    """Facts about files rest on the files; what people change rests on its command."""

    commanded: Mapping[type[Message], tuple[type[Command], ...]] = {
        SummaryJobFound: (
            RegisterSummaryDirectory,
            CacheTrainJob,
            RetrySummaryFile,
            DeleteSummaryJob,
            AnnotateSummaryJob,
        ),
        SummaryFileRetried: (RetrySummaryFile,),
        SummaryJobDeleted: (DeleteSummaryJob,),
        SummaryJobRestored: (RestoreSummaryJob,),
        SummaryJobAnnotated: (AnnotateSummaryJob,),
    }
    decided = frozenset({SummaryJobFound})

    def part_of(self, event: Message) -> str:
        """Returns the file that an event is about; empty for none."""
        kinds = SummaryFileIndexed | SummaryFileReplaced | SummaryFileQuarantined | SummaryFileRetried
        return event.file if isinstance(event, kinds) else ""

    def text_of(self, event: Message) -> str:
        """Returns what happened, in a few words."""
        match event:
            case SummaryJobFound():
                job = event.job
                return f"task {job.task.task}" if job.task is not None else f"{job.base} {job.path}"
            case SummaryFileIndexed():
                return f"{event.file} bytes {event.begin:,} to {event.end:,}"
            case SummaryFileQuarantined():
                return f"{event.file} at byte {event.offset:,}: {event.code}"
            case SummaryFileReplaced() | SummaryFileRetried():
                return event.file
            case SummaryJobAnnotated():
                return " ".join(str(said) for said in (event.tag, event.remark) if said not in (None, ""))
            case _:
                return ""
