"""Commands that copy streams between installations: `replay export`, `replay import`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile

from trackside.artifacts.blobs.blobs import Blob
from trackside.cli.commands.artifacts.finding import installed_store
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.memory import shown
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.topic_rights import ADMIN, VIEWER
from trackside.domain.display.text import counted
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.find_stream import find_stream
from trackside.replay.history.held_artifacts import HeldArtifact, HeldArtifacts
from trackside.replay.history.summary_artifacts import read_summary_artifacts
from trackside.replay.transfer.archive import Archive, blobs_of, write_archive
from trackside.replay.transfer.export import ExportSummary, WriteBytes, write_export
from trackside.replay.transfer.import_stream import ImportSummary, import_file

SPOOL_BYTES = 16 * 2**20
"""How much of a stream is kept in memory until its length is known; what is longer is in a temporary file."""
SHOWN = 3
"""How many artifacts outside the store are named."""


def export_stream(stream_id: str, *, with_artifacts: bool) -> None:
    """Writes a stream to standard output, and what was written to standard error."""
    out = sys.stdout.buffer
    if not with_artifacts:
        _say_exported(run(_export(stream_id, out.write)), "")
        out.flush()
        return
    if sys.stdout.isatty():
        raise BadUsage("with its artifacts a stream is a tar file: redirect the output to a file")
    store, held = installed_store(), HeldArtifacts()
    store.check_reachable()
    with SpooledTemporaryFile(SPOOL_BYTES) as stream:
        exported, of_summaries = run(_export_with_artifacts(stream_id, stream.write, held))
        blobs = blobs_of(held.stored(), store)
        with late_progress("copying artifacts") as report:
            write_archive(out, stream, blobs, store, report)
        out.flush()
    _say_exported(exported, f", {_blobs_text(blobs)}")
    if outside := held.outside():
        screen.complain(f"not in the file: {_outside_text(outside)}")
    if of_summaries:
        screen.complain(f"not in the file: {_summaries_text(of_summaries)}")


def import_stream(path: Path, new_id: str, as_json: bool) -> None:
    """Imports an exported stream, under another id if one is given."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}") from error
    imported = run(_import(path, new_id))
    header, trailer, blobs = imported.header, imported.trailer, imported.blobs
    if as_json:
        screen.emit(
            {"stream": imported.stream, "original_stream": header.stream, "records": header.records}
            | {"state_sha256": trailer.state_sha256, "state_compared": imported.compared}
            | {"blobs": None if blobs is None else len(blobs)}
        )
        return
    name = imported.stream if imported.stream == header.stream else f"{header.stream} as {imported.stream}"
    state = f"state {trailer.state_sha256[:12]}, equal"
    if not imported.compared:
        state = f"state not compared: it was exported by a release with the fold {trailer.fold}"
    carried = "" if blobs is None else f", {_blobs_text(blobs)}"
    screen.say(f"imported {name}: {header.records} records{carried}, {state}")


def _say_exported(exported: ExportSummary, carried: str) -> None:
    header, trailer = exported.header, exported.trailer
    screen.complain(f"{header.stream}: {header.records} records{carried}, state {trailer.state_sha256[:12]}")
    if exported.left_out:
        left_out = counted(len(exported.left_out), "record")
        screen.complain(f"not in the file: {left_out} without a valid signature, which had no effect")


def _blobs_text(blobs: Sequence[Blob]) -> str:
    return f"{counted(len(blobs), 'blob')}, {shown(sum(blob.size_bytes for blob in blobs))}"


def _outside_text(outside: Sequence[HeldArtifact]) -> str:
    urls = list(dict.fromkeys(each.reference.uri for each in outside))
    more = f" and {len(urls) - SHOWN} more" if len(urls) > SHOWN else ""
    return f"{counted(len(urls), 'artifact')} outside the store: {', '.join(urls[:SHOWN])}{more}"


def _summaries_text(of_summaries: Sequence[HeldArtifact]) -> str:
    blobs = [Blob(each.reference.sha256, each.reference.size_bytes) for each in of_summaries]
    return f"images and other values of summaries ({_blobs_text(blobs)}): `trackside summaries export`"


async def _export(stream_id: str, write: WriteBytes) -> ExportSummary:
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys) as log:
        recorded = await find_stream(log, Topics(prefix=addresses.prefix), stream_id, addresses.past_states)
        return await write_export(recorded, write)


async def _export_with_artifacts(
    stream_id: str, write: WriteBytes, held: HeldArtifacts
) -> tuple[ExportSummary, list[HeldArtifact]]:
    """Writes a stream; returns also what its summaries have in the store, which is not a part of it."""
    addresses = Addresses()
    topics = Topics(prefix=addresses.prefix)
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-replay", keys=addresses.keys) as log:
        recorded = await find_stream(log, topics, stream_id, addresses.past_states)
        exported = await write_export(recorded, write, held)
        if recorded.place[0] != topics.events.name:
            return exported, []  # it was imported, and its summaries stayed where it is from
        with late_progress("reading summaries") as progress:
            of_summaries = await read_summary_artifacts(
                log, topics, stream=recorded.stream_id, on_progress=progress
            )
        return exported, of_summaries


async def _import(path: Path, name: str) -> ImportSummary:
    addresses = Addresses()
    async with KafkaLog(addresses.kafka_as(ADMIN), client_id="trackside-replay", keys=addresses.keys) as log:
        with late_progress("importing") as show_progress:
            return await import_file(
                log, Topics(prefix=addresses.prefix), path, name, show_progress, _receive
            )


def _receive(archive: Archive) -> None:
    """Saves the blobs of a file in the store of this installation, after all of them were checked."""
    store = installed_store()
    store.check_reachable()
    with late_progress("checking artifacts") as report:
        archive.check(report)
    with late_progress("saving artifacts") as report:
        archive.put_into(store, report)
