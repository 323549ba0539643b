"""The command `forget`: makes the content of an encrypted stream unreadable."""

from typing import TYPE_CHECKING, Annotated

import typer

from trackside.cli.interface.publishing_options import publishes

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing


@publishes
def forget(
    publishing: "Publishing",
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Id of the stream.")],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why; the log keeps it, so it must name no person.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask for a confirmation.")] = False,
) -> None:
    """Delete the key of an encrypted stream, so that its content can't be read any more.

    Its rows are deleted too, and that can't be undone. What stays is its id, kind, status, times and
    counts, and the reason. Its id stays taken. The stream must be over, and so must be the stream that has
    begun it. Its children are streams of their own: forget them too.

    \b
    Examples:
      trackside forget digits-1 --reason "asked for by the patient, case 17"
    """
    from trackside.cli.commands import forget as forgetting

    forgetting.forget(stream, reason, publishing, yes=yes)
