"""Commands that change a run of a pipeline or an incremental job: `retry-failed`, `approve` and the like."""

from typing import TYPE_CHECKING, Annotated

import typer

from trackside.cli.interface.options import ReasonOption
from trackside.cli.interface.publishing_options import publishes

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]
StepArgument = Annotated[str, typer.Argument(metavar="STEP", help="Name of the step.")]
DecidedArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the run, or of the incremental job.")
]
GateArgument = Annotated[
    str, typer.Argument(metavar="[GATE]", help="Name of the step that is the gate; a job has none.")
]
PatchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="STEP.NAME=VALUE",
        help="Change a parameter of a step; a value is JSON, else text. May be repeated.",
    ),
]
ActorOption = Annotated[
    str, typer.Option("--actor", metavar="NAME", help="Who decides; your login name if not given.")
]


@publishes
def retry_failed(
    publishing: "Publishing",
    run_id: RunArgument,
    step: Annotated[
        list[str] | None,
        typer.Option("--step", metavar="STEP", help="Retry only this failed step; may be repeated."),
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(
            "--index", metavar="STEP.N", help="Retry only this item of a failed step; may be repeated."
        ),
    ] = None,
    set_: PatchOption = None,
) -> None:
    """Run the failed steps of a run that is over again, and what comes after them; what succeeded is kept.

    \b
    Examples:
      trackside retry-failed nightly-1
      trackside retry-failed nightly-1 --step training --set training.lr=0.1
      trackside retry-failed nightly-1 --index training.7 --index training.9
    """
    from trackside.cli.commands import runs

    runs.retry_failed(run_id, step or [], index or [], set_ or [], publishing)


@publishes
def restart_from(
    publishing: "Publishing",
    run_id: RunArgument,
    steps: Annotated[list[str], typer.Argument(metavar="STEP...", help="Names of the steps.")],
    set_: PatchOption = None,
) -> None:
    """Run steps of a run that is over again, and all steps that come after them.

    \b
    Examples:
      trackside restart-from nightly-1 processing
      trackside restart-from nightly-1 processing --set training.epochs=50
    """
    from trackside.cli.commands import runs

    runs.restart_from(run_id, steps, set_ or [], publishing)


@publishes
def skip(
    publishing: "Publishing",
    run_id: RunArgument,
    step: StepArgument,
    reason: ReasonOption = "",
) -> None:
    """Skip a step of a run that has not begun; steps that need it are omitted.

    \b
    Examples:
      trackside skip nightly-1 report --reason "not needed today"
    """
    from trackside.cli.commands import runs

    runs.skip(run_id, step, reason, publishing)


@publishes
def approve(
    publishing: "Publishing",
    stream_id: DecidedArgument,
    gate: GateArgument = "",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A field of the gate's form; a value is JSON, else text. May be repeated.",
        ),
    ] = None,
    actor: ActorOption = "",
) -> None:
    """Approve a gate of a run, with its form filled in, or the deployment that an incremental job waits for.

    \b
    Examples:
      trackside approve digits
      trackside approve nightly-1 review
      trackside approve nightly-1 review --set threshold=0.5 --actor ada
    """
    from trackside.cli.commands import runs

    runs.approve(stream_id, gate, set_ or [], actor, publishing)


@publishes
def reject(
    publishing: "Publishing",
    stream_id: DecidedArgument,
    gate: GateArgument = "",
    reason: ReasonOption = "",
    actor: ActorOption = "",
) -> None:
    """Reject a gate of a run, so that the steps that need it are omitted, or the deployment of a job.

    \b
    Examples:
      trackside reject digits --reason "too slow"
      trackside reject nightly-1 review --reason "accuracy is too low"
    """
    from trackside.cli.commands import runs

    runs.reject(stream_id, gate, reason, actor, publishing)


@publishes
def archive(
    publishing: "Publishing",
    run_id: RunArgument,
) -> None:
    """Archive a run that is over: it can't be continued any more.

    \b
    Examples:
      trackside archive nightly-1
    """
    from trackside.cli.commands import runs

    runs.archive(run_id, publishing)
