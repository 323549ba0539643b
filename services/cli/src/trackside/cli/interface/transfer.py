"""The commands `trackside replay export` and `import`: files of streams, backups of installations."""

from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.interface.options import JsonOption


def export_stream(
    stream_id: Annotated[
        str, typer.Argument(metavar="STREAM", help="Id of the stream; none with --all.", show_default=False)
    ] = "",
    folder: Annotated[
        Path | None,
        typer.Option("--all", metavar="FOLDER", help="Add all that is new in the log to a backup."),
    ] = None,
    with_artifacts: Annotated[
        bool, typer.Option("--with-artifacts", help="Write the bytes of artifacts, too.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write all records of a stream to standard output, or all that is new in the log to a backup.

    A stream is a search, batch, run or job; the output is one file, with checksums.

    The file is lines of JSON: a header, a line for each record, a trailer with the digest of the state. With
    --with-artifacts it is a tar file of that and of what the store has of the artifacts that the stream has
    saved or was given, and has not forgotten. Exit 1 if the store lacks one, or has it damaged: the file is
    then of no use. Summaries are not part of a stream: `trackside summaries export` writes them.

    With --all, a new file in FOLDER has the records that were written since the last run, up to one moment in
    all partitions; services continue meanwhile. A run that fails or is killed leaves the backup as it was.
    With --with-artifacts, the blobs that the backup lacks are copied, too. `trackside replay import --all`
    restores a backup.

    \b
    Examples:
      trackside replay export digits-1 > digits-1.jsonl
      trackside replay export digits-1 | gzip > digits-1.jsonl.gz
      trackside replay export digits-1 --with-artifacts > digits-1.tar
      trackside replay export --all /backup/trackside --with-artifacts
    """
    from trackside.cli.runtime.failures import BadUsage

    if folder is not None:
        if stream_id:
            raise BadUsage(f"give a stream, {stream_id!r}, or --all, not both")
        from trackside.cli.commands.replay import backup

        backup.export_all(folder, with_artifacts=with_artifacts, as_json=as_json)
        return
    if not stream_id or as_json:
        raise BadUsage("--json needs --all" if as_json else "give the id of a stream, or --all FOLDER")
    from trackside.cli.commands.replay import transfer

    transfer.export_stream(stream_id, with_artifacts=with_artifacts)


def import_stream(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="File that `trackside replay export` has written; none with --all.",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--all", metavar="FOLDER", help="Restore a backup to a new installation."),
    ] = None,
    as_: Annotated[
        str, typer.Option("--as", metavar="NEW_ID", help="New id; without it the id in the file.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Import an exported stream for reading, or restore a backup to a new installation.

    Every record is checked before the first is written, and so is each artifact that the file has; these are
    saved in the store of this installation first. Imported streams are apart from the live ones: `trackside
    replay show`, `diff`, `why` and `export` read them, and nothing of them is run again. Exit 1 if the file
    is damaged, with the number of the line, or if there is a stream of this id.

    With --all, a backup of `trackside replay export --all` becomes the log of an installation that has no
    data yet: of this folder, whose Kafka runs for the restore only, or at TRACKSIDE_KAFKA_BOOTSTRAP. Each
    record gets the offset and the time that it had. Once services are started, open searches continue there.
    Repeat a restore that was interrupted.

    \b
    Examples:
      trackside replay import digits-1.jsonl
      trackside replay import digits-1.tar
      trackside replay import digits-1.jsonl --as digits-of-last-year
      trackside replay import --all /backup/trackside
    """
    from trackside.cli.runtime.failures import BadUsage

    if folder is not None:
        if path is not None or as_:
            raise BadUsage("--all restores a whole backup: give no FILE and no --as")
        from trackside.cli.commands.replay import backup

        backup.import_all(folder, as_json=as_json)
        return
    if path is None:
        raise BadUsage("give the file of a stream, or --all FOLDER")
    from trackside.cli.commands.replay import transfer

    transfer.import_stream(path, as_, as_json)
