"""The commands `trackside datasets ...`: files that grow, how far each was observed, and what stops that."""

from typing import TYPE_CHECKING, Annotated

import typer

from trackside.cli.interface.options import JsonOption, LimitOption, ReasonOption
from trackside.cli.interface.publishing_options import publishes

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing

DatasetArgument = Annotated[str, typer.Argument(metavar="DATASET", help="Name of the dataset.")]


def ls(limit: LimitOption = 30, as_json: JsonOption = False) -> None:
    """List datasets with how many samples each has, and why nothing is taken from one, the newest first.

    \b
    Examples:
      trackside datasets ls
      trackside datasets ls --json
    """
    from trackside.cli.commands import datasets

    datasets.ls(limit, as_json)


def show(dataset: DatasetArgument, as_json: JsonOption = False) -> None:
    """Show a dataset: where it is, how far it was observed, its status with the reason, and its watchers.

    \b
    Examples:
      trackside datasets show digits-feed
      trackside datasets show digits-feed --json
    """
    from trackside.cli.commands import datasets

    datasets.show(dataset, as_json)


@publishes
def pause(
    publishing: "Publishing",
    dataset: DatasetArgument,
    reason: ReasonOption = "",
) -> None:
    """Pause a dataset: it is not watched, and no samples are taken from it until it is resumed.

    \b
    Examples:
      trackside datasets pause digits-feed --reason "the disk is replaced"
    """
    from trackside.cli.commands import datasets

    datasets.pause(dataset, reason, publishing)


@publishes
def resume(
    publishing: "Publishing",
    dataset: DatasetArgument,
) -> None:
    """Resume a dataset that was paused, or whose file is repaired after something was wrong with it.

    What was observed of it is compared first. If these bytes are still missing or different, it stops again.

    \b
    Examples:
      trackside datasets resume digits-feed
    """
    from trackside.cli.commands import datasets

    datasets.resume(dataset, publishing)


@publishes
def delete(
    publishing: "Publishing",
    dataset: DatasetArgument,
    reason: ReasonOption = "",
) -> None:
    """Delete a dataset: it is not watched any more, and its name stays taken. Its file stays as it is.

    \b
    Examples:
      trackside datasets delete digits-feed --reason "replaced by digits-feed-2"
    """
    from trackside.cli.commands import datasets

    datasets.delete(dataset, reason, publishing)
