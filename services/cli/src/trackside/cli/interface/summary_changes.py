"""The commands `trackside summaries ...` that publish or write: notes, deletion, files read again, export."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from trackside.cli.interface.options import JsonOption, ReasonOption
from trackside.cli.interface.publishing_options import publishes
from trackside.cli.interface.summaries import JobArgument, JobsArgument

if TYPE_CHECKING:
    from trackside.cli.commands.publishing import Publishing

FileArgument = Annotated[
    str, typer.Argument(metavar="[FILE]", help="Name of the file; without it all quarantined ones.")
]


@publishes
def annotate(
    publishing: "Publishing",
    job: JobArgument,
    tag: Annotated[
        int | None, typer.Option(min=0, max=10, metavar="NUMBER", help="A number from 0 to 10.")
    ] = None,
    remark: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A remark of at most 128 characters; empty for none.")
    ] = None,
) -> None:
    """Set the tag or the remark of a job: a number and a text to find it by.

    \b
    Examples:
      trackside summaries annotate digits-1.7 --tag 1 --remark "best so far"
    """
    from trackside.cli.commands.summaries import changes

    changes.annotate(job, tag, remark, publishing)


@publishes
def delete(
    publishing: "Publishing",
    job: JobArgument,
    reason: ReasonOption = "",
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the rows of its values too; the log keeps them.")
    ] = False,
) -> None:
    """Delete a job from lists and searches, now and at each later import; the log keeps its values.

    \b
    Examples:
      trackside summaries delete summary-0f3a6c1d2e4b5978 --reason "wrong data"
      trackside summaries delete digits-1.7 --purge
    """
    from trackside.cli.commands.summaries import changes

    changes.delete(job, {"reason": reason, "purge": purge}, publishing)


@publishes
def restore(publishing: "Publishing", job: JobArgument) -> None:
    """Restore a job that was deleted.

    \b
    Examples:
      trackside summaries restore summary-0f3a6c1d2e4b5978
    """
    from trackside.cli.commands.summaries import changes

    changes.restore(job, publishing)


@publishes
def retry(publishing: "Publishing", job: JobArgument, file: FileArgument = "") -> None:
    """End the pause of quarantined files: the next import, or what watches the directory, reads them at once.

    \b
    Examples:
      trackside summaries retry summary-0f3a6c1d2e4b5978
    """
    from trackside.cli.commands.summaries import changes

    changes.retry(job, file, publishing)


@publishes
def cache(publishing: "Publishing", job: JobArgument) -> None:
    """Load the values of a job into the memory of the summary-indexers, for fast answers over HTTP.

    The job is a directory, or a task that was annotated or deleted before.

    \b
    Examples:
      trackside summaries cache summary-0f3a6c1d2e4b5978
    """
    from trackside.cli.commands.summaries import changes

    changes.cache(job, publishing)


def export(
    jobs: JobsArgument,
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder to write to; it is new or empty.")
    ],
    form: Annotated[
        Literal["csv", "parquet", "events"],
        typer.Option("--format", help="Tables, or event files for TensorBoard, a folder for each job."),
    ] = "events",
    tags: Annotated[
        list[str] | None, typer.Option("--tag", "-t", metavar="TAG", help="Export this tag; may be repeated.")
    ] = None,
    superseded: Annotated[
        bool, typer.Option("--superseded", help="Also export values that a later attempt has replaced.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write all values of jobs to files: CSV, Parquet, or event files that TensorBoard reads.

    Tables have the points in one file and other values in another, with the digests of their artifacts.
    Parquet needs the extra `parquet`.

    \b
    Examples:
      trackside summaries export digits-1.7 digits-1.8 --out runs
      trackside summaries export digits-1.7 --format parquet --out tables
    """
    from trackside.cli.commands.summaries.export import exporting

    exporting.export(exporting.ExportChoice(jobs, tags or [], superseded), form, folder, as_json)
