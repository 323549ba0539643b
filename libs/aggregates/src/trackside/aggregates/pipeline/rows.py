"""Rows of pipelines, their versions, runs and schedules."""

from collections.abc import Iterable

from pydantic_core import from_json

from trackside.aggregates.pipeline.messages import (
    PipelineDefined,
    PipelineRetired,
    RunCancelled,
    RunNumbered,
    run_number,
)
from trackside.aggregates.pipeline.schedule.schedule_messages import ScheduleEvent
from trackside.aggregates.pipeline.state import pipeline_of
from trackside.contracts.envelope.message import Event
from trackside.domain.rows.cells import json_text, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams import child
from trackside.domain.streams.stream import Stream


class PipelineRows:
    """One row per pipeline."""

    table = Table(
        "pipelines",
        (
            "pipeline_id",
            "status",
            "version",
            "max_runs",
            "runs",
            "queued_runs",
            "open_runs",
            "defined_ms",
            "retired_ms",
            "retire_reason",
        ),
        key_width=1,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the pipeline of any event of its stream."""
        return self.keys(stream)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream's pipeline, if it has one."""
        return () if pipeline_of(stream) is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the pipeline."""
        pipeline = pipeline_of(stream)
        assert pipeline is not None
        return (
            *key,
            pipeline.status.value,
            pipeline.current,
            pipeline.max_runs,
            pipeline.numbered,
            len(pipeline.queued),
            len(pipeline.open_runs),
            pipeline.defined_ms,
            time_or_null(pipeline.retired_ms),
            without_nul(pipeline.reason),
        )


class PipelineVersionRows:
    """One row per version of a pipeline."""

    table = Table(
        "pipeline_versions",
        ("pipeline_id", "version", "sha256", "name", "description", "steps", "definition", "defined_ms"),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the version that was defined, which is the current one."""
        pipeline = pipeline_of(stream)
        if pipeline is None or not isinstance(event, PipelineDefined):
            return ()
        return ((stream.stream_id, pipeline.current),)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns all versions of the stream's pipeline."""
        pipeline = pipeline_of(stream)
        versions = () if pipeline is None else pipeline.versions
        return ((stream.stream_id, version.number) for version in versions)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a version."""
        pipeline = pipeline_of(stream)
        version = None if pipeline is None else pipeline.version(key[1])
        assert version is not None
        definition = from_json(version.definition)
        return (
            *key,
            version.sha256,
            without_nul(definition.get("name", "")),
            without_nul(definition.get("description", "")),
            version.steps,
            json_text(definition),
            version.defined_ms,
        )


class PipelineRunRows:
    """One row per run of a pipeline, as the pipeline's own stream knows it."""

    table = Table(
        "pipeline_runs",
        (
            "pipeline_id",
            "run_number",
            "run_id",
            "version",
            "status",
            "parameters",
            "overrides",
            "seed",
            "use_cache",
            "schedule",
            "numbered_ms",
            "requested_ms",
            "ended_ms",
            "reason",
        ),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the run of an event about it, or those that are cancelled since the pipeline is retired."""
        pipeline = pipeline_of(stream)
        if pipeline is None:
            return ()
        if isinstance(event, RunNumbered | RunCancelled):
            return ((stream.stream_id, event.number),)
        if isinstance(event, PipelineRetired):
            return ((stream.stream_id, number) for number in tuple(pipeline.ended_runs))
        if isinstance(event, child.ChildEvent):
            number = run_number(pipeline.pipeline_id, event.child_id)
            return () if number is None else ((stream.stream_id, number),)
        return ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the runs of the stream's pipeline that are kept."""
        pipeline = pipeline_of(stream)
        runs = () if pipeline is None else tuple(pipeline.runs)
        return ((stream.stream_id, number) for number in runs)

    def settled_keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the runs that have ended and are still kept."""
        pipeline = pipeline_of(stream)
        ended = () if pipeline is None else tuple(pipeline.ended_runs)
        return ((stream.stream_id, number) for number in ended)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a run."""
        pipeline = pipeline_of(stream)
        assert pipeline is not None
        run = pipeline.runs[key[1]]
        return (
            *key,
            pipeline.run_id(run.number),
            run.version,
            without_nul(run.status),
            json_text(run.parameters),
            json_text(run.overrides),
            run.seed,
            run.use_cache,
            without_nul(run.schedule) or None,
            run.numbered_ms,
            time_or_null(run.requested_ms),
            time_or_null(run.ended_ms),
            without_nul(run.reason),
        )


class ScheduleRows:
    """One row per schedule of a pipeline."""

    table = Table(
        "schedules",
        (
            "pipeline_id",
            "schedule",
            "status",
            "cron",
            "timezone",
            "spec",
            "fires",
            "skips",
            "next_ms",
            "fired_ms",
            "last_run",
            "last_skip",
            "last_message",
            "created_ms",
            "reason",
        ),
        key_width=2,
        grouped=True,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the pipeline of an event of its schedules, or that it loses them all."""
        return ((stream.stream_id,),) if isinstance(event, ScheduleEvent | PipelineRetired) else ()

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the schedules of the stream's pipeline."""
        pipeline = pipeline_of(stream)
        names = () if pipeline is None else tuple(pipeline.schedules)
        return ((stream.stream_id, name) for name in names)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a schedule."""
        pipeline = pipeline_of(stream)
        assert pipeline is not None
        schedule = pipeline.schedules[key[1]]
        return (
            *key,
            schedule.status.value,
            None if schedule.spec.cron is None else without_nul(schedule.spec.cron),
            without_nul(schedule.spec.timezone),
            json_text(schedule.spec),
            schedule.fires,
            schedule.skips,
            schedule.due_ms,
            time_or_null(schedule.fired_ms),
            schedule.last_run or None,
            schedule.skipped or None,
            without_nul(schedule.message) or None,
            schedule.created_ms,
            without_nul(schedule.reason),
        )
