"""Recovery: folded state to start from, so that only the log behind it has to be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from trackside.domain.stream import Stream


@dataclass(frozen=True, slots=True)
class Recovered:
    """Streams as they were folded up to `positions[partition]`, the next offset to fold (0 if missing)."""

    streams: Sequence[Stream]
    positions: dict[int, int]


class SnapshotStore(Protocol):
    """Where snapshots of streams are kept."""

    async def load(self) -> Recovered | None:
        """Gives the newest snapshots; None: read the log from its start, there are none to trust."""
        ...
