"""A dispatcher under test, and a publisher of any commands to it, who also plays scheduler and worker."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tests.service_processes import ServiceProcess
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Command, Event, Json, Message, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused, RecordDeadLettered, Source
from trackside.contracts.tasks.tasks import AttemptEnded, TaskAccepted, TaskAssigned, TaskSubmitted
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Outgoing
from trackside.eventlog.settings.settings import StackSettings

START = "trackside.start-search.v1"
STOP = "trackside.stop-search.v1"
Answer = CommandAccepted | CommandRefused
Found = TypeVar("Found", bound=Message)


def valid_search() -> Json:
    return {"task_type": "noop", "space": {"x": {"type": "uniform", "low": 0, "high": 1}}, "max_trials": 1}


def token_of(task_id: str) -> Json:
    """Returns what names the first placement of a task."""
    return {"task_id": task_id, "attempt": 1, "placement": 1, "incarnation": "i-1"}


def begun(task_id: str) -> list[tuple[str, Event]]:
    """Returns how a task is placed and begins: the role that writes each event, and the event."""
    placed = {"worker_id": "w1", "device_ids": ["cpu-0"], "seen": 0}
    return [
        ("scheduler", TaskAssigned.model_validate(token_of(task_id) | placed)),
        ("worker", TaskAccepted.model_validate(token_of(task_id))),
    ]


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
    """Publishes bytes as any client, and reads the answers and all other events, from `starts` on."""

    def __init__(
        self,
        log: KafkaLog,
        dispatcher: RunningDispatcher,
        starts: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        self._log = log
        self.dispatcher = dispatcher
        self.records: list[Record] = []
        events = dispatcher.topics.events
        places = [(events.name, partition) for partition in range(events.partitions)]
        places.append((dispatcher.topics.dead_letters.name, 0))
        self._reader = log.reader({place: (starts or {}).get(place, 0) for place in places})

    @classmethod
    async def from_here(cls, log: KafkaLog, dispatcher: RunningDispatcher) -> "Publisher":
        """Returns one that does not read what is in the log already."""
        names = (dispatcher.topics.events.name, dispatcher.topics.dead_letters.name)
        starts = {(name, at): end for name in names for at, end in (await log.ends(name)).items()}
        return cls(log, dispatcher, starts)

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

    async def accepted(self, body: Json, kind: type[Command], stream: str) -> None:
        """Publishes a command, which must be accepted."""
        answer = await self.say(body, kind.wire_type(), stream)
        assert isinstance(answer, CommandAccepted), answer

    async def refused(self, body: Json, wire_type: str = START, stream: str = "") -> CommandRefused:
        """Publishes a command, which must be refused."""
        answer = await self.say(body, wire_type, stream)
        assert isinstance(answer, CommandRefused), answer
        return answer

    async def dead_letter(self, wanted: Callable[[RecordDeadLettered], bool]) -> RecordDeadLettered:
        """Waits for a dead letter."""
        record = await self.until(
            lambda record: isinstance(record.message, RecordDeadLettered) and wanted(record.message)
        )
        assert isinstance(record.message, RecordDeadLettered)
        return record.message

    def of(self, stream: str, kind: type[Message]) -> list[Record]:
        """Returns what was read of a type in a stream."""
        return [
            record
            for record in self.records
            if record.envelope.stream == stream and isinstance(record.message, kind)
        ]

    async def record(self, stream: str, kind: type[Message], nth: int = 1) -> Record:
        """Waits for the nth event of a type in a stream."""
        await self.until(lambda _: len(self.of(stream, kind)) >= nth)
        return self.of(stream, kind)[nth - 1]

    async def event(self, stream: str, kind: type[Found], nth: int = 1) -> Found:
        """Waits for the nth event of a type in a stream; returns its message."""
        message = (await self.record(stream, kind, nth)).message
        assert isinstance(message, kind)
        return message

    async def submitted(self, task_id: str) -> None:
        """Waits until a task was submitted."""
        await self.until(
            lambda record: isinstance(record.message, TaskSubmitted) and record.message.task_id == task_id
        )

    async def append(self, stream: str, *events: tuple[str, Event]) -> None:
        """Appends events as services of their roles do, each on its own."""
        topic = self.dispatcher.topics.events
        records = [RecordWriter(role, "t").single(stream, event) for role, event in events]
        await self._log.append(topic.name, partition_of(stream, topic.partitions), records)

    async def finish(self, stream: str, task_id: str, **end: object) -> None:
        """Tells a task's life as its scheduler and its worker would."""
        ended = AttemptEnded.model_validate(token_of(task_id) | {"end": "finished"} | end)
        await self.append(stream, *begun(task_id), ("worker", ended))

    async def assert_well(self) -> None:
        """Asserts that the next valid command is accepted, by the same process."""
        assert isinstance(await self.say(valid_search()), CommandAccepted)
        assert self.dispatcher.service.process.poll() is None
