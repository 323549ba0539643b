"""Collects the garbage of the store: lists it, has streams forget their part of it, and deletes it."""

from collections.abc import Sequence
from typing import Any

from trackside.artifacts.blobs.blobs import Blob
from trackside.artifacts.store import Store
from trackside.cli.commands.artifacts.finding import installed_store
from trackside.cli.commands.change import seconds
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import FailureReported
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.memory import shown
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.artifacts import ForgetArtifacts
from trackside.contracts.wire.topic_rights import VIEWER
from trackside.domain.display.text import Column, counted
from trackside.eventlog.clock import now_ms
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.garbage.collect import MAX_DIGESTS, GarbagePlan, delete, plan
from trackside.replay.garbage.scan import HolderScan
from trackside.sdk.client import Client
from trackside.sdk.connection.publication import Refused

REASON = "keep_checkpoints"
SHOWN = 50


def gc(grace: str, timeout_s: float, *, delete: bool, as_json: bool) -> None:
    """Lists what the store need not keep, and deletes it if wanted."""
    before_ms = now_ms() - int((seconds(grace) or 0.0) * 1_000)
    run(_gc(before_ms, timeout_s if delete else None, as_json))


async def _gc(before_ms: int, timeout_s: float | None, as_json: bool) -> None:
    addresses, store = Addresses(), installed_store()
    async with KafkaLog(addresses.kafka_as(VIEWER), client_id="trackside-gc", keys=addresses.keys) as log:
        scan = HolderScan(log, Topics(prefix=addresses.prefix), before_ms)
        with late_progress("reading the log") as report:
            found = plan(await scan.catch_up(report), store, before_ms)
        if timeout_s is None:
            _print(found, as_json)
            return
        refused = await _forget(addresses, found, timeout_s)
        # Who refers to them since, or has forgotten them now, is in the log: it is read on, to its end.
        rest = plan(await scan.catch_up(), store, before_ms)
    _delete(rest, store, before_ms, refused, as_json)


async def _forget(addresses: Addresses, found: GarbagePlan, timeout_s: float) -> dict[str, str]:
    """Makes streams forget checkpoints; returns why those did not that refused."""
    refused: dict[str, str] = {}
    async with Client(addresses.kafka, addresses.prefix, name="cli", keys=addresses.keys) as client:
        for stream, blobs in found.checkpoints.items():
            for begin in range(0, len(blobs), MAX_DIGESTS):
                digests = [blob.sha256 for blob in blobs[begin : begin + MAX_DIGESTS]]
                publication = await client.publish(
                    ForgetArtifacts(artifacts=digests, reason=REASON), stream, timeout_s=timeout_s
                )
                answer = await client.answer(publication, timeout_s)
                if isinstance(answer, Refused):
                    refused[stream] = f"{answer.code}: {answer.message}"
    return refused


def _delete(found: GarbagePlan, store: Store, before_ms: int, refused: dict[str, str], as_json: bool) -> None:
    with late_progress("deleting") as report:
        deleted = delete(found, store, before_ms, report)
    if as_json:
        screen.emit(
            {"deleted": _blobs(deleted), "bytes": _bytes(deleted), "unfinished": len(found.unfinished)}
            | {"refused": refused}
        )
    else:
        screen.say(
            f"deleted {counted(len(deleted), 'blob')}, {shown(_bytes(deleted))}, and "
            f"{counted(len(found.unfinished), 'unfinished upload')}"
        )
        for stream, why in refused.items():
            screen.complain(f"{stream} has not forgotten its checkpoints: {why}")
    if refused:
        raise FailureReported()


def _print(found: GarbagePlan, as_json: bool) -> None:
    checkpoints = [blob for blobs in found.checkpoints.values() for blob in blobs]
    if as_json:
        screen.emit(
            {
                "unheld": _blobs(found.unheld),
                "unfinished": [
                    {"name": each.name, "size_bytes": each.size_bytes} for each in found.unfinished
                ],
                "checkpoints": {stream: _blobs(blobs) for stream, blobs in found.checkpoints.items()},
                "bytes": _bytes(found.unheld) + _bytes(checkpoints),
            }
        )
        return
    rows: list[list[object]] = [
        ["no stream refers to it", blob.sha256, shown(blob.size_bytes)] for blob in found.unheld
    ]
    rows += [["unfinished", each.name, shown(each.size_bytes)] for each in found.unfinished]
    rows += [
        [f"checkpoint of {stream} that isn't kept", blob.sha256, shown(blob.size_bytes)]
        for stream, blobs in found.checkpoints.items()
        for blob in blobs
    ]
    if rows:
        screen.show_table(
            [Column("why", keep=True), Column("digest"), Column("size", right=True)], rows[:SHOWN]
        )
    if len(rows) > SHOWN:
        screen.say(f"and {len(rows) - SHOWN} more; --json has all")
    size = shown(_bytes(found.unheld) + _bytes(checkpoints))
    screen.say(f"{counted(len(rows), 'item')}, {size}" + ("; delete with --delete" if rows else ""))


def _blobs(blobs: Sequence[Blob]) -> list[dict[str, Any]]:
    return [{"sha256": blob.sha256, "size_bytes": blob.size_bytes} for blob in blobs]


def _bytes(blobs: Sequence[Blob]) -> int:
    return sum(blob.size_bytes for blob in blobs)
