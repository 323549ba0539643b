"""Finds the stored state of a stream that is nearest to a moment; a damaged snapshot is ignored."""

from collections.abc import Callable
from dataclasses import dataclass, field

from trackside.domain.streams.stream import Stream
from trackside.eventlog.log import TopicPartition
from trackside.projections.past.snapshot_format import (
    DamagedSnapshotError,
    IndexedStream,
    SnapshotHead,
    StatePosition,
    decode_head,
    decode_index,
    decode_state,
)
from trackside.projections.past.store import PastStore, StoreUnusableError
from trackside.projections.writing.snapshots import fold_name
from trackside.telemetry.logs import logger

ReadSnapshot = tuple[SnapshotHead, int, dict[str, IndexedStream]]
"""A head, where the states begin, and the index."""
FIRST_BYTES = 65_536
"""How much is read first: most often it has the head and the index."""
log = logger("trackside.projections")


@dataclass(slots=True)
class PastReader:
    """Reads snapshots of the past for one query, each index once."""

    store: PastStore
    _read: dict[tuple[TopicPartition, int], ReadSnapshot | None] = field(default_factory=dict)
    _positions: dict[TopicPartition, list[int]] = field(default_factory=dict)

    async def nearest(
        self, place: TopicPartition, stream_id: str, is_before: Callable[[StatePosition], bool]
    ) -> tuple[StatePosition, Stream] | None:
        """Returns the newest state of a stream whose position satisfies `is_before`, None if there is none.

        Nothing is known of the log here: whoever uses it checks that it has the record of the position.
        """
        for position in reversed(await self._listed(place)):
            found = await self._snapshot(place, position)
            if found is None:
                continue
            head, begin, index = found
            stream = index.get(stream_id)
            if stream is None or not stream.length or not is_before(stream.position):
                continue
            try:
                octets = await self.store.read(place, position, begin + stream.start, stream.length)
                return stream.position, decode_state(stream, octets or b"")
            except (DamagedSnapshotError, StoreUnusableError) as error:
                _tell(place, head.position, error)
        return None

    async def keys(self, place: TopicPartition) -> Stream | None:
        """Returns the stream of the keys that a partition trusts, from its newest snapshot; None without any.

        A snapshot whose keys can't be read is not used for anything.
        """
        for position in reversed(await self._listed(place)):
            found = await self._snapshot(place, position)
            if found is None:
                continue
            head, begin, index = found
            if not head.keys:
                return None
            stream = index[head.keys]
            try:
                octets = await self.store.read(place, position, begin + stream.start, stream.length)
                return decode_state(stream, octets or b"")
            except (DamagedSnapshotError, StoreUnusableError) as error:
                _tell(place, position, error)
                self._read[place, position] = None
        return None

    async def begin(self, place: TopicPartition, stream_id: str) -> tuple[int, str] | None:
        """Returns offset and id of the first record of a stream, None if no snapshot has it."""
        for position in reversed(await self._listed(place)):
            found = await self._snapshot(place, position)
            if found is not None and (stream := found[2].get(stream_id)) is not None:
                return stream.begin, stream.begin_id
        return None

    async def _listed(self, place: TopicPartition) -> list[int]:
        if place not in self._positions:
            try:
                self._positions[place] = await self.store.positions(place)
            except StoreUnusableError as error:
                log.warning("no snapshots of the past, folding the whole stream", reason=str(error))
                self._positions[place] = []
        return self._positions[place]

    async def _snapshot(self, place: TopicPartition, position: int) -> ReadSnapshot | None:
        """Returns the index of a snapshot; None if it is damaged, gone, or of another fold."""
        if (place, position) not in self._read:
            try:
                self._read[place, position] = await self._load(place, position)
            except (DamagedSnapshotError, StoreUnusableError) as error:
                _tell(place, position, error)
                self._read[place, position] = None
        return self._read[place, position]

    async def _load(self, place: TopicPartition, position: int) -> ReadSnapshot | None:
        first = await self.store.read(place, position, 0, FIRST_BYTES)
        if first is None:
            return None
        head, begin = decode_head(first)
        if head.fold != fold_name():
            return None
        end = begin + head.index_bytes
        index: bytes | None = first[begin:end]
        if end > len(first):
            index = await self.store.read(place, position, begin, head.index_bytes)
        return head, end, decode_index(head, index or b"")


def _tell(place: TopicPartition, position: int, error: Exception) -> None:
    """Reports that a snapshot is not used; the next writer makes it again."""
    log.warning(
        "snapshot of the past not used, an earlier one is",
        topic=place[0],
        partition=place[1],
        position=position,
        reason=str(error),
    )
