"""The commands `trackside convert ...`: specifications of other systems as ours."""

from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.interface.options import JsonOption


def sedna(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES...",
            help="YAML files with IncrementalLearningJob, Dataset and Model; `-` reads standard input.",
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="FOLDER", help="New or empty folder for the files; without it, print them."
        ),
    ] = None,
    timezone: Annotated[
        str,
        typer.Option(
            "--timezone", metavar="ZONE", help="Zone of the hours of timers, such as Europe/Berlin."
        ),
    ] = "UTC",
    as_json: JsonOption = False,
) -> None:
    """Convert jobs of incremental learning, datasets and models of Sedna into specifications for `submit`.

    Each document becomes a file, and the programs of the templates become a catalogue.yaml for a worker. What
    has no counterpart, or means something else here, is listed on stderr with its line, and then the commands
    that follow. No value of a Secret or of the annotation sedna.io/credential is read or written.

    Exit 2 if a document can't be converted; then nothing is written, and all problems are printed.

    \b
    Examples:
      trackside convert sedna job.yaml dataset.yaml models.yaml
      trackside convert sedna sedna.yaml --to converted --timezone Europe/Berlin
      kubectl get il,datasets,models -o yaml | trackside convert sedna - --to converted
    """
    from trackside.cli.commands import convert

    convert.sedna(files, to, timezone, as_json)
