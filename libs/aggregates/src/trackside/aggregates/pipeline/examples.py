"""One example of every message of pipelines, with every field in it: part of the published schemas."""

from trackside.aggregates.pipeline.messages import (
    CancelPipelineRuns,
    DefinePipeline,
    PipelineDefined,
    PipelineRetired,
    RetirePipeline,
    RunCancelled,
    RunNumbered,
    RunPipeline,
)
from trackside.aggregates.pipeline.schedule.schedule_messages import (
    CreateSchedule,
    DeleteSchedule,
    FireSchedule,
    PauseSchedule,
    ResumeSchedule,
    ScheduleArmed,
    ScheduleCreated,
    ScheduleDeleted,
    ScheduleFired,
    SchedulePaused,
    ScheduleResumed,
    ScheduleSpec,
    ScheduleTrigger,
    ScheduleUpdated,
    ScheduleWatched,
    UpdateSchedule,
)
from trackside.contracts.envelope.message import Message
from trackside.domain.pipelines.compiling import digest
from trackside.domain.pipelines.definition import PipelineSpec

PIPELINE = PipelineSpec.model_validate(
    {
        "description": "from raw digits to a trained network",
        "parameters": {"seed": {"type": "integer", "default": 7}},
        "steps": [
            {"name": "prepare", "task_type": "prepare", "parameters": {"seed": "${pipeline.seed}"}},
            {"name": "train", "task_type": "digits", "parameters": {"rows": "${prepare.result.rows}"}},
        ],
        "outputs": {"accuracy": "${train.result.accuracy}"},
    }
)
SCHEDULE = ScheduleSpec(
    cron="30 2 * * MON-FRI",
    timezone="Europe/Berlin",
    overlap="queue",
    catch_up="latest",
    version=2,
    parameters={"seed": 11},
    overrides={"train": {"queue": "gpu"}},
    seed=3,
    use_cache=False,
)
WATCHING = ScheduleSpec(
    on=ScheduleTrigger(stream="digits-1", event="best", above=0.9, below=1.0),
    parameters={"seed": "${trigger.trial}"},
)
CROSSING = ScheduleSpec(
    on=ScheduleTrigger(stream="digits-1", event="metric", task="digits-1.7", of="accuracy", above=0.9),
    catch_up="all",
    parameters={"seed": "${trigger.step}"},
)
SAVED = ScheduleSpec(on=ScheduleTrigger(stream="digits-1", event="artifact", of="weights", kind="model"))
EXAMPLES: list[Message] = [
    DefinePipeline(pipeline=PIPELINE, max_runs=4),
    RetirePipeline(reason="replaced by faces"),
    RunPipeline(
        version=2,
        parameters={"seed": 11},
        overrides={"train": {"queue": "gpu"}},
        seed=3,
        use_cache=False,
    ),
    CancelPipelineRuns(number=5, reason="wrong parameters"),
    PipelineDefined(
        command_id="c-1", change=1, version=1, sha256=digest(PIPELINE), pipeline=PIPELINE, max_runs=4
    ),
    PipelineRetired(command_id="c-2", change=2, reason="replaced by faces"),
    RunNumbered(
        command_id="c-3",
        number=5,
        run="digits.5",
        version=2,
        parameters={"seed": 11},
        overrides={"train": {"queue": "gpu"}},
        seed=3,
        use_cache=False,
        schedule="nightly",
        alone=True,
        schedules=["digits/nightly"],
    ),
    RunCancelled(command_id="c-4", number=5, reason="wrong parameters"),
    CreateSchedule(name="saved", schedule=SAVED),
    CreateSchedule(name="nightly", schedule=SCHEDULE),
    UpdateSchedule(name="best", schedule=WATCHING),
    UpdateSchedule(name="crossing", schedule=CROSSING),
    PauseSchedule(name="nightly", reason="holidays"),
    ResumeSchedule(name="nightly"),
    DeleteSchedule(name="nightly"),
    FireSchedule(name="nightly"),
    ScheduleCreated(command_id="c-5", change=3, name="nightly", schedule=SCHEDULE),
    ScheduleUpdated(command_id="c-6", change=4, name="best", schedule=WATCHING),
    SchedulePaused(command_id="c-7", change=5, name="nightly", reason="holidays"),
    ScheduleResumed(command_id="c-8", change=6, name="nightly"),
    ScheduleDeleted(command_id="c-9", change=7, name="nightly"),
    ScheduleArmed(
        name="nightly", after_ms=1_793_000_000_000, due_ms=1_793_059_800_000, passed_ms=1_793_000_100_000
    ),
    ScheduleWatched(name="nightly", key="16"),
    ScheduleFired(
        command_id="c-10",
        name="nightly",
        fire=5,
        due_ms=1_793_059_800_000,
        cause="digits-1@4711",
        key="17",
        run="digits.5",
        skipped="schedule_busy",
        message="run digits.4 of the schedule has not ended; it has `overlap: skip`",
    ),
]
