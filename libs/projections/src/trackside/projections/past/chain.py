"""The snapshots of one partition, without a gap from its first offset on, and how they are thinned out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trackside.eventlog.log import TopicPartition
from trackside.projections.past.snapshot_format import (
    DamagedSnapshotError,
    PackedState,
    SnapshotSpan,
    decode_snapshot,
    encode_snapshot,
)
from trackside.projections.past.store import PastStore
from trackside.projections.writing.snapshots import fold_name
from trackside.telemetry.logs import logger

MAX_SNAPSHOTS = 64
"""How many snapshots a partition has: of its first 1,280,000 events one every 20,000, then fewer."""
RECENT = 8
"""The newest ones are not merged."""
log = logger("trackside.projections")


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """A whole snapshot in memory, its states still packed; `size` is that of all its bytes."""

    span: SnapshotSpan
    streams: dict[str, PackedState]
    size: int


async def read_chain(store: PastStore, place: TopicPartition) -> list[StoredSnapshot]:
    """Reads and checks the snapshots of a partition up to the first gap, and removes all that are not used.

    Those after a damaged one are made again from the log, and so are those of another release.
    """
    chain: list[StoredSnapshot] = []
    positions = await store.positions(place)
    for position in positions:
        found = await _read(store, place, position)
        while chain and found is not None and found.span.since < chain[-1].span.position:
            await store.remove(place, chain.pop().span.position)  # a merged one that a killed writer has left
        if found is None or found.span.since != (chain[-1].span.position if chain else 0):
            await forget(store, place, [each for each in positions if each >= position])
            break
        chain.append(found)
    return chain


async def forget(store: PastStore, place: TopicPartition, positions: Sequence[int]) -> None:
    """Removes snapshots, the newest first: what is left has no gap."""
    for position in sorted(positions, reverse=True):
        await store.remove(place, position)


async def _read(store: PastStore, place: TopicPartition, position: int) -> StoredSnapshot | None:
    try:
        octets = await store.read(place, position) or b""
        head, streams = decode_snapshot(octets)
    except DamagedSnapshotError as error:
        log.warning(
            "snapshot of the past is damaged, it is made again",
            topic=place[0],
            partition=place[1],
            position=position,
            reason=str(error),
        )
        return None
    if head.fold != fold_name() or head.position != position:
        return None
    span = SnapshotSpan(head.since, head.position, head.entry, head.record_id, head.state_bytes)
    return StoredSnapshot(span, streams, len(octets))


async def append(
    store: PastStore,
    place: TopicPartition,
    chain: list[StoredSnapshot],
    span: SnapshotSpan,
    streams: dict[str, PackedState],
    max_bytes: int,
) -> None:
    """Writes the next snapshot of a chain, then merges old ones of it until it is within its limits."""
    octets = encode_snapshot(span, streams)
    await store.write(place, span.position, octets)
    chain.append(StoredSnapshot(span, streams, len(octets)))
    while len(chain) > MAX_SNAPSHOTS or sum(each.size for each in chain) > max_bytes:
        if len(chain) > RECENT:
            await _merge(store, place, chain, _least_needed(chain))
        elif not await _drop_states(store, place, chain):
            return


def _least_needed(chain: Sequence[StoredSnapshot]) -> int:
    """Returns which snapshot is merged into the one after it: together they have the fewest events."""
    older = range(len(chain) - RECENT)
    return min(older, key=lambda at: chain[at + 1].span.position - chain[at].span.since)


async def _merge(store: PastStore, place: TopicPartition, chain: list[StoredSnapshot], at: int) -> None:
    """Merges a snapshot into the next one; a stream that both have stays as it was in that one."""
    older, newer = chain[at], chain[at + 1]
    span = replace(newer.span, since=older.span.since)
    streams = {**older.streams, **newer.streams}
    octets = encode_snapshot(span, streams)
    await store.write(place, span.position, octets)
    await store.remove(place, older.span.position)
    chain[at : at + 2] = [StoredSnapshot(span, streams, len(octets))]


async def _drop_states(store: PastStore, place: TopicPartition, chain: list[StoredSnapshot]) -> bool:
    """Drops the states of the oldest snapshot that has some; returns False if none but the newest has."""
    for at, each in enumerate(chain[:-1]):
        if any(stream.packed for stream in each.streams.values()):
            streams = {name: replace(stream, packed=b"") for name, stream in each.streams.items()}
            octets = encode_snapshot(each.span, streams)
            await store.write(place, each.span.position, octets)
            chain[at] = StoredSnapshot(each.span, streams, len(octets))
            return True
    return False


def newest_states(chain: Sequence[StoredSnapshot]) -> dict[str, PackedState]:
    """Returns the newest state of each stream."""
    found: dict[str, PackedState] = {}
    for snapshot in chain:
        found |= snapshot.streams
    return found
