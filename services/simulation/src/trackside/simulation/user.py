"""The user of a simulation: reads the log, and publishes commands at random times."""

from collections.abc import Callable
from itertools import count
from random import Random

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.domain.folding.streams import Streams
from trackside.eventlog.errors import TransientError
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Log, Outgoing
from trackside.simulation.scenarios.scenarios import StreamScenario

LOOKS_EVERY_S = 1.0
"""How long the user waits for something to happen, at most, s."""


async def user(
    log: Log,
    topics: Topics,
    scenario: StreamScenario,
    rng: Random,
    decoded: Callable[[Entry], Record | None],
    on_over: Callable[[], None],
) -> None:
    """Publishes what a scenario asks for next, whenever the user looks at the log; says when it is over."""
    streams, writer, numbers = Streams(AGGREGATES), RecordWriter("publisher", "user"), count(1)
    starts = {(topics.events.name, partition): 0 for partition in range(topics.events.partitions)}
    reader = log.reader(starts)
    while True:
        for entry in await reader.read(rng.random() * LOOKS_EVERY_S):
            record = decoded(entry)
            if record is not None:
                streams.fold(record)
        if scenario.is_over(streams):
            on_over()
            return
        for stream_id, command in scenario.next_commands(streams, rng):
            sent = writer.single(stream_id, command, message_id=f"u-{next(numbers)}")
            await _publish(log, topics, sent, rng)


async def _publish(log: Log, topics: Topics, record: Outgoing, rng: Random) -> None:
    """Publishes a command, again until the log has it: it may be there twice."""
    while True:
        try:
            await log.publish(topics.commands.name, rng.randrange(topics.commands.partitions), record)
        except TransientError:
            continue
        return
