"""Opens a log that is read from its first record to its end, by several processes if it is long."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from trackside.cli.render import screen
from trackside.cli.render.progress import progress_of
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Log
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.projections.writing.late_stream_keys import LateStreamKeys
from trackside.replay.rebuild.parallel_fold import OpenLog, ProcessPool
from trackside.replay.rebuild.rebuild import RebuildProgress, RebuildReport


@dataclass(frozen=True, slots=True)
class WholeLog:
    """A log that is open, the processes that read it, and what shows how far they are."""

    log: Log
    processes: ProcessPool
    show_progress: Callable[[RebuildProgress], None]


@asynccontextmanager
async def opened(open_log: OpenLog, processes: int | None) -> AsyncIterator[WholeLog]:
    """Yields a log for at most so many processes, None for one for each core, with a progress bar."""
    at_most = ProcessPool(processes or os.cpu_count() or 1, open_log)
    async with open_log() as log:
        with progress_of("reading the log") as show:
            yield WholeLog(log, at_most, lambda state: show(state.read, state.total))


def log_of(kafka: KafkaSettings | str, dsn: str) -> OpenLog:
    """Returns what opens the log of a Kafka, with the keys in the database of its read models."""
    return partial(KafkaLog, kafka, client_id="trackside-replay", keys=LateStreamKeys(partial(str, dsn)))


def say_positions(report: RebuildReport) -> None:
    """Prints how far the live and the rebuilt rows are."""
    for line in report.positions():
        screen.say(line)
