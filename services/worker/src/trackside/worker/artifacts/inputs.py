"""Inputs of tasks: the store process fetches them into the cache of the host, where the worker holds them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trackside.artifacts.cache import Cache, CacheLease, release_all
from trackside.contracts.envelope.memory import shown
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.eventlog.clock import monotonic_s
from trackside.worker.artifacts.store_client import StoreError, StoreProcess

RETRY_AFTER_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""How long is waited before each further try, where the store or the cache may be usable again."""
TELL_EVERY_S = 5.0
"""How often the output of a task says how much of an input is fetched; not at all if that is quick."""
Tell = Callable[[str], None]
"""Receives a sentence for the output of the task."""


@dataclass(frozen=True, slots=True)
class InputCache:
    """The cache of the host, and the process that fetches into it."""

    store: StoreProcess
    cache: Cache

    async def lease(self, what: str, reference: ArtifactReference, tell: Tell) -> CacheLease:
        """Returns an artifact in the cache, fetched unless it is there; StoreError, which names `what`."""
        for wait_s in (*RETRY_AFTER_S, None):
            held = await asyncio.to_thread(self.cache.hold, reference)
            if held is not None:
                return held
            try:
                await self.store.request("fetch", self._arguments(reference), _Progress(what, tell).report)
                # No other process removes what was used last, unless it takes more than all of the cache.
                held = await asyncio.to_thread(self.cache.hold, reference)
            except StoreError as error:
                if wait_s is None or not error.may_pass:
                    raise StoreError(
                        error.code, f"{what} ({reference.uri}) can't be fetched: {error}"
                    ) from None
                tell(f"trackside: {what} can't be fetched, trying again: {error}")
            if held is not None:
                return held
            await asyncio.sleep(wait_s or 0)
        raise StoreError(
            "cache_unusable", f"{what} was removed from {self.cache.folder} while it was fetched"
        )

    async def lease_all(
        self, inputs: Mapping[str, ArtifactReference], folder: Path, tell: Tell
    ) -> list[CacheLease]:
        """Fetches inputs and links each one, by its name, into a new folder; StoreError, or an OSError."""
        leases = list[CacheLease]()
        try:
            for name, reference in inputs.items():
                leases.append(await self.lease(f"input {name!r}", reference, tell))
                _link(folder / name, leases[-1].path)
        except BaseException:
            await release(leases)
            raise
        return leases

    def _arguments(self, reference: ArtifactReference) -> Json:
        return {
            "reference": reference.model_dump(mode="json"),
            "folder": str(self.cache.folder),
            "max_bytes": self.cache.max_bytes,
            "max_entries": self.cache.max_entries,
        }


def _link(link: Path, path: Path) -> None:
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(path)


async def release(leases: Sequence[CacheLease]) -> None:
    """Lets the cache remove what was leased."""
    if leases:
        await asyncio.to_thread(release_all, leases)


@dataclass(slots=True)
class _Progress:
    """Tells how much is fetched, every few seconds."""

    what: str
    tell: Tell
    told_s: float = field(default_factory=monotonic_s)

    def report(self, done: int, total: int) -> None:
        """Receives how many bytes are done, and how many there are."""
        if monotonic_s() - self.told_s >= TELL_EVERY_S:
            self.told_s = monotonic_s()
            self.tell(f"trackside: fetching {self.what}: {shown(done)} of {shown(total)}")
