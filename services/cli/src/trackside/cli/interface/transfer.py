"""The commands `trackside replay export` and `import`: files of streams."""

from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.interface.options import JsonOption, StreamArgument


def export_stream(
    stream_id: StreamArgument,
    with_artifacts: Annotated[
        bool, typer.Option("--with-artifacts", help="Write the bytes of artifacts, too.")
    ] = False,
) -> None:
    """Write all records of a stream to standard output.

    A stream is a search, batch, run or job; the output is one file, with checksums. `trackside backup` copies
    all streams.

    The file is lines of JSON: a header, a line for each record, a trailer with the digest of the state. With
    --with-artifacts it is a tar file of that and of what the store has of the artifacts that the stream has
    saved or was given, and has not forgotten. Exit 1 if the store lacks one, or has it damaged: the file is
    then of no use. Summaries are not part of a stream: `trackside summaries export` writes them.

    \b
    Examples:
      trackside replay export digits-1 > digits-1.jsonl
      trackside replay export digits-1 | gzip > digits-1.jsonl.gz
      trackside replay export digits-1 --with-artifacts > digits-1.tar
    """
    from trackside.cli.commands.replay import transfer

    transfer.export_stream(stream_id, with_artifacts=with_artifacts)


def import_stream(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="File that `trackside replay export` has written.")
    ],
    as_: Annotated[
        str, typer.Option("--as", metavar="NEW_ID", help="New id; without it the id in the file.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Import an exported stream for reading.

    Every record is checked before the first is written, and so is each artifact that the file has; these are
    saved in the store of this installation first. Imported streams are apart from the live ones: `trackside
    replay show`, `diff`, `why` and `export` read them, and nothing of them is run again. Exit 1 if the file
    is damaged, with the number of the line, or if there is a stream of this id.

    \b
    Examples:
      trackside replay import digits-1.jsonl
      trackside replay import digits-1.tar
      trackside replay import digits-1.jsonl --as digits-of-last-year
    """
    from trackside.cli.commands.replay import transfer

    transfer.import_stream(path, as_, as_json)
