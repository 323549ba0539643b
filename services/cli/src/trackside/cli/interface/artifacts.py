"""Commands about artifacts: `artifacts ls`, `show`, `get`, `put`, `verify`, `gc`."""

from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.interface.options import JsonOption, LimitOption

ReferenceArgument = Annotated[
    str,
    typer.Argument(
        metavar="REF", help="STREAM/TASK/NAME, with @VERSION for another than the newest, or a digest."
    ),
]


def ls(
    where: Annotated[
        str, typer.Argument(metavar="[STREAM[/TASK]]", help="Only artifacts of this stream, or of one task.")
    ] = "",
    every: Annotated[
        bool, typer.Option("--all", help="List all versions, and what was forgotten, not only the newest.")
    ] = False,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """List the artifacts that tasks have saved, the newest first, each in its newest version.

    \b
    Examples:
      trackside artifacts ls
      trackside artifacts ls digits-1
      trackside artifacts ls digits-1/digits-1.7 --all --json
    """
    from trackside.cli.commands.artifacts import listing

    listing.ls(where, every, limit, as_json)


def show(reference: ReferenceArgument, as_json: JsonOption = False) -> None:
    """Show an artifact: who saved it, its digest, its metadata, and which tasks were given it.

    \b
    Examples:
      trackside artifacts show digits-1/digits-1.7/model
      trackside artifacts show digits-1/digits-1.7/model@2 --json
      trackside artifacts show 3f79bb7b
    """
    from trackside.cli.commands.artifacts import listing

    listing.show(reference, as_json)


def get(
    reference: ReferenceArgument,
    target: Annotated[
        Path | None,
        typer.Argument(metavar="TARGET", help="File or folder to write; the artifact's name if not given."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is at TARGET.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Copy an artifact from the store to a file or folder, after its digest was checked.

    What exists at TARGET is replaced only with --force, once the new copy is whole. Exit 1 if no copy of the
    store has the artifact, or if all that have it are damaged.

    \b
    Examples:
      trackside artifacts get digits-1/digits-1.7/model
      trackside artifacts get digits-1/digits-1.7/model@1 old-model --force
    """
    from trackside.cli.commands.artifacts import copying

    copying.get(reference, target, as_json, force=force)


def put(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or folders to save.")],
    as_json: JsonOption = False,
) -> None:
    """Save files or folders in the store, and print references that specs take as inputs.

    A reference is JSON, one line for each path; `gc` deletes what no stream refers to in 7 days.

    \b
    Examples:
      trackside artifacts put digits.npz
      trackside artifacts put data/ labels.csv --json
    """
    from trackside.cli.commands.artifacts import copying

    copying.put(paths, as_json)


def verify(
    where: Annotated[
        str, typer.Argument(metavar="[STREAM[/TASK]]", help="Only artifacts of this stream, or of one task.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Read all artifacts back from the store and compare their digests.

    Prints what is missing or damaged, with who has saved it; each digest is read once. Forgotten artifacts
    are left out. Exit 1 if one is missing or damaged.

    \b
    Examples:
      trackside artifacts verify
      trackside artifacts verify digits-1 --json
    """
    from trackside.cli.commands.artifacts import verifying

    verifying.verify(where, as_json)


def gc(
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete it; without this it is only listed.")
    ] = False,
    grace: Annotated[
        str,
        typer.Option("--grace", metavar="DURATION", help="Leave what was saved, or saved again, since then."),
    ] = "7d",
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Seconds to wait for an answer.")
    ] = 30.0,
    as_json: JsonOption = False,
) -> None:
    """List what the store need not keep, with sizes, and delete it with --delete.

    These are: what no stream refers to, what killed uploads have left, and checkpoints that the
    `keep_checkpoints` of their task doesn't keep. The log is read for that, all of it. With --delete streams
    are asked to forget their checkpoints first (`ArtifactsForgotten`), then the bytes are deleted that no
    stream holds. It may be interrupted at any point and run again.

    \b
    Examples:
      trackside artifacts gc
      trackside artifacts gc --grace 30d --json
      trackside artifacts gc --delete
    """
    from trackside.cli.commands.artifacts import garbage

    garbage.gc(grace, timeout_s, delete=delete, as_json=as_json)
