"""D4 on real services: users' tuners that hang hold back nobody, and say so once."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from tests.integration.dispatcher.conftest import _furnished
from tests.integration.dispatcher.publishing import Place, Publisher, good
from tests.integration.dispatcher.users_package import lay
from tests.processes import service
from tests.stack import Servers
from trackside.contracts.advice import LaneBacklogged, LaneCleared, SuggestionFailed
from trackside.contracts.commands import CommandAccepted
from trackside.contracts.ids import new_id
from trackside.contracts.searches import SearchFailed, TrialSuggested
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.settings import StackSettings

PACKAGE = '''
import pathlib
import subprocess
import time


class Held:
    """Suggests nothing as long as a file is there; what it has started holds on to its pipes."""

    def __init__(self, space, options, direction):
        self.gate = pathlib.Path(options["gate"])

    def suggest(self, history, number, seed):
        if self.gate.exists():
            subprocess.Popen(["sleep", "600"])
        while self.gate.exists():
            time.sleep(0.01)
        return {"x": seed / 2**32}
'''
WAITING = 21
Lane = TypeVar("Lane", LaneBacklogged, LaneCleared)


@pytest.fixture
def slow_place(stack: Servers, database: str, topic_prefix: str, tmp_path: Path) -> Iterator[Place]:
    """Gives a dispatcher with a tuner of a user's own, which may take as long as it likes."""
    lay(tmp_path, "holding", PACKAGE, "[trackside.tuners]\nheld = holding:Held\n")
    settings = StackSettings(
        kafka_bootstrap=stack.kafka_bootstrap, postgres_dsn=database, topic_prefix=topic_prefix
    )
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _furnished(settings)).result()
    variables = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "TRACKSIDE_POSTGRES_DSN": settings.postgres_dsn,
        "TRACKSIDE_TOPIC_PREFIX": settings.topic_prefix,
        "TRACKSIDE_DISPATCHER_TUNER_TIME_LIMIT_S": "300",
        "PYTHONPATH": str(tmp_path),
    }
    with service("dispatcher", variables, tmp_path) as running:
        yield Place(settings, running)


async def test_d04_users_tuners_that_hang_delay_no_other_search_and_are_told_once(
    slow_place: Place, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    async with KafkaLog(slow_place.settings.kafka_bootstrap, "publisher") as log:
        publisher = Publisher(log, slow_place)
        tuner = {"name": "held", "options": {"gate": str(gate)}}
        held = [new_id("held") for _ in range(WAITING)]
        for stream in held:
            assert isinstance(await publisher.say(good() | {"tuner": tuner}, stream=stream), CommandAccepted)
        risen = await in_fleet(log, slow_place, LaneBacklogged)
        assert [event.lane for event in risen] == ["own-tuner"]
        other = new_id("other")
        assert isinstance(await publisher.say(good(), stream=other), CommandAccepted)
        suggested = await publisher.until(
            lambda record: record.envelope.stream == other and isinstance(record.message, TrialSuggested)
        )
        assert suggested.message
        gate.unlink()
        for stream in held:
            await publisher.until(
                lambda record, stream=stream: (  # type: ignore[misc]
                    record.envelope.stream == stream and isinstance(record.message, TrialSuggested)
                ),
                60,
            )
        cleared = await in_fleet(log, slow_place, LaneCleared)
        assert [event.lane for event in cleared] == ["own-tuner"]
        assert len(await in_fleet(log, slow_place, LaneBacklogged)) == 1
        wrong = [record.message for record in publisher.records]
        assert not [each for each in wrong if isinstance(each, SuggestionFailed | SearchFailed)]


async def in_fleet(log: KafkaLog, place: Place, kind: type[Lane]) -> list[Lane]:
    """Waits until the fleet topic has an event of a kind, and gives all that it has then."""
    reader = log.reader({(place.topics.fleet.name, 0): 0})
    found: list[Lane] = []
    try:
        async with asyncio.timeout(60):
            while not found:
                records = [decode(entry) for entry in await reader.read(1.0)]
                found += [each.message for each in records if each and isinstance(each.message, kind)]
    finally:
        await reader.close()
    return found
