"""What people see of a pipeline: its versions, and its runs that wait, are open, or have ended."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from trackside.aggregates.pipeline.listing import PipelineListing
from trackside.aggregates.pipeline.messages import PipelineStatus
from trackside.aggregates.pipeline.schedule.schedule_state import Schedule
from trackside.aggregates.pipeline.state import DefinedPipeline, NumberedRun, PipelineVersion
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.display.report import ReportSection
from trackside.domain.display.selection import SortKey
from trackside.domain.display.task_state import Fields
from trackside.domain.display.text import Column, TextTable, counted
from trackside.domain.display.view import Progress, QueriedRows, StreamEnd, View
from trackside.domain.rows.table import ViewRow
from trackside.domain.streams.stream import Stream

VERSIONS, RUNS, SCHEDULES, ALL_SCHEDULES = "versions", "runs", "schedules", "all_schedules"
_STATUSES = ("QUEUED", "RUNNING", "STOPPING", "CANCELLED", "REFUSED")
_ENDS = ("SUCCEEDED", "FAILED", "ABORTED", "TIMED_OUT")


class PipelineView(PipelineListing, View[DefinedPipeline]):
    """What people see of a pipeline."""

    queries: ClassVar[Mapping[str, str]] = {
        VERSIONS: "SELECT * FROM pipeline_versions WHERE pipeline_id = $1 ORDER BY version",
        RUNS: "SELECT * FROM pipeline_runs WHERE pipeline_id = $1 ORDER BY run_number DESC LIMIT 1000",
        ALL_SCHEDULES: "SELECT * FROM schedules ORDER BY pipeline_id, schedule LIMIT 10000",
        SCHEDULES: "SELECT * FROM schedules WHERE pipeline_id = $1 ORDER BY schedule",
    }
    page_queries = (RUNS, VERSIONS, SCHEDULES)
    report_queries = (RUNS,)
    list_query = RUNS
    statuses = (*_STATUSES, *_ENDS)
    parts: ClassVar[Mapping[str, str]] = {VERSIONS: "version", RUNS: "run", SCHEDULES: "schedule"}
    state_names = ("version", "max_runs", "runs", "queued", "open")

    def sort_keys(self, row: ViewRow) -> Mapping[str, SortKey]:
        """Returns what its runs may be sorted by."""
        return {
            "number": SortKey(lambda run: run["run_number"], descending=True),
            "duration": SortKey(lambda run: run["duration_s"], descending=True),
        }

    def status_of(self, row: ViewRow) -> str:
        """Returns the status of a run."""
        return str(row["status"])

    def facts(self, row: ViewRow, rows: QueriedRows) -> Sequence[tuple[str, object]]:
        """Returns what is said of it."""
        reason = f" ({row['retire_reason']})" if row["retire_reason"] else ""
        current = f"{row['version']} of {len(rows[VERSIONS])} ({row['sha256'][:12]}, {row['steps']} steps)"
        return [
            ("pipeline", row["pipeline_id"]),
            ("title", row["title"]),
            ("status", f"{row['status']}{reason}"),
            ("description", row["description"]),
            ("version", current),
            ("runs", f"{row['runs']}, {row['open_runs']} open, {row['queued_runs']} waiting"),
            ("runs at once", row["max_runs"]),
            ("defined", row["started_at"]),
            ("retired", row["ended_at"]),
        ]

    def tables(self, row: ViewRow, rows: QueriedRows) -> Sequence[TextTable]:
        """Returns its runs, the newest first, its schedules and its versions."""
        schedules = [_schedule_table(rows[SCHEDULES])] if rows[SCHEDULES] else []
        return [_run_table(rows[RUNS]), *schedules, _version_table(rows[VERSIONS])]

    def lists(self, row: ViewRow, rows: QueriedRows) -> dict[str, Sequence[ViewRow]]:
        """Returns its runs, versions and schedules, under names that its row doesn't have."""
        return {"pipeline_runs": rows[RUNS], "pipeline_versions": rows[VERSIONS], SCHEDULES: rows[SCHEDULES]}

    def sections(self, row: ViewRow, rows: QueriedRows) -> list[ReportSection]:
        """Returns no sections: its tasks are those of its runs."""
        return []

    def progress(self, stream: Stream[DefinedPipeline]) -> Progress:
        """Returns how many of its runs have ended."""
        pipeline = stream.root
        ended = pipeline.numbered - len(pipeline.queued) - len(pipeline.open_runs)
        status, defined_ms = pipeline.status.value, pipeline.defined_ms
        return Progress(status, defined_ms, pipeline.retired_ms, ended, pipeline.numbered, RUNS)

    def end(self, stream: Stream[DefinedPipeline], accepted: Collection[AttemptEnd]) -> StreamEnd:
        """Returns what it has had: none of its runs is open."""
        pipeline = stream.root
        summary = {
            self.id_column: stream.stream_id,
            "status": pipeline.status.value,
            "version": pipeline.current,
            RUNS: pipeline.numbered,
        }
        said = f"version {pipeline.current}, {counted(pipeline.numbered, 'run')}"
        idle = ", none of which runs or waits" if pipeline.numbered else ""
        lines = [f"{stream.stream_id} {pipeline.status.value}: {said}{idle}"]
        if pipeline.status is PipelineStatus.ACTIVE:
            following = pipeline.run_id(pipeline.numbered + 1)
            lines.append(f"the next one: trackside watch {following}, once it has begun")
        return StreamEnd(summary, lines)

    def state(self, stream: Stream[DefinedPipeline]) -> Fields:
        """Returns its state without its versions and runs."""
        pipeline = stream.root
        return {
            "status": pipeline.status.value,
            "version": pipeline.current,
            "max_runs": pipeline.max_runs,
            "runs": pipeline.numbered,
            "queued": len(pipeline.queued),
            "open": len(pipeline.open_runs),
            "started_ms": pipeline.defined_ms,
            "ended_ms": pipeline.retired_ms or None,
        }

    def state_of_parts(self, stream: Stream[DefinedPipeline]) -> dict[str, dict[Any, Fields]]:
        """Returns its versions and the runs that are kept, by their numbers."""
        pipeline = stream.root
        return {
            VERSIONS: {version.number: _version_fields(version) for version in pipeline.versions},
            RUNS: {number: _run_fields(run) for number, run in pipeline.runs.items()},
            SCHEDULES: {name: _schedule_fields(schedule) for name, schedule in pipeline.schedules.items()},
        }

    def state_tables(
        self, parts: Mapping[str, Mapping[Any, Fields]], tasks: Mapping[str, Fields]
    ) -> list[TextTable]:
        """Returns the tables of its runs and its versions."""
        runs = [Column("run", right=True), Column("status"), Column("version", right=True)]
        runs.append(Column("parameters", keep=True))
        versions = [Column("version", right=True), Column("steps", right=True), Column("sha256", keep=True)]
        schedules = [Column("schedule", keep=True), Column("status"), Column("cron"), Column("timezone")]
        schedules += [Column("fires", right=True), Column("skips", right=True)]
        tables = [
            TextTable(
                schedules, [[name, *_values(each, _OF_SCHEDULE)] for name, each in parts[SCHEDULES].items()]
            ),
            TextTable(runs, [[number, *_values(run, _OF_RUN)] for number, run in parts[RUNS].items()]),
            TextTable(
                versions, [[number, *_values(each, _OF_VERSION)] for number, each in parts[VERSIONS].items()]
            ),
        ]
        return [table for table in tables if table.rows]


_OF_RUN = ("status", "version", "parameters")
_OF_SCHEDULE = ("status", "cron", "timezone", "fires", "skips")
_OF_VERSION = ("steps", "sha256")


def _values(fields: Fields, names: Sequence[str]) -> list[object]:
    return [fields[name] for name in names]


def _run_fields(run: NumberedRun) -> Fields:
    return {
        "status": run.status,
        "version": run.version,
        "parameters": dict(run.parameters),
        "numbered_ms": run.numbered_ms,
        "requested_ms": run.requested_ms or None,
        "ended_ms": run.ended_ms or None,
        "reason": run.reason,
    }


def _version_fields(version: PipelineVersion) -> Fields:
    return {"sha256": version.sha256, "steps": version.steps, "defined_ms": version.defined_ms}


def _schedule_fields(schedule: Schedule) -> Fields:
    return {
        "status": schedule.status.value,
        "cron": schedule.spec.cron,
        "timezone": schedule.spec.timezone,
        "next_ms": schedule.due_ms,
        "fires": schedule.fires,
        "skips": schedule.skips,
        "last_run": schedule.last_run,
        "skipped": schedule.skipped,
        "reason": schedule.reason,
    }


def _schedule_table(schedules: Sequence[ViewRow]) -> TextTable:
    columns = [Column("schedule", keep=True), Column("status"), Column("cron"), Column("timezone")]
    columns += [Column("next"), Column("fires", right=True), Column("skips", right=True)]
    columns += [Column("last run"), Column("last skip", optional=True)]
    names = ("schedule", "status", "cron", "timezone", "next_at", "fires", "skips", "last_run", "last_skip")
    return TextTable(columns, [[each[name] for name in names] for each in schedules])


def _run_table(runs: Sequence[ViewRow]) -> TextTable:
    columns = [
        Column("run", keep=True),
        Column("status"),
        Column("version", right=True),
        Column("duration_s", right=True),
        Column("parameters"),
        Column("reason", optional=True),
        Column("schedule", optional=True),
        Column("queued", optional=True),
    ]
    names = ("run_id", "status", "version", "duration_s", "parameters", "reason", "schedule", "queued_at")
    return TextTable(columns, [[run[name] for name in names] for run in runs])


def _version_table(versions: Sequence[ViewRow]) -> TextTable:
    columns = [Column("version", right=True), Column("steps", right=True), Column("title", optional=True)]
    columns += [Column("sha256", keep=True), Column("defined", optional=True)]
    cells = [
        [each["version"], each["steps"], each["title"], each["sha256"][:12], each["defined_at"]]
        for each in reversed(versions)
    ]
    return TextTable(columns, cells)


VIEW = PipelineView()
