"""Removes the snapshots of the past that have a stream which was forgotten since."""

import asyncio
from collections.abc import Callable, Mapping

from trackside.projections.past.store import PastStore, StoreUnusableError
from trackside.telemetry.logs import logger

log = logger("trackside.projections")

CHECK_S = 5.0


async def keep_forgotten(
    store: PastStore, topic: str, forgotten: Callable[[], Mapping[int, int]], check_s: float = CHECK_S
) -> None:
    """Removes snapshots of forgotten streams until it is cancelled, also those that are written too late.

    `forgotten` returns the offset at which a stream was forgotten last, by partition.
    """
    while True:
        for partition, offset in dict(forgotten()).items():
            try:
                await remove_forgotten(store, (topic, partition), offset)
            except StoreUnusableError as error:
                log.warning("snapshots of a forgotten stream not removed, tried again", reason=str(error))
        await asyncio.sleep(check_s)


async def remove_forgotten(store: PastStore, place: tuple[str, int], offset: int) -> None:
    """Removes the snapshots of a partition if one was taken before a stream was forgotten at an offset.

    All of them, since later ones may refer to it; they are made again.
    """
    positions = await store.positions(place)
    if any(position <= offset for position in positions):
        for position in reversed(positions):
            await store.remove(place, position)
