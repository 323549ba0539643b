"""Commands that copy streams between installations: `replay write_export`, `replay import`."""

import sys
from pathlib import Path

from trackside.cli.render import screen
from trackside.cli.render.progress import progress_of
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.topics import Topics
from trackside.eventlog.kafka import KafkaLog
from trackside.replay.find_stream import find_stream
from trackside.replay.transfer.export import ExportSummary, write_export
from trackside.replay.transfer.import_stream import ImportSummary, import_file


def export_stream(stream_id: str) -> None:
    """Writes a stream to standard output, and what was written to standard error."""
    exported = run(_export(stream_id))
    header, trailer = exported.header, exported.trailer
    screen.complain(f"{header.stream}: {header.records} records, state {trailer.state_sha256[:12]}")


def import_stream(path: Path, new_id: str, as_json: bool) -> None:
    """Imports an exported stream, under another id if one is given."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from error
    imported = run(_import(path, new_id))
    header, trailer = imported.header, imported.trailer
    if as_json:
        screen.emit(
            {"stream": imported.stream, "original_stream": header.stream, "records": header.records}
            | {"state_sha256": trailer.state_sha256, "state_compared": imported.compared}
        )
        return
    name = imported.stream if imported.stream == header.stream else f"{header.stream} as {imported.stream}"
    state = f"state {trailer.state_sha256[:12]}, equal"
    if not imported.compared:
        state = f"state not compared: it was exported by a release with the fold {trailer.fold}"
    screen.say(f"imported {name}: {header.records} records, {state}")


async def _export(stream_id: str) -> ExportSummary:
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-replay") as log:
        recorded = await find_stream(log, Topics(prefix=addresses.prefix), stream_id)
        exported = await write_export(recorded, sys.stdout.buffer.write)
        sys.stdout.buffer.flush()
        return exported


async def _import(path: Path, name: str) -> ImportSummary:
    addresses = Addresses()
    async with KafkaLog(addresses.bootstrap, client_id="trackside-replay") as log:
        with progress_of("importing") as show_progress:
            return await import_file(log, Topics(prefix=addresses.prefix), path, name, show_progress)
