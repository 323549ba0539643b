"""Packs values that are no numbers: small ones into the record, the bytes of others into the store."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.summaries import ItemArtifact, ReportedItem
from trackside.summaries.event_files.values import SummaryItem
from trackside.summaries.kinds.kind import BadValue, SummaryKind
from trackside.summary_indexer.watching.records import session_of

_ITEM_BYTES = 300


class ArtifactStore(Protocol):
    """Where the bytes of values go."""

    def put(self, source: bytes, *, media_type: str | None = None) -> ArtifactReference:
        """Saves bytes. Raises ArtifactError."""


@dataclass
class ItemPacker:
    """Packs values by their kinds; `open_store` opens the store when the first value needs it."""

    kinds: Mapping[str, SummaryKind]
    open_store: "OpenStore"
    damaged: int = 0
    """Values that their kind could not pack, or that have no kind."""

    def pack(self, file_number: int, items: Sequence[SummaryItem]) -> Iterator[tuple[int, ReportedItem, int]]:
        """Yields each value with its session and about how many bytes it has as JSON.

        Raises ArtifactError if the store can't save its bytes.
        """
        for item in items:
            kind = self.kinds.get(item.kind)
            try:
                packed = kind.pack(item.value) if kind is not None else None
            except BadValue:
                packed = None
            if packed is None:
                self.damaged += 1
                continue
            artifact = self._saved(packed.data, packed.media_type) if packed.data is not None else None
            reported = ReportedItem(
                kind=item.kind,
                tag=item.tag,
                step=item.step,
                time_ms=item.time_ms,
                index=item.index,
                body=packed.body,
                artifact=artifact,
            )
            size = _ITEM_BYTES + 2 * len(item.tag.encode()) + len(json.dumps(packed.body))
            yield session_of(file_number, item.restarts), reported, size

    def _saved(self, data: bytes, media_type: str) -> ItemArtifact:
        reference = self.open_store().put(data, media_type=media_type)
        return ItemArtifact(sha256=reference.sha256, size_bytes=reference.size_bytes, media_type=media_type)


class OpenStore(Protocol):
    """Opens the store of the installation, once."""

    def __call__(self) -> ArtifactStore:
        """Returns the store. Raises StoreMissing, CredentialMissing."""
