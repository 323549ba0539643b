"""The reference of P2: the records of a search's trials, appended and read back, without any service.

A trial takes four appends at least, each of which another process waits for: the end of the trial before and
what is submitted next, its assignment, what the worker is sent, and what the worker reports.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from bench.fresh_stack import SLOTS
from bench.log_watch import LogWatch, SeenRecord, watch_topic
from bench.measurements import MissingError
from trackside.aggregates.search.messages import TrialEnded, TrialSuggested
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.tasks import (
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskStatusChanged,
    TaskSubmitted,
)
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log

TOPICS = Topics("bench-bare.")
NAME = "log alone"
APPENDS: Sequence[tuple[str, tuple[type[Message], ...]]] = (
    ("dispatcher", (TrialEnded, TrialSuggested, TaskSubmitted)),
    ("scheduler", (TaskAssigned,)),
    ("scheduler", (TaskSubmitted,)),  # as large as the RunTask, which is in a topic of the device
    ("worker", (TaskAccepted, TaskStatusChanged, AttemptEnded)),
)
"""Who writes the records of each append, and which ones."""
Step = tuple[RecordWriter, Sequence[Message]]


async def measure(log: Log, seen: Sequence[SeenRecord], trials: int) -> float:
    """Returns how many trials a second the log takes, as many at a time as there are slots."""
    await log.ensure([TOPICS.events])
    steps = _steps([each.record.message for each in seen])
    async with watch_topic(log, TOPICS.events) as watch:
        for count in (max(1, trials // 10), trials):  # the first ones are not counted
            began_s = monotonic_s()
            chains = (_chain(log, watch, f"chain-{slot}", steps, count // SLOTS) for slot in range(SLOTS))
            await asyncio.gather(*chains)
            seconds = monotonic_s() - began_s
    return trials // SLOTS * SLOTS / seconds


def _steps(messages: Sequence[Message]) -> list[Step]:
    """Returns the appends of one trial, made of the first records of each type; all four statuses."""
    steps: list[Step] = []
    for role, types in APPENDS:
        found = [message for message in messages if isinstance(message, types)]
        tasks = {type(message): message for message in reversed(found)}
        statuses = [message for message in found if isinstance(message, TaskStatusChanged)][:3]
        steps.append((RecordWriter(role, "bench"), [*statuses, *tasks.values()]))
        if set(tasks) != set(types):
            raise MissingError(f"the search has no records of {set(types) - set(tasks)}")
    return steps


async def _chain(log: Log, watch: LogWatch, stream_id: str, steps: Sequence[Step], count: int) -> None:
    partition = partition_of(stream_id, TOPICS.events.partitions)
    for _ in range(count):
        for writer, messages in steps:
            start = len(watch.seen)
            await log.append(TOPICS.events.name, partition, writer.decision(stream_id, messages))
            await watch.until(partial(_is_of, stream_id), start=start)


def _is_of(stream_id: str, record: Record) -> bool:
    return record.envelope.stream == stream_id
