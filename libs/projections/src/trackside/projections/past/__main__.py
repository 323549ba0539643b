"""The process that writes snapshots of the past.

Its arguments are the limit of the bytes of a partition, how many offsets there are between snapshots, and
the partitions. It writes a line {"partition", "next"} for each partition that is done, and ends when its
standard input is closed: that is when the service that started it ends.
"""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trackside.eventlog.errors import TransientError
from trackside.eventlog.garbage import collecting_seldom
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.settings import StackSettings, read_settings
from trackside.projections.past.open_store import open_past_store
from trackside.projections.past.snapshot_format import DamagedSnapshotError
from trackside.projections.past.store import StoreUnusableError
from trackside.projections.past.writer import write_past
from trackside.projections.writing.stream_keys import PostgresStreamKeys
from trackside.telemetry.disk_space import DiskWatch
from trackside.telemetry.logs import configure_logs, logger

NICE = 19
"""All services come first on this machine."""
KILLED_FIRST = "1000"
"""The highest `oom_score_adj` of Linux: without memory this process is killed before any other."""
log = logger("trackside.projections")


def main(argv: Sequence[str]) -> None:
    """Writes what is due; exits with 1 if that was not possible."""
    os.nice(NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(KILLED_FIRST, "ascii")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    configure_logs()
    settings = read_settings(StackSettings)
    max_bytes, every, *partitions = map(int, argv)
    try:
        with collecting_seldom():
            asyncio.run(_write(settings, max_bytes, every, partitions))
    except (StoreUnusableError, DamagedSnapshotError, TransientError) as error:
        log.warning("snapshots of the past not written", reason=str(error))
        raise SystemExit(1) from error


async def _write(settings: StackSettings, max_bytes: int, every: int, partitions: Sequence[int]) -> None:
    folder = settings.past_folder
    if folder is not None and (reason := DiskWatch([folder.parent], settings.disk_limits).check()):
        raise StoreUnusableError(reason)
    store = open_past_store(folder, settings.postgres_dsn)
    topic = settings.topics.events
    keys = PostgresStreamKeys(settings.postgres_dsn)
    async with KafkaLog(settings, "trackside-past", keys=keys) as opened, store.locked() as locked:
        if not locked:
            raise StoreUnusableError("another process writes snapshots")
        for partition in partitions:
            due = await write_past(opened, topic, partition, store, max_bytes, every)
            sys.stdout.write(json.dumps({"partition": partition, "next": due}) + "\n")
            sys.stdout.flush()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
