"""What the dispatcher decides about summary jobs: from the command and the job alone. Pure."""

from trackside.aggregates.summary.messages import (
    AnnotateSummaryJob,
    CacheTrainJob,
    DeleteSummaryJob,
    RegisterSummaryDirectory,
    RestoreSummaryJob,
    RetrySummaryFile,
    SummarizedTask,
    SummaryFileRetried,
    SummaryFileStatus,
    SummaryJobAnnotated,
    SummaryJobDeleted,
    SummaryJobFound,
    SummaryJobRestored,
    SummaryJobSpec,
    SummaryJobStatus,
    task_job_id,
)
from trackside.aggregates.summary.state import Summary, summary_of
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.domain.folding.aggregate import Decided
from trackside.domain.folding.lookup import Lookup
from trackside.domain.streams.stream import Stream, check_not_begun, no_aggregate


def register(stream: Stream, wanted: RegisterSummaryDirectory, command_id: str, lookup: Lookup) -> Decided:
    """Begins the job of a directory; one that is known stays as it is."""
    job = summary_of(stream)
    if job is not None and (job.spec.base, job.spec.path) == (wanted.base, wanted.path):
        return []
    found = SummaryJobSpec(base=wanted.base, path=wanted.path)
    return check_not_begun(stream) or [SummaryJobFound(command_id=command_id, job=found)]


def cache(stream: Stream, wanted: CacheTrainJob, command_id: str, lookup: Lookup) -> Decided:
    """Accepts: what a summary indexer has in memory is no state of the job."""
    job = _job(stream, wanted.task, command_id)
    return job if isinstance(job, Problem) else job[0]


def retry(stream: Stream, wanted: RetrySummaryFile, command_id: str, lookup: Lookup) -> Decided:
    """Gets quarantined files read again now; others stay as they are."""
    job = summary_of(stream)
    if job is None:
        return no_aggregate(stream, "summary")
    if wanted.file is not None and wanted.file not in job.files:
        message = f"job {job.job_id} has no file {wanted.file!r}{nearest(wanted.file, job.files)}"
        return Problem(code="unknown_summary_file", path="$.file", message=message)
    names = sorted(job.files) if wanted.file is None else [wanted.file]
    waiting = [
        name
        for name in names
        if job.files[name].status is SummaryFileStatus.QUARANTINED and job.files[name].again_at_ms
    ]
    if job.status is SummaryJobStatus.DELETED:
        return []
    first = job.changes + 1
    return [
        SummaryFileRetried(command_id=command_id, change=change, file=name)
        for change, name in enumerate(waiting, first)
    ]


def delete(stream: Stream, wanted: DeleteSummaryJob, command_id: str, lookup: Lookup) -> Decided:
    """Deletes a job; one that is deleted stays so."""
    job = _job(stream, wanted.task, command_id)
    if isinstance(job, Problem):
        return job
    found, change, before = job
    if before is not None and before.status is SummaryJobStatus.DELETED and before.purged >= wanted.purge:
        return []
    given = {"reason": wanted.reason, "purge": wanted.purge}
    return [*found, SummaryJobDeleted(command_id=command_id, change=change, **given)]


def restore(stream: Stream, wanted: RestoreSummaryJob, command_id: str, lookup: Lookup) -> Decided:
    """Restores a deleted job; any other one stays as it is."""
    job = summary_of(stream)
    if job is None:
        return no_aggregate(stream, "summary")
    if job.status is not SummaryJobStatus.DELETED:
        return []
    return [SummaryJobRestored(command_id=command_id, change=job.changes + 1)]


def annotate(stream: Stream, wanted: AnnotateSummaryJob, command_id: str, lookup: Lookup) -> Decided:
    """Changes the tag or the remark of a job; what they are already changes nothing."""
    known = _job(stream, wanted.task, command_id)
    if isinstance(known, Problem):
        return known
    found, change, job = known
    before = (None, "") if job is None else (job.tag, job.remark)
    tag = before[0] if wanted.tag is None else wanted.tag
    remark = before[1] if wanted.remark is None else wanted.remark
    if (tag, remark) == before:
        return []
    return [*found, SummaryJobAnnotated(command_id=command_id, change=change, tag=tag, remark=remark)]


def _job(
    stream: Stream, task: SummarizedTask | None, command_id: str
) -> tuple[list[Event], int, Summary | None] | Problem:
    """Returns the event that begins the job of a task if it is new, the next change, and the job if not."""
    job: Summary | None = summary_of(stream)
    if job is not None:
        if task is not None and job.spec.task != task:
            message = f"job {job.job_id} is another one than that of task {task.task}"
            return Problem(code="unknown_summary", path="$.task", message=message)
        return [], job.changes + 1, job
    if task is None or stream.kind:
        return no_aggregate(stream, "summary")
    expected = task_job_id(task.task)
    if stream.stream_id != expected:
        message = f"the job of task {task.task} is {expected}; send the command to that stream"
        return Problem(code="unknown_summary", path="$partitionkey", message=message)
    begins = SummaryJobFound(command_id=command_id, job=SummaryJobSpec(task=task))
    return [begins], 1, None
