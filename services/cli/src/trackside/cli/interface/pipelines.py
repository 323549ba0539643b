"""The commands `trackside pipelines ...` and `trackside schedules ...`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trackside.cli.interface.options import JsonOption, LimitOption, NoCacheOption, ReasonOption
from trackside.cli.interface.publishing_options import publishes

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing

PipelineArgument = Annotated[str, typer.Argument(metavar="PIPELINE", help="Name of the pipeline.")]
ScheduleArgument = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name of the schedule.")]
VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, metavar="N", help="A version other than the current one.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter and its value as JSON; may be repeated."),
]
RunSeedOption = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the run.")]
CronOption = Annotated[
    str,
    typer.Option(
        metavar="CRON",
        help="Minute, hour, day of month, month and day of week, such as '30 2 * * MON-FRI'.",
    ),
]
TimezoneOption = Annotated[
    str, typer.Option(metavar="ZONE", help="Time zone of the expression, such as Europe/Berlin.")
]
OverlapOption = Annotated[
    Literal["skip", "queue", "allow"],
    typer.Option(
        metavar="skip|queue|allow",
        help="If a run of the schedule has not ended: no run, one that waits for it, or one more.",
    ),
]
CatchUpOption = Annotated[
    Literal["none", "latest", "all"],
    typer.Option(
        metavar="none|latest|all",
        help="Which times have a run that passed while no dispatcher ran; all: the newest 100.",
    ),
]

OnOption = Annotated[
    str,
    typer.Option(
        metavar="EVENT",
        help="Instead of times: ended, run_ended, version, stage, tag, observed, best, or of its tasks "
        "task_ended, artifact or metric, of the --stream.",
    ),
]
OnStreamOption = Annotated[
    str, typer.Option(metavar="ID", help="The search, batch, run, pipeline, model or dataset of --on.")
]
OfOption = Annotated[
    str,
    typer.Option(metavar="TEXT", help="The status, stage, tag, or name of the artifact or metric of --on."),
]
OnTaskOption = Annotated[str, typer.Option(metavar="ID", help="A task of the stream; any without it.")]
OnKindOption = Annotated[str, typer.Option(metavar="TEXT", help="The kind of --on artifact.")]
AboveOption = Annotated[
    float | None, typer.Option(metavar="X", help="Values of --on best and metric are over this one.")
]
BelowOption = Annotated[
    float | None, typer.Option(metavar="X", help="Values of --on best and metric are under this one.")
]


def ls(limit: LimitOption = 30, as_json: JsonOption = False) -> None:
    """List pipelines with their current version and how many runs they have had, the newest first.

    \b
    Examples:
      trackside pipelines ls
      trackside pipelines ls --json
    """
    from trackside.cli.commands import pipelines

    pipelines.ls(limit, as_json)


def show(
    pipeline: Annotated[
        str,
        typer.Argument(
            metavar="PIPELINE[@VERSION]", help="Name of the pipeline; with @ and a number one version."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Show a pipeline with its runs, schedules and versions, or the definition of one version.

    \b
    Examples:
      trackside pipelines show digits
      trackside pipelines show digits@3
    """
    from trackside.cli.commands import pipelines

    pipelines.show(pipeline, as_json)


@publishes
def define(
    publishing: "Publishing",
    pipeline: PipelineArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE.yaml", help="Spec of the pipeline, of `kind: pipeline`.")
    ],
    max_runs: Annotated[
        int | None,
        typer.Option(
            min=1, max=1_000, metavar="N", help="Runs that may be open at once; by default as before, or 16."
        ),
    ] = None,
) -> None:
    """Define a pipeline by name: its content is a new version, unless it is one already.

    The content of an earlier version makes that version the current one again.

    \b
    Examples:
      trackside pipelines define digits pipeline.yaml
      trackside pipelines define digits pipeline.yaml --max-runs 2
    """
    from trackside.cli.commands import pipelines

    pipelines.define(pipeline, file, max_runs, publishing)


@publishes
def run(
    publishing: "Publishing",
    pipeline: PipelineArgument,
    version: VersionOption = None,
    set_: SetOption = None,
    seed: RunSeedOption = 0,
    no_cache: NoCacheOption = False,
) -> None:
    """Start the next run of a pipeline. It has a stream of its own: PIPELINE.NUMBER.

    It waits while as many runs are open as may.

    \b
    Examples:
      trackside pipelines run digits
      trackside pipelines run digits --set seed=11 --set 'layers=[64, 32]'
      trackside pipelines run digits --version 2 --no-cache
    """
    from trackside.cli.commands import pipelines

    body = pipelines.run_body(version, set_ or [], seed, not no_cache)
    pipelines.start(pipeline, body, publishing)


@publishes
def cancel(
    publishing: "Publishing",
    pipeline: PipelineArgument,
    number: Annotated[
        int | None, typer.Argument(min=1, metavar="[NUMBER]", help="Number of the run; all without it.")
    ] = None,
    reason: ReasonOption = "",
) -> None:
    """Cancel a run of a pipeline, or all: those that wait don't begin, those that are open are stopped.

    \b
    Examples:
      trackside pipelines cancel digits 5
      trackside pipelines cancel digits --reason "wrong data"
    """
    from trackside.cli.commands import pipelines

    pipelines.cancel(pipeline, number, reason, publishing)


@publishes
def retire(
    publishing: "Publishing",
    pipeline: PipelineArgument,
    reason: ReasonOption = "",
) -> None:
    """Retire a pipeline: it has no more runs and no schedules until it is defined again.

    \b
    Examples:
      trackside pipelines retire digits --reason "replaced by faces"
    """
    from trackside.cli.commands import pipelines

    pipelines.retire(pipeline, reason, publishing)


def schedules_ls(
    pipeline: Annotated[
        str, typer.Argument(metavar="[PIPELINE]", help="Name of the pipeline; all without it.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """List schedules with their next time and what came of the last one.

    \b
    Examples:
      trackside schedules ls
      trackside schedules ls digits --json
    """
    from trackside.cli.commands import pipelines

    pipelines.list_schedules(pipeline, as_json)


@publishes
def schedules_set(
    publishing: "Publishing",
    pipeline: PipelineArgument,
    schedule: ScheduleArgument,
    cron: CronOption = "",
    on: OnOption = "",
    stream: OnStreamOption = "",
    of: OfOption = "",
    task: OnTaskOption = "",
    kind: OnKindOption = "",
    above: AboveOption = None,
    below: BelowOption = None,
    timezone: TimezoneOption = "UTC",
    overlap: OverlapOption = "skip",
    catch_up: CatchUpOption = "latest",
    version: VersionOption = None,
    set_: SetOption = None,
    seed: RunSeedOption = 0,
    no_cache: NoCacheOption = False,
    update: Annotated[
        bool, typer.Option("--update", help="Replace the schedule of this name, which must be there.")
    ] = False,
) -> None:
    """Create a schedule of a pipeline, or replace one with --update: runs begin by themselves from now on.

    They begin at times (--cron), or when something happens in another stream (--on). In the values of --set
    `${trigger.NAME}` is what is known of that: version, uri, status, run, task, value.

    \b
    Examples:
      trackside schedules set digits nightly --cron '30 2 * * *' --timezone Europe/Berlin
      trackside schedules set digits hourly --cron '0 * * * *' --overlap queue --set seed=11
      trackside schedules set digits nightly --cron '0 3 * * *' --update
      trackside schedules set rate deployed --on stage --of production --stream digits
      trackside schedules set rate good --on metric --of accuracy --above 0.9 --stream sweep
    """
    from trackside.cli.commands import pipelines

    event = {"stream": stream, "event": on, "of": of, "task": task or None, "kind": kind}
    bounds = {"above": above, "below": below}
    times = {"cron": cron or None, "timezone": timezone, "overlap": overlap, "catch_up": catch_up}
    event_or_none = {**event, **bounds} if on else None
    spec = times | {"on": event_or_none} | pipelines.run_body(version, set_ or [], seed, not no_cache)
    pipelines.set_schedule(pipeline, schedule, spec, publishing, update=update)


@publishes
def schedules_pause(
    publishing: "Publishing",
    pipeline: PipelineArgument,
    schedule: ScheduleArgument,
    reason: ReasonOption = "",
) -> None:
    """Pause a schedule: it begins no runs until it is resumed, also not for times that pass meanwhile.

    \b
    Examples:
      trackside schedules pause digits nightly --reason holidays
    """
    from trackside.cli.commands import pipelines

    pipelines.pause_schedule(pipeline, schedule, reason, publishing)


@publishes
def schedules_resume(
    publishing: "Publishing",
    pipeline: PipelineArgument,
    schedule: ScheduleArgument,
) -> None:
    """Resume a schedule that is paused.

    \b
    Examples:
      trackside schedules resume digits nightly
    """
    from trackside.cli.commands import pipelines

    pipelines.resume_schedule(pipeline, schedule, publishing)


@publishes
def schedules_fire(
    publishing: "Publishing",
    pipeline: PipelineArgument,
    schedule: ScheduleArgument,
) -> None:
    """Start a run of a schedule now, also if it is paused.

    \b
    Examples:
      trackside schedules fire digits nightly
    """
    from trackside.cli.commands import pipelines

    pipelines.fire_schedule(pipeline, schedule, publishing)


@publishes
def schedules_delete(
    publishing: "Publishing",
    pipeline: PipelineArgument,
    schedule: ScheduleArgument,
) -> None:
    """Delete a schedule; runs that it has begun continue.

    \b
    Examples:
      trackside schedules delete digits nightly
    """
    from trackside.cli.commands import pipelines

    pipelines.delete_schedule(pipeline, schedule, publishing)
