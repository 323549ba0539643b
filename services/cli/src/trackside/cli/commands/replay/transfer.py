"""Commands that carry streams between installations: `replay export`, `replay import`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.commands.replay.show import StreamId
from trackside.cli.render import screen
from trackside.cli.render.progress import progress_of
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Failure
from trackside.cli.runtime.options import AsJson
from trackside.cli.runtime.run import run
from trackside.contracts.topics import Topics
from trackside.eventlog.kafka import KafkaLog
from trackside.replay.find import find
from trackside.replay.transfer.export import Exported, export
from trackside.replay.transfer.import_stream import Imported, import_file


def export_stream(stream_id: StreamId) -> None:
    """Write a stream to stdout as a file that stands for itself: every record, checksums, the state's digest.

    Only the log is read. Lines of JSON: a header, a record each, a trailer.

    \b
    Examples:
      trackside replay export digits-1 > digits-1.jsonl
      trackside replay export digits-1 | gzip > digits-1.jsonl.gz
    """
    exported = run(_export(stream_id))
    head, tail = exported.head, exported.tail
    screen.complain(f"{head.stream}: {head.records} records, state {tail.state_sha256[:12]}")


def import_stream(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `replay export` wrote.")],
    as_: Annotated[
        str, typer.Option("--as", metavar="NEW_ID", help="Another name for the stream here.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Import an exported stream, to look into with `replay show`, `diff`, `why` and `export`.

    Every line is checked and folded first. It never enters the live log: nothing of it is run again.
    Exit 1 if the file is damaged (the line is named), or if there is a stream of this name.

    \b
    Examples:
      trackside replay import digits-1.jsonl
      trackside replay import digits-1.jsonl --as digits-of-last-year
    """
    try:
        path.open("rb").close()
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}") from error
    imported = run(_import(path, as_))
    head, tail = imported.head, imported.tail
    if as_json:
        screen.emit(
            {"stream": imported.stream, "original_stream": head.stream, "records": head.records}
            | {"state_sha256": tail.state_sha256, "state_compared": imported.compared}
        )
        return
    name = imported.stream if imported.stream == head.stream else f"{head.stream} as {imported.stream}"
    state = f"state {tail.state_sha256[:12]}, equal"
    if not imported.compared:
        state = f"state not compared: it was exported by a release with the fold {tail.fold}"
    screen.say(f"imported {name}: {head.records} records, {state}")


async def _export(stream_id: str) -> Exported:
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-replay") as log:
        history = await find(log, Topics(prefix=addresses.prefix), stream_id)
        exported = await export(history, sys.stdout.buffer.write)
        sys.stdout.buffer.flush()
        return exported


async def _import(path: Path, name: str) -> Imported:
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-replay") as log:
        with progress_of("importing") as told:
            return await import_file(log, Topics(prefix=addresses.prefix), path, name, told)
