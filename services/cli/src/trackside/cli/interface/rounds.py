"""Commands of incremental jobs: `rounds`, `fire`, `rollback` and `update-job`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trackside.cli.interface.options import JsonOption, LimitOption, ReasonOption
from trackside.cli.interface.publishing_options import publishes

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing

IncrementalJobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id of the incremental job.")]


def rounds(
    job: IncrementalJobArgument,
    metric: Annotated[
        str,
        typer.Option("--metric", metavar="NAME", help="Metric to show; the one that decides if not given."),
    ] = "",
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="Write the metric by round to a .svg or .png file."),
    ] = None,
    conditions: Annotated[
        bool, typer.Option("--conditions", help="Print the conditions of its stages as Sedna has them.")
    ] = False,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """List the rounds of a job: samples, metrics of the trained and the live model, and what was deployed.

    \b
    Examples:
      trackside rounds digits
      trackside rounds digits --metric f1 --picture f1.svg
      trackside rounds digits --conditions
    """
    from trackside.cli.commands import rounds as commands

    if conditions:
        commands.show_conditions(job)
    else:
        commands.show_rounds(job, limit, metric, picture, as_json)


@publishes
def fire(
    publishing: "Publishing",
    job: IncrementalJobArgument,
    stage: Annotated[
        Literal["train", "eval", "deploy"],
        typer.Argument(metavar="train|eval|deploy", help="The stage that the job is in."),
    ],
    force: Annotated[
        bool, typer.Option("--force", help="With deploy: deploy the model, with any metrics.")
    ] = False,
) -> None:
    """Start the stage that a job waits in now, without waiting for its trigger.

    \b
    Examples:
      trackside fire digits train
      trackside fire digits deploy --force
    """
    from trackside.cli.commands import rounds as commands

    commands.fire(job, stage, publishing, force=force)


@publishes
def rollback(
    publishing: "Publishing",
    job: IncrementalJobArgument,
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="Version that was live before: 3, or digits@3.")
    ],
    reason: ReasonOption = "",
) -> None:
    """Restore a version that was live before: it is brought to all services again.

    \b
    Examples:
      trackside rollback digits 3 --reason "wrong on rotated images"
    """
    from trackside.cli.commands import rounds as commands

    commands.rollback(job, version, reason, publishing)


@publishes
def update_job(
    publishing: "Publishing",
    job: IncrementalJobArgument,
    file: Annotated[Path, typer.Argument(metavar="SPEC", help="YAML file of kind `rounds`.")],
) -> None:
    """Replace the definition of a job from its next round on; the round that runs now keeps its own.

    \b
    Examples:
      trackside update-job digits job.yaml
    """
    from trackside.cli.commands import rounds as commands

    commands.update(job, file, publishing)
