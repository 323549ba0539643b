"""A simulated store of artifacts, with faults, the uploads of a placement, and what else workers share."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random

from trackside.simulation.host.files import SimulatedFiles
from trackside.simulation.host.worker_state import (
    SharedGpus,
    SimulatedDisk,
    SimulatedPlacement,
    SpooledArtifact,
)

RETRY_S = 0.1
"""How long an upload that failed waits before it is tried again, s."""
UPLOAD_LIMIT_S = 60.0
"""How long the end of an attempt waits for what its task has saved, s: longer than faults come in a row."""


@dataclass(frozen=True, slots=True)
class StoreFaults:
    """The faults of a store: times in s, and the shares of requests that they hit.

    `away`: it refuses everything for up to `away_s`. `uploader_killed`: the process that uploads is killed,
    before or after the store has the bytes. `unreadable`: a checkpoint can't be read, in this request.
    """

    seconds: tuple[float, float] = (0.001, 0.005)
    away: float = 0.0
    away_s: float = 2.0
    uploader_killed: float = 0.0
    unreadable: float = 0.0


class StoreRefusesError(Exception):
    """The store, or the process that speaks with it, didn't do what was asked; it may later."""


class SimulatedStore:
    """Blobs by their digest; `faults` counts what went wrong."""

    def __init__(self, rng: Random, store_faults: StoreFaults) -> None:
        self.store_faults = store_faults
        self.faults: Counter[str] = Counter()
        self.blobs: dict[str, bytes] = {}
        self._rng = rng
        self._away_until_s = 0.0

    async def put(self, content: bytes) -> None:
        """Stores a blob; raises StoreRefusesError, after which the store may have it or not."""
        await self._answer()
        if self._happens("uploader_killed", self.store_faults.uploader_killed):
            if self._rng.random() < 0.5:
                self.blobs[sha256(content).hexdigest()] = content
            raise StoreRefusesError
        self.blobs[sha256(content).hexdigest()] = content

    async def get(self, digest: str) -> bytes | None:
        """Returns a blob, or None if it can't be read; raises StoreRefusesError."""
        await self._answer()
        if self._happens("unreadable", self.store_faults.unreadable):
            return None
        return self.blobs.get(digest)

    async def _answer(self) -> None:
        low, high = self.store_faults.seconds
        await asyncio.sleep(low + self._rng.random() * (high - low))
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._away_until_s and self._happens("store_away", self.store_faults.away):
            self._away_until_s = now_s + self._rng.random() * self.store_faults.away_s
        if now_s < self._away_until_s:
            raise StoreRefusesError

    def _happens(self, fault: str, share: float) -> bool:
        happens = share > 0 and self._rng.random() < share
        if happens:
            self.faults[fault] += 1
        return happens


@dataclass(slots=True)
class SharedResources:
    """What all workers of a simulation share: the GPUs of their host, the store of artifacts, and files.

    `disks` are those of all workers, by worker id: one may get the disk of another one.
    """

    gpus: SharedGpus = field(default_factory=SharedGpus)
    store: SimulatedStore = field(default_factory=lambda: SimulatedStore(Random(0), StoreFaults()))
    files: SimulatedFiles = field(default_factory=SimulatedFiles)
    disks: dict[str, SimulatedDisk] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class SimulatedUploads:
    """Brings the spool of a placement to the store, in order; `saved` is called for what the store has."""

    store: SimulatedStore
    placement: SimulatedPlacement
    saved: Callable[[SimulatedPlacement, SpooledArtifact], None]
    _waiting: deque[SpooledArtifact] = field(default_factory=deque)
    _work: asyncio.Task[None] | None = None

    def add(self, artifact: SpooledArtifact) -> None:
        """Takes an artifact that is in the spool."""
        self._waiting.append(artifact)
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().create_task(self._run())

    async def finish(self) -> bool:
        """Waits until all was uploaded; returns False if the store takes too long for that."""
        if self._work is not None:
            await asyncio.wait((self._work,), timeout=UPLOAD_LIMIT_S)
            self._work.cancel()
        return not self._waiting

    async def _run(self) -> None:
        while self._waiting:
            artifact = self._waiting[0]
            try:
                await self.store.put(artifact.content)
            except StoreRefusesError:
                await asyncio.sleep(RETRY_S)
                continue
            self._waiting.popleft()
            self.saved(self.placement, artifact)


async def read_blob(store: SimulatedStore, digest: str) -> bytes | None:
    """Reads a blob, again and again while the store refuses; returns None if that takes too long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(UPLOAD_LIMIT_S):
            while True:
                try:
                    return await store.get(digest)
                except StoreRefusesError:
                    await asyncio.sleep(RETRY_S)
    return None
