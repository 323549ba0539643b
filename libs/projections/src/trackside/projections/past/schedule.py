"""Starts the process that writes snapshots of the past, when a partition has grown by enough events."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import TopicPartition
from trackside.projections.past.writer import EVERY_RECORDS
from trackside.telemetry.logs import logger

log = logger("trackside.projections")


@dataclass(frozen=True, slots=True)
class PastPace:
    """When snapshots are written: `every` so many offsets of a partition, checked every `check_s` seconds."""

    every: int = EVERY_RECORDS
    check_s: float = 5.0
    retry_s: float = 300.0
    """How long after a process that failed the next one is started, s."""


async def keep_past(
    positions: Callable[[], Mapping[TopicPartition, int]],
    topic: str,
    max_bytes: int,
    pace: PastPace = PastPace(),
    on_written: Callable[[Mapping[int, int]], None] = lambda due: None,
) -> None:
    """Gets the snapshots of a topic written as its positions move on, until it is cancelled.

    One process at a time writes those of all partitions that are due, and ends. `max_bytes` is the limit of
    one partition. `on_written` gets the offset of the next snapshot of each partition that was written.
    """
    due: dict[int, int] = {}
    while True:
        await asyncio.sleep(pace.check_s)
        grown = [
            partition
            for (name, partition), position in positions().items()
            if name == topic and position >= due.get(partition, pace.every)
        ]
        if not grown:
            continue
        began_s = monotonic_s()
        written = await _write(grown, max_bytes, pace.every)
        took_s = round(monotonic_s() - began_s, 1)
        due |= written
        on_written(written)
        missing = [partition for partition in grown if partition not in written]
        if missing:
            log.warning("snapshots of the past not written, tried again later", partitions=missing)
            await asyncio.sleep(pace.retry_s)
        else:
            log.info("snapshots of the past written", partitions=grown, took_s=took_s)


async def _write(partitions: list[int], max_bytes: int, every: int) -> dict[int, int]:
    """Runs the process; returns the offset of the next snapshot of each partition that it has written."""
    module, numbers = "trackside.projections.past", (max_bytes, every, *partitions)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, *map(str, numbers)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        log.warning("the process that writes snapshots of the past can't be started", reason=str(error))
        return {}
    assert process.stdout is not None  # it is a pipe
    try:
        lines = await process.stdout.read()
        return {each["partition"]: each["next"] for each in map(json.loads, lines.splitlines())}
    except (ValueError, TypeError, LookupError):  # it was killed while it wrote a line
        return {}
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
