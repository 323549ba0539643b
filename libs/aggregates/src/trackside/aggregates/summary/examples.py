"""One example of every message of summary jobs, with every field in it: part of the published schemas."""

from trackside.aggregates.summary.messages import (
    AnnotateSummaryJob,
    CacheTrainJob,
    DeleteSummaryJob,
    RegisterSummaryDirectory,
    RestoreSummaryJob,
    RetrySummaryFile,
    SummarizedTask,
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryFileReplaced,
    SummaryFileRetried,
    SummaryJobAnnotated,
    SummaryJobDeleted,
    SummaryJobFound,
    SummaryJobRestored,
    SummaryJobSpec,
    SummaryJobVanished,
)
from trackside.contracts.envelope.message import Message

FILE = "events.out.tfevents.1700000000.host.1.0"
TASK = SummarizedTask(stream="digits-1", task="digits-1.7")
EXAMPLES: list[Message] = [
    RegisterSummaryDirectory(base="/data/runs", path="digits/1"),
    CacheTrainJob(task=TASK),
    RetrySummaryFile(file=FILE),
    DeleteSummaryJob(task=TASK, reason="a wrong data set", purge=True),
    RestoreSummaryJob(),
    AnnotateSummaryJob(task=TASK, tag=3, remark="the baseline"),
    SummaryJobFound(command_id="c-1", job=SummaryJobSpec(base="/data/runs", path="digits/1", task=TASK)),
    SummaryFileIndexed(sequence=1, file=FILE, begin=0, end=4_096, records=37, fingerprint="8f14e45fceea167a"),
    SummaryFileReplaced(sequence=2, file=FILE),
    SummaryFileQuarantined(
        sequence=3,
        file=FILE,
        offset=4_096,
        code="damaged_record",
        message="the checksum of the record differs",
        again_at_ms=1_700_000_060_000,
    ),
    SummaryFileRetried(command_id="c-2", change=1, file=FILE),
    SummaryJobVanished(sequence=4),
    SummaryJobDeleted(command_id="c-3", change=2, reason="a wrong data set", purge=True),
    SummaryJobRestored(command_id="c-4", change=3),
    SummaryJobAnnotated(command_id="c-5", change=4, tag=3, remark="the baseline"),
]
