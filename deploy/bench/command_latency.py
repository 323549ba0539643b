"""P6: the time from a command to its answer, on an idle stack; the reference is append and read."""

from collections.abc import Callable
from functools import partial

from bench.fresh_stack import TASK_TYPE, TOPICS
from bench.log_watch import watch_topic
from bench.measurements import Figure, Goal, Measurements, check_count, percentile
from trackside.aggregates.search.messages import SearchEnded, StartSearch, StopSearch, Tuner
from trackside.aggregates.search.space.space import Uniform
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Command, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused
from trackside.contracts.tasks.tasks import TaskStatus, TaskStatusChanged
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log
from trackside.sdk.connection.publication import command_record

FIRST = 20
"""The first answers, which are not counted: connections, caches and code are cold."""


async def publish(
    log: Log, command: Command, stream_id: str, command_id: str, topics: Topics = TOPICS
) -> None:
    """Publishes a command as a client does."""
    record = command_record(command, stream_id, command_id, "trackside/sdk/bench", "")
    commands = topics.commands
    await log.publish(commands.name, partition_of(stream_id, commands.partitions), record)


def search(trials: int, concurrency: int, task_type: str = TASK_TYPE) -> StartSearch:
    """Returns the command of a search, by default one whose tasks do nothing."""
    return StartSearch(
        name="bench",
        task_type=task_type,
        space={"x": Uniform(type="uniform", low=0.0, high=1.0)},
        tuner=Tuner(name="random"),
        max_trials=trials,
        concurrency=concurrency,
        seed=7,
    )


async def appends(log: Log, count: int) -> list[float]:
    """Returns the times from an append until a reader of 12 partitions has it, ms, one after another."""
    topics = Topics("bench-raw.")
    await log.ensure([topics.events])
    writer = RecordWriter("dispatcher", "bench")
    found = []
    async with watch_topic(log, topics.events) as watch:
        for number in range(count + FIRST):
            stream_id = f"raw-{number}"
            source = {"topic": "commands", "partition": 0, "offset": number}
            event = CommandAccepted.model_validate({"command_id": new_id(), "source": source})
            began, start = monotonic_s(), len(watch.seen)
            record = writer.single(stream_id, event)
            await log.append(topics.events.name, partition_of(stream_id, topics.events.partitions), [record])
            seen = await watch.until(_of(stream_id), start=start)
            found.append((seen.at_s - began) * 1000)
    return found[FIRST:]


def _of(stream_id: str) -> Callable[[Record], bool]:
    return lambda record: record.envelope.stream == stream_id


async def refusals(log: Log, count: int) -> list[float]:
    """Returns the times from commands to stop unknown searches to their refusals, ms."""
    found = []
    async with watch_topic(log, TOPICS.events) as watch:
        for number in range(count + FIRST):
            stream_id, command_id = f"unknown-{number}", new_id()
            began, start = monotonic_s(), len(watch.seen)
            await publish(log, StopSearch(reason="bench"), stream_id, command_id)
            seen = await watch.until(partial(_is_refusal, command_id), start=start)
            found.append((seen.at_s - began) * 1000)
    return found[FIRST:]


def _is_refusal(command_id: str, record: Record) -> bool:
    message = record.message
    return isinstance(message, CommandRefused) and message.command_id == command_id


async def first_starts(log: Log, count: int) -> list[float]:
    """Returns the times from the commands of searches with one trial to the starts of their tasks, ms."""
    found = []
    async with watch_topic(log, TOPICS.events) as watch:
        for number in range(count + 1):
            stream_id = f"first-{number}"
            began, start = monotonic_s(), len(watch.seen)
            await publish(log, search(1, 1), stream_id, new_id())
            seen = await watch.until(partial(_has_started, stream_id), start=start)
            found.append((seen.at_s - began) * 1000)
            await watch.until(partial(_has_ended, stream_id), start=start)
    return found[1:]


def _has_started(stream_id: str, record: Record) -> bool:
    message = record.message
    started = isinstance(message, TaskStatusChanged) and message.status is TaskStatus.AVAILABLE
    return started and record.envelope.stream == stream_id


def _has_ended(stream_id: str, record: Record) -> bool:
    return isinstance(record.message, SearchEnded) and record.envelope.stream == stream_id


async def measure(log: Log, commands: int, searches: int) -> Measurements:
    """Measures appends, refusals and first starts."""
    raw = await appends(log, commands)
    answers = await refusals(log, commands)
    starts = await first_starts(log, searches)
    reference, what = percentile(raw, 50), "append + read back"
    tail = percentile(raw, 99)
    median, late = Goal(20, 5, at_most=True), Goal(60, 15, at_most=True)
    answer, first = percentile(answers, 50), percentile(starts, 50)
    figures = [
        Figure("P6", "command -> answer, idle, p50", answer, "ms", reference, what, median),
        Figure("P6", "the same, p99", percentile(answers, 99), "ms", tail, "the same, p99", late),
        Figure("-", "command -> first start, p50", first, "ms", reference, what),
    ]
    counted = [
        check_count("refusals", len(answers), commands),
        check_count("first starts", len(starts), searches),
    ]
    return Measurements(figures, counted, {"append_ms": raw, "answer_ms": answers, "first_start_ms": starts})
