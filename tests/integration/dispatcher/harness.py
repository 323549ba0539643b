"""A dispatcher under test, and a publisher of any commands to it."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.service_processes import ServiceProcess
from trackside.contracts.commands import CommandAccepted, CommandRefused, Source
from trackside.contracts.ids import new_id
from trackside.contracts.message import Json, Record
from trackside.contracts.topics import Topics
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Outgoing
from trackside.eventlog.settings import StackSettings

START = "trackside.start-search.v1"
STOP = "trackside.stop-search.v1"
Answer = CommandAccepted | CommandRefused


def valid_search() -> Json:
    return {"task_type": "noop", "space": {"x": {"type": "uniform", "low": 0, "high": 1}}, "max_trials": 1}


@dataclass(frozen=True)
class RunningDispatcher:
    """The dispatcher under test, and the settings with which it runs."""

    settings: StackSettings
    service: ServiceProcess

    @property
    def topics(self) -> Topics:
        """The topics of this dispatcher."""
        return self.settings.topics


class Publisher:
    """Publishes bytes as any client, and reads the answers."""

    def __init__(self, log: KafkaLog, dispatcher: RunningDispatcher) -> None:
        self._log = log
        self.dispatcher = dispatcher
        self.records: list[Record] = []
        events = dispatcher.topics.events
        starts = {(events.name, partition): 0 for partition in range(events.partitions)}
        self._reader = log.reader({**starts, (dispatcher.topics.dead_letters.name, 0): 0})

    async def publish(
        self, value: bytes | None, wire_type: str = START, stream: str = "", command_id: str = ""
    ) -> Source:
        headers = [
            ("ce_specversion", b"1.0"),
            ("ce_id", (command_id or new_id()).encode()),
            ("ce_type", wire_type.encode()),
            ("ce_source", b"test"),
        ]
        topic = self.dispatcher.topics.commands.name
        key = (stream or new_id("s")).encode()
        appended = await self._log.publish(topic, 3, Outgoing(key, value, headers))
        return Source(topic=topic, partition=3, offset=appended.offset)

    async def until(self, wanted: Callable[[Record], bool], timeout_s: float = 60) -> Record:
        async with asyncio.timeout(timeout_s):
            while True:
                for record in self.records:
                    if wanted(record):
                        return record
                entries = await self._reader.read(1.0)
                decoded = [decode(entry) for entry in entries]
                self.records += [known for known in decoded if known is not None]

    async def answer(self, source: Source) -> Answer:
        record = await self.until(
            lambda record: isinstance(record.message, Answer) and record.message.source == source
        )
        assert isinstance(record.message, Answer)
        return record.message

    async def say(self, body: Json, wire_type: str = START, stream: str = "", command_id: str = "") -> Answer:
        source = await self.publish(json.dumps(body).encode(), wire_type, stream, command_id)
        return await self.answer(source)

    async def assert_well(self) -> None:
        """Asserts that the next valid command is accepted, by the same process."""
        assert isinstance(await self.say(valid_search()), CommandAccepted)
        assert self.dispatcher.service.process.poll() is None
