"""What people see of a summary job: its directory or task, and its files."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from trackside.aggregates.summary.listing import SummaryListing
from trackside.aggregates.summary.messages import SummaryFileStatus
from trackside.aggregates.summary.state import Summary, SummaryFile
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.report import ReportSection
from trackside.domain.display.selection import SortKey
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import Column, TextTable, counted
from trackside.domain.display.view import Progress, QueriedRows, StreamEnd, View
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream

FILES = "files"


class SummaryView(SummaryListing, View[Summary]):
    """What people see of a summary job."""

    queries: ClassVar[Mapping[str, str]] = {
        FILES: "SELECT * FROM summary_files WHERE summary_id = $1 ORDER BY number",
    }
    page_queries = (FILES,)
    report_queries = (FILES,)
    list_query = FILES
    statuses = tuple(status.value for status in SummaryFileStatus)
    parts: ClassVar[Mapping[str, str]] = {FILES: "file"}
    state_names = ("tag", "remark")

    def sort_keys(self, row: ViewRow) -> Mapping[str, SortKey]:
        """Returns what its files may be sorted by."""
        return {
            "number": SortKey(lambda file: file["number"]),
            "size": SortKey(lambda file: file["end_byte"], descending=True),
        }

    def status_of(self, row: ViewRow) -> str:
        """Returns the state of a file."""
        return str(row["status"])

    def facts(self, row: ViewRow, rows: QueriedRows) -> Sequence[tuple[str, object]]:
        """Returns what is known of it."""
        return [
            ("summary", row["summary_id"]),
            ("status", row["status"]),
            ("base", row["base"]),
            ("path", row["path"]),
            ("task", row["task_id"]),
            ("tag", row["tag"]),
            ("remark", row["remark"]),
            ("found", row["started_at"]),
            ("changed", row["changed_at"]),
        ]

    def tables(self, row: ViewRow, rows: QueriedRows) -> Sequence[TextTable]:
        """Returns its files."""
        return [_file_table(rows[FILES])]

    def lists(self, row: ViewRow, rows: QueriedRows) -> dict[str, Sequence[ViewRow]]:
        """Returns its files, under a name that its row doesn't have."""
        return {"summary_files": rows[FILES]}

    def sections(self, row: ViewRow, rows: QueriedRows) -> list[ReportSection]:
        """Returns no sections: it has no tasks."""
        return []

    def progress(self, stream: Stream[Summary]) -> Progress:
        """Returns how many files it has."""
        job, count = stream.root, len(stream.root.files)
        return Progress(job.status.value, job.found_ms, 0, count, None, FILES)

    def end(self, stream: Stream[Summary], accepted: Collection[AttemptEnd]) -> StreamEnd:
        """Returns what it has: nothing of it runs."""
        job, count = stream.root, len(stream.root.files)
        summary = {"summary_id": stream.stream_id, "status": job.status.value, FILES: count}
        return StreamEnd(summary, [f"{stream.stream_id} {job.status.value}: {counted(count, 'file')}"])

    def state(self, stream: Stream[Summary]) -> Fields:
        """Returns its state without its files."""
        job = stream.root
        return {
            "status": job.status.value,
            "base": job.spec.base,
            "path": job.spec.path,
            "task": None if job.spec.task is None else job.spec.task.task,
            "tag": job.tag,
            "remark": job.remark,
            "started_ms": job.found_ms,
            "ended_ms": None,
        }

    def state_of_parts(self, stream: Stream[Summary]) -> dict[str, dict[Any, Fields]]:
        """Returns its files by their names."""
        return {FILES: {name: _fields(file) for name, file in stream.root.files.items()}}

    def state_tables(
        self, parts: Mapping[str, Mapping[Any, Fields]], tasks: Mapping[str, Fields]
    ) -> list[TextTable]:
        """Returns the table of its files."""
        columns = [Column("file", keep=True), Column("number", right=True), Column("bytes", right=True)]
        columns += [Column("records", right=True), Column("status"), Column("code")]
        names = ("number", "end_byte", "records", "status", "code")
        cells = [[file, *(fields[name] for name in names)] for file, fields in parts[FILES].items()]
        return [TextTable(columns, cells)]


def _file_table(files: Sequence[ViewRow]) -> TextTable:
    columns = [
        Column("file", keep=True),
        Column("bytes", right=True),
        Column("records", right=True),
        Column("status"),
        Column("code", optional=True),
        Column("indexed", optional=True),
    ]
    names = ("file", "end_byte", "records", "status", "code", "indexed_at")
    return TextTable(columns, [[file[name] for name in names] for file in files])


def _fields(file: SummaryFile) -> Fields:
    return {
        "number": file.number,
        "end_byte": file.end,
        "records": file.records,
        "status": file.status.value,
        "code": file.code,
        "message": file.message,
    }


VIEW = SummaryView()
