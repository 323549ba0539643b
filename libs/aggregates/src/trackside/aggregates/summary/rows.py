"""Rows of summary jobs and their files."""

from collections.abc import Iterable

from trackside.aggregates.summary.messages import (
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryFileReplaced,
    SummaryFileRetried,
    SummaryFileStatus,
)
from trackside.aggregates.summary.state import summary_of
from trackside.contracts.envelope.message import Event
from trackside.domain.rows.cells import bigint, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream


class SummaryJobRows:
    """One row per summary job."""

    table = Table(
        "summary_jobs",
        (
            "summary_id",
            "base",
            "path",
            "task_stream",
            "task_id",
            "status",
            "tag",
            "remark",
            "purged",
            "files",
            "bytes",
            "quarantined",
            "found_ms",
            "changed_ms",
        ),
        key_width=1,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the job of any event of its stream."""
        return self.keys(stream)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream's job, if it has one."""
        return () if summary_of(stream) is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the job."""
        job = summary_of(stream)
        assert job is not None
        files, task = job.files.values(), job.spec.task
        return (
            *key,
            without_nul(job.spec.base),
            without_nul(job.spec.path),
            None if task is None else task.stream,
            None if task is None else task.task,
            job.status.value,
            job.tag,
            without_nul(job.remark),
            job.purged,
            len(files),
            bigint(sum(file.end for file in files)),
            sum(file.status is SummaryFileStatus.QUARANTINED for file in files),
            job.found_ms,
            job.changed_ms,
        )


class SummaryFileRows:
    """One row per file of a directory."""

    table = Table(
        "summary_files",
        (
            "summary_id",
            "file",
            "number",
            "end_byte",
            "records",
            "status",
            "code",
            "message",
            "again_at_ms",
            "indexed_ms",
        ),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the file that an event is about."""
        kinds = SummaryFileIndexed | SummaryFileReplaced | SummaryFileQuarantined | SummaryFileRetried
        return ((stream.stream_id, event.file),) if isinstance(event, kinds) else ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all files of the stream's job."""
        job = summary_of(stream)
        return () if job is None else ((stream.stream_id, name) for name in job.files)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a file."""
        job = summary_of(stream)
        assert job is not None
        file = job.files[key[1]]
        return (
            key[0],
            without_nul(key[1]),
            file.number,
            bigint(file.end),
            bigint(file.records),
            file.status.value,
            file.code or None,
            without_nul(file.message),
            time_or_null(file.again_at_ms),
            time_or_null(file.indexed_ms),
        )
