"""The commands `trackside pipelines ...` and `trackside schedules ...`: rows are read from Postgres."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from trackside.aggregates.pipeline.aggregate import PIPELINE
from trackside.aggregates.pipeline.messages import (
    CancelPipelineRuns,
    DefinePipeline,
    RetirePipeline,
    RunPipeline,
)
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    UpdateSchedule,
)
from trackside.aggregates.pipeline.view import ALL_SCHEDULES, SCHEDULES, VERSIONS
from trackside.cli.commands import recorded_tasks
from trackside.cli.commands import show as streams
from trackside.cli.commands.artifacts import resolving
from trackside.cli.commands.change import assignments
from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import check_id, send
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.refusals import nearest
from trackside.domain.display.selection import Selection
from trackside.domain.display.text import Column
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.reads import ReadModels, json_row, open_read_models
from trackside.sdk.definitions.specs import read_spec_file

MOST_PIPELINES = 1_000


def ls(limit: int, as_json: bool) -> None:
    """Prints pipelines, the newest first."""
    rows = run(_rows("newest", limit))
    columns = [Column("pipeline", keep=True), Column("status"), Column("version", right=True)]
    columns += [Column("steps", right=True), Column("runs", right=True), Column("open", right=True)]
    columns += [Column("waiting", right=True), Column("description", optional=True)]
    names = ("pipeline_id", "status", "version", "steps", "runs", "open_runs", "queued_runs", "description")
    _print(rows, columns, names, as_json)
    if not rows and not as_json:
        screen.complain("no pipelines yet; define one with `trackside pipelines define NAME FILE.yaml`")


def show(pipeline: str, as_json: bool) -> None:
    """Prints a pipeline, or the definition of one version; raises CommandFailed if there is none."""
    name, at, number = pipeline.partition("@")
    check_id(name)
    if at and not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise BadUsage(f"{pipeline!r}: expected PIPELINE@VERSION with a number from 1, such as {name}@1")
    versions = run(_versions(name))
    if not at:
        streams.show(name, Selection(), as_json)
    elif int(number) > len(versions):
        raise CommandFailed(f"pipeline {name} has no version {number}; it has {len(versions)}")
    else:
        version = versions[int(number) - 1]
        screen.emit(json_row(version) if as_json else json_row(version)["definition"])


def define(pipeline: str, file: Path, max_runs: int | None, publishing: Publishing) -> None:
    """Defines a pipeline by a spec file; raises BadUsage for one of another kind."""
    quiet = publishing.as_json
    find = partial(recorded_tasks.find, quiet=quiet)
    command, spec = read_spec_file(file, partial(resolving.resolve, file.parent, quiet=quiet), find)
    body = command.model_dump(mode="json", include={"pipeline"})
    if not body:
        raise BadUsage(f"{file}: expected `kind: pipeline`")
    send(pipeline, DefinePipeline, body | {"max_runs": max_runs}, publishing, spec)


def run_body(version: int | None, pairs: Sequence[str], seed: int, use_cache: bool) -> dict[str, Any]:
    """Returns which run is asked for, as the body of commands has it; raises BadUsage."""
    return {"version": version, "parameters": assignments(pairs), "seed": seed, "use_cache": use_cache}


def start(pipeline: str, body: dict[str, Any], publishing: Publishing) -> None:
    """Asks for a run of a pipeline."""
    send(pipeline, RunPipeline, body, publishing)
    if not publishing.as_json:
        screen.say(f"its runs: trackside pipelines show {pipeline}")


def cancel(pipeline: str, number: int | None, reason: str, publishing: Publishing) -> None:
    """Cancels one run of a pipeline, or all."""
    send(pipeline, CancelPipelineRuns, {"number": number, "reason": reason}, publishing)


def retire(pipeline: str, reason: str, publishing: Publishing) -> None:
    """Retires a pipeline."""
    send(pipeline, RetirePipeline, {"reason": reason}, publishing)


def list_schedules(pipeline: str, as_json: bool) -> None:
    """Prints the schedules of a pipeline, or of all."""
    if pipeline:
        check_id(pipeline)
        run(_versions(pipeline))
    rows = run(_rows(SCHEDULES, pipeline) if pipeline else _rows(ALL_SCHEDULES))
    columns = [Column("pipeline", keep=True), Column("schedule", keep=True), Column("status")]
    columns += [
        Column("cron"),
        Column("timezone"),
        Column("event"),
        Column("of"),
        Column("next"),
        Column("fires", right=True),
    ]
    columns += [Column("skips", right=True), Column("last run"), Column("last skip", optional=True)]
    names = ("pipeline_id", "schedule", "status", "cron", "timezone", "event", "event_stream")
    rest = ("next_at", "fires", "skips", "last_run", "last_skip")
    _print(rows, columns, (*names, *rest), as_json)


def set_schedule(
    pipeline: str, schedule: str, spec: dict[str, Any], publishing: Publishing, *, update: bool
) -> None:
    """Creates a schedule, or replaces it."""
    kind = UpdateSchedule if update else CreateSchedule
    send(pipeline, kind, {"name": schedule, "schedule": spec}, publishing)


def pause_schedule(pipeline: str, schedule: str, reason: str, publishing: Publishing) -> None:
    """Pauses a schedule."""
    send(pipeline, PauseSchedule, {"name": schedule, "reason": reason}, publishing)


def resume_schedule(pipeline: str, schedule: str, publishing: Publishing) -> None:
    """Resumes a schedule."""
    send(pipeline, ResumeSchedule, {"name": schedule}, publishing)


def fire_schedule(pipeline: str, schedule: str, publishing: Publishing) -> None:
    """Fires a schedule now."""
    send(pipeline, FireSchedule, {"name": schedule}, publishing)


def delete_schedule(pipeline: str, schedule: str, publishing: Publishing) -> None:
    """Deletes a schedule."""
    send(pipeline, DeleteSchedule, {"name": schedule}, publishing)


def _print(rows: Sequence[ViewRow], columns: list[Column], names: Sequence[str], as_json: bool) -> None:
    if as_json:
        screen.emit([json_row(row) for row in rows])
        return
    screen.show_table(columns, [[row[name] for name in names] for row in rows])


async def _rows(query: str, *values: object) -> list[ViewRow]:
    async with open_read_models(Addresses().dsn) as models:
        return await models.rows(f"{PIPELINE.kind}.{query}", *values)


async def _versions(name: str) -> list[ViewRow]:
    """Returns the versions of a pipeline; raises CommandFailed if there is no such pipeline."""
    async with open_read_models(Addresses().dsn) as models:
        found = await models.rows(f"{PIPELINE.kind}.{VERSIONS}", name)
        if not found:
            raise CommandFailed(await _no_pipeline(models, name))
    return found


async def _no_pipeline(models: ReadModels, name: str) -> str:
    known = [row["pipeline_id"] for row in await models.rows(f"{PIPELINE.kind}.newest", MOST_PIPELINES)]
    return f"there is no pipeline {name}{nearest(name, known)}; `trackside pipelines ls` lists them"
