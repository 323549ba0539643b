"""The commands `trackside summaries import` and `watch`: event files of directories, read into the log."""

from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.interface.options import JsonOption

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Directory whose event files are read, at any depth.")
]
DirectoriesArgument = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Directories whose event files are read, at any depth.")
]
LookOption = Annotated[
    float,
    typer.Option(
        "--look",
        min=0.1,
        max=86_400,
        metavar="SECONDS",
        help="Time between two searches for changes that the file system does not report.",
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="Private key to sign with, where the dispatcher requires signatures; its name is the key's id.",
    ),
]


def import_directory(
    directory: DirectoryArgument, key: KeyOption = None, as_json: JsonOption = False
) -> None:
    """Read the event files of a directory into the log, up to their ends.

    Each directory with files of TensorBoard or MindSpore is a job. Repeated, it adds only what is new. Exit 1
    if a file is damaged: what is before the damage is read.

    \b
    Examples:
      trackside summaries import runs
      trackside summaries import /data/experiments --json
    """
    from trackside.cli.commands import summary_directories

    summary_directories.import_directory(directory, key, as_json)


def watch(directories: DirectoriesArgument, look_s: LookOption = 30.0, key: KeyOption = None) -> None:
    """Read the event files of directories into the log as they grow, until Ctrl-C.

    A summary-indexer does the same with TRACKSIDE_SUMMARY_DIRECTORIES.

    \b
    Examples:
      trackside summaries watch runs
      trackside summaries watch runs /mnt/cluster/runs --look 5
    """
    from trackside.cli.commands import summary_directories

    summary_directories.watch(directories, look_s, key)
