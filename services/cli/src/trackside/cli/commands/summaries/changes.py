"""The commands that change what is said of a job, or have its files or values read."""

from typing import Any

from trackside.aggregates.summary.messages import (
    AnnotateSummaryJob,
    CacheTrainJob,
    DeleteSummaryJob,
    RestoreSummaryJob,
    RetrySummaryFile,
    task_job_id,
)
from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import send
from trackside.cli.commands.summaries.reading import is_directory, read
from trackside.cli.runtime.failures import BadUsage
from trackside.projections.database.postgres import Connection
from trackside.projections.summaries.jobs import SummaryJobRow, read_job


def annotate(job: str, tag: int | None, remark: str | None, publishing: Publishing) -> None:
    """Sets tag or remark of a job; what isn't given stays."""
    if tag is None and remark is None:
        raise BadUsage("nothing to change: expected --tag, --remark or both")
    said = {name: value for name, value in (("tag", tag), ("remark", remark)) if value is not None}
    stream, task = _stream_of(job)
    send(stream, AnnotateSummaryJob, {**task, **said}, publishing)


def delete(job: str, body: dict[str, Any], publishing: Publishing) -> None:
    """Hides a job, or has the rows of its values removed."""
    stream, task = _stream_of(job)
    send(stream, DeleteSummaryJob, {**task, **body}, publishing)


def restore(job: str, publishing: Publishing) -> None:
    """Shows a deleted job again."""
    send(_stream_of(job)[0], RestoreSummaryJob, {}, publishing)


def retry(job: str, file: str, publishing: Publishing) -> None:
    """Gets quarantined files of a directory read again now."""
    send(_directory(job), RetrySummaryFile, {"file": file} if file else {}, publishing)


def cache(job: str, publishing: Publishing) -> None:
    """Gets the values of a job loaded."""
    stream, task = _stream_of(job)
    send(stream, CacheTrainJob, task, publishing)


def _job(job: str) -> SummaryJobRow:
    async def found(connection: Connection) -> SummaryJobRow:
        return await read_job(connection, job)

    return read(found)


def _directory(job: str) -> str:
    if not is_directory(_job(job)):
        raise BadUsage(f"job {job} is a task: only the jobs of directories have files")
    return job


def _stream_of(job: str) -> tuple[str, dict[str, Any]]:
    """Returns the stream of a job's commands, and what they have to say of a job that is a task."""
    row = _job(job)
    if is_directory(row):
        return job, {}
    return task_job_id(job), {"task": {"stream": row.stream_id, "task": job}}
