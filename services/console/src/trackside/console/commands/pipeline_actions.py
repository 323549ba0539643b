"""Which commands users may publish for a pipeline: a run with parameters typed as its definition says."""

from dataclasses import replace
from typing import Any

from trackside.aggregates.pipeline.messages import CancelPipelineRuns, RetirePipeline, RunPipeline
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    ScheduleSpec,
    UpdateSchedule,
)
from trackside.aggregates.pipeline.schedule.schedule_state import ScheduleStatus
from trackside.console.commands.forms import TEXT, Form, Input
from trackside.console.commands.schema_inputs import inputs_of, schema_inputs
from trackside.contracts.envelope.message import Json
from trackside.domain.rows.table import ViewRow

WAITING, OPEN = "QUEUED", ("RUNNING", "STOPPING")


def pipeline_actions(pipeline_id: str, row: ViewRow, definition: Json) -> list[Form]:
    """Returns the commands that make sense for a pipeline, whose current version has this definition."""
    if row["ended_at"] is not None:
        return []
    parameters: dict[str, Any] = definition.get("parameters") or {}
    more = inputs_of(RunPipeline, ("version", "seed", "use_cache"), {"use_cache": True})
    more = [replace(each, help="empty: the current one") if each.path == "version" else each for each in more]
    run = Form("Run now", pipeline_id, RunPipeline, [*schema_inputs("parameters", parameters), *more])
    return [run, *change_actions(pipeline_id, row)]


def change_actions(pipeline_id: str, row: ViewRow) -> list[Form]:
    """Returns the commands that make sense for a pipeline whatever its definition is."""
    if row["ended_at"] is not None:
        return []
    cancel = inputs_of(CancelPipelineRuns, ("number", "reason"))
    cancel = [replace(each, help="empty: all runs") if each.path == "number" else each for each in cancel]
    return [
        Form("Add schedule", pipeline_id, CreateSchedule, _schedule_inputs()),
        Form(
            "Cancel runs",
            pipeline_id,
            CancelPipelineRuns,
            cancel,
            confirm="Cancel runs? Those that are open are stopped.",
            is_danger=True,
        ),
        Form(
            "Retire",
            pipeline_id,
            RetirePipeline,
            inputs_of(RetirePipeline, ("reason",)),
            confirm="Retire this pipeline? Runs that wait are cancelled.",
            is_danger=True,
        ),
    ]


def _schedule_inputs() -> list[Input]:
    return [*inputs_of(CreateSchedule, ("name",)), *_times({"cron": "", "timezone": "UTC"})]


def _times(spec: Json) -> list[Input]:
    """Returns the inputs of when runs begin and what they do to each other, with their present values."""
    found = inputs_of(ScheduleSpec, ("timezone", "overlap", "catch_up", "version"), spec)
    inputs = [replace(each, path=f"schedule.{each.path}") for each in found]
    cron = spec.get("cron")
    if cron is None:
        return inputs
    helped = "five fields: minute, hour, day of the month, month, day of the week; such as 0 6 * * 1-5"
    return [Input("schedule.cron", TEXT, "cron", cron, helped, required=True), *inputs]


def _edit(pipeline_id: str, schedule: ViewRow) -> Form:
    """Returns the form that replaces a schedule: what it has no input for stays as it is."""
    spec: Json = schedule["spec"]
    inputs = _times(spec)
    shown = {each.path.removeprefix("schedule.") for each in inputs}
    rest = {f"schedule.{name}": value for name, value in spec.items() if name not in shown}
    fixed = {"name": schedule["schedule"]}
    return Form("Edit", pipeline_id, UpdateSchedule, inputs, fixed, kept=rest)


def schedule_actions(pipeline_id: str, schedule: ViewRow) -> list[Form]:
    """Returns the commands that make sense for a schedule of a pipeline."""
    fixed = {"name": schedule["schedule"]}
    delete = Form(
        "Delete", pipeline_id, DeleteSchedule, fixed=fixed, confirm="Delete this schedule?", is_danger=True
    )
    pause = Form("Pause", pipeline_id, PauseSchedule, inputs_of(PauseSchedule, ("reason",)), fixed)
    resume = Form("Resume", pipeline_id, ResumeSchedule, fixed=fixed)
    is_paused = schedule["status"] == ScheduleStatus.PAUSED.value
    return [
        Form("Run now", pipeline_id, FireSchedule, fixed=fixed),
        _edit(pipeline_id, schedule),
        resume if is_paused else pause,
        delete,
    ]


def run_cancellation(pipeline_id: str, run: ViewRow) -> list[Form]:
    """Returns the command that cancels a run of a pipeline, unless it has ended."""
    if run["status"] != WAITING and run["status"] not in OPEN:
        return []
    confirm = f"Cancel run {run['run_number']}?"
    fixed = {"number": run["run_number"]}
    return [Form("Cancel", pipeline_id, CancelPipelineRuns, fixed=fixed, confirm=confirm, is_danger=True)]
