"""A flood of malformed commands on a real dispatcher: none stops it, none is lost, and its
memory stays constant once its streams hold as many commands as their limit.

`TRACKSIDE_FLOOD_RECORDS=100000 pytest tests/contract/test_bad_input_flood.py -s` is the long form.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Sequence
from pathlib import Path
from random import Random

import pytest

from tests.contract.malformed_commands import draw_malformed
from tests.integration.dispatcher.conftest import dispatcher, publisher
from tests.integration.dispatcher.harness import Publisher, RunningDispatcher
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused, RecordDeadLettered
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Appended, Outgoing

__all__ = ["dispatcher", "publisher"]
RECORDS = int(os.environ.get("TRACKSIDE_FLOOD_RECORDS", "600"))
ROUNDS = 5
AT_ONCE = 100
STREAMS = 20
"""Few, so that the long form has more commands for each than a stream keeps."""
FILLED = 3
"""After so many rounds of the long form its streams hold as many commands as their limit."""
GROWTH_BYTES = 30 * 2**20
"""How much the dispatcher may grow from then on; streams of refused commands are spilled to disk."""


async def test_a_flood_of_spoiled_commands_is_answered_whole_and_stops_nothing(
    dispatcher: RunningDispatcher, publisher: Publisher, seed: int
) -> None:
    chance = Random(seed)
    streams = [new_id("flood") for _ in range(STREAMS)]
    sizes, known = [_resident_bytes(dispatcher)], [0]
    counted: Counter[str] = Counter()
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "flood") as log:
        reading = AnswerReader(log, dispatcher)
        for number in range(1, ROUNDS + 1):
            while await _written(log, dispatcher) < RECORDS // ROUNDS * number:
                records = [draw_malformed(chance, lambda: chance.choice(streams)) for _ in range(AT_ONCE)]
                await _published(log, dispatcher, chance, records)
            counted += await reading.until(await _written(log, dispatcher) - counted.total())
            sizes.append(_resident_bytes(dispatcher))
            known.append(len(reading.streams))
    shown = ", ".join(f"{size / 2**20:.0f}" for size in sizes)
    sys.stderr.write(f"\ndispatcher's MiB before and after each round: {shown}; {counted.total()} records ")
    sys.stderr.write(f"on {known[-1]} streams: ")
    sys.stderr.write(", ".join(f"{code} {count}" for code, count in counted.most_common()) + "\n")
    assert len(counted) > 10 and counted["accepted"] > 0
    assert sizes[-1] - sizes[FILLED] < GROWTH_BYTES
    await publisher.assert_well()


def _resident_bytes(dispatcher: RunningDispatcher) -> int:
    pages = Path(f"/proc/{dispatcher.service.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


async def _written(log: KafkaLog, dispatcher: RunningDispatcher) -> int:
    return sum((await log.ends(dispatcher.topics.commands.name)).values())


async def _published(
    log: KafkaLog, dispatcher: RunningDispatcher, chance: Random, records: Sequence[Outgoing]
) -> None:
    """Publishes records; the outcome of one that the broker didn't acknowledge in time is unknown."""
    topic = dispatcher.topics.commands
    sends: list[Awaitable[Appended]] = [
        log.append(topic.name, chance.randrange(topic.partitions), [record]) for record in records
    ]
    for sent in await asyncio.gather(*sends, return_exceptions=True):
        if isinstance(sent, BaseException) and not isinstance(sent, TransientError):
            raise sent


class AnswerReader:
    """Reads the outcome of each record: its answer, or its dead letter."""

    def __init__(self, log: KafkaLog, dispatcher: RunningDispatcher) -> None:
        events, letters = dispatcher.topics.events, dispatcher.topics.dead_letters
        self._events = events.name
        starts = {(events.name, partition): 0 for partition in range(events.partitions)}
        self._reader = log.reader({**starts, (letters.name, 0): 0})
        self.streams: set[str] = set()

    async def until(self, count: int) -> Counter[str]:
        """Waits until `count` records have an outcome, each of them one."""
        found: Counter[str] = Counter()
        while found.total() < count:
            async with asyncio.timeout(60):
                entries = await self._reader.read(1.0)
            for entry in entries:
                record = decode(entry)
                if record is not None and entry.topic == self._events:
                    self.streams.add(record.envelope.stream)
                match record.message if record is not None else None:
                    case CommandAccepted():
                        found["accepted"] += 1
                    case CommandRefused(code=code) | RecordDeadLettered(code=code):
                        found[code] += 1
                    case _:
                        continue
        assert found.total() == count
        return found


pytestmark = [pytest.mark.long, pytest.mark.timeout(max(120, RECORDS // 50))]
