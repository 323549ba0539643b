"""Publishes what dispatcher and workers would, to a scheduler process, and reads all that is written."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.service_processes import ServiceProcess
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.fleet.fleet import (
    Device,
    RunningPlacement,
    WorkerHeartbeat,
    WorkerHeartbeatDigest,
    WorkerJoined,
)
from trackside.contracts.streams.commands import RULES, CommandReceived, Source
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter

Kind = TypeVar("Kind", bound=Message)


def command_received(command_id: str) -> CommandReceived:
    """Returns that a stream has received a command of this id."""
    return CommandReceived(
        command_id=command_id,
        command_type="test",
        body={},
        digest="",
        source=Source(topic="t", partition=0, offset=0),
        publisher="test",
        rules=RULES,
    )


class ProcessHarness:
    """One stream and one queue, the workers of that, and what is written about them."""

    def __init__(
        self, log: KafkaLog, topics: Topics, scheduler: ServiceProcess, queue: str = "default"
    ) -> None:
        self.log, self.topics, self.scheduler = log, topics, scheduler
        self.stream, self.queue = new_id("s"), queue
        events = topics.events
        self._reader = log.reader({(events.name, partition_of(self.stream, events.partitions)): 0})
        self.seen: list[Message] = []

    def own(self, name: str) -> str:
        """Returns the id of a task or worker of this test."""
        return f"{self.stream}-{name}"

    async def join_worker(self, worker: str, slots: int = 1) -> str:
        incarnation = new_id()
        devices = [
            Device(device_id=f"cpu-{at}", kind="cpu", name="cpu", memory_bytes=1) for at in range(slots)
        ]
        topics = [self.topics.device(self.own(worker), device.device_id) for device in devices]
        await self.log.ensure(topics)
        self._reader.assign({(topic.name, 0): 0 for topic in topics})
        joined = WorkerJoined(
            worker_id=self.own(worker),
            incarnation=incarnation,
            host=self.own("host"),
            devices=devices,
            task_types=["noop"],
            queues=[self.queue],
            after={},
        )
        record = RecordWriter("worker", joined.worker_id).single(joined.worker_id, joined)
        await self.log.append(self.topics.fleet.name, 0, [record])
        return incarnation

    async def submit(
        self, *names: str, needs: Needs | None = None, parameters: dict[str, Any] | None = None
    ) -> None:
        wanted = (needs or Needs()).model_copy(update={"queue": self.queue})
        given: dict[str, Any] = {"task_type": "noop", "parameters": parameters or {}, "needs": wanted}
        tasks = [TaskSubmitted(task_id=self.own(name), **given) for name in names]
        await self.publish("dispatcher", command_received(new_id()), *tasks)

    async def publish(self, role: str, *messages: Message, stream: str = "") -> None:
        writer, stream = RecordWriter(role, "test"), stream or self.stream
        batch = [writer.single(stream, message) for message in messages]
        events = self.topics.events
        await self.log.append(events.name, partition_of(stream, events.partitions), batch)

    def placement(self, name: str) -> RunningPlacement:
        """Returns how a heartbeat lists the first placement of a task."""
        return RunningPlacement(
            stream=self.stream, task_id=self.own(name), attempt=1, placement=1, device_ids=["cpu-0"]
        )

    async def publish_sign_of_life(
        self, worker: str, message: WorkerHeartbeat | WorkerHeartbeatDigest
    ) -> None:
        is_digest = isinstance(message, WorkerHeartbeatDigest)
        record = RecordWriter("worker", self.own(worker)).single(self.own(worker), message, brief=is_digest)
        await self.log.publish(self.topics.heartbeats.name, 0, record)

    async def until(
        self,
        kind: type[Kind],
        wanted: Callable[[Kind], bool] = lambda _: True,
        nth: int = 1,
        before_each_read: Callable[[], Awaitable[None]] | None = None,
    ) -> Kind:
        """Waits for the nth such message; `before_each_read` is awaited before each read."""
        async with asyncio.timeout(60):
            while True:
                if before_each_read is not None:
                    await before_each_read()
                found = [each for each in self.of(kind) if wanted(each)]
                if len(found) >= nth:
                    return found[nth - 1]
                for entry in await self._reader.read(1.0):
                    record = decode(entry)
                    is_of_device = entry.topic != self.topics.events.name
                    if record is not None and (is_of_device or record.envelope.stream == self.stream):
                        self.seen.append(record.message)

    async def run_of(self, name: str, nth: int = 1, placement: int = 1) -> RunTask:
        """Waits until a device was told the nth time to run a placement of a task."""
        task = (self.own(name), placement)
        return await self.until(RunTask, lambda run: (run.task_id, run.placement) == task, nth)

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Returns the messages of a kind that were seen."""
        return [each for each in self.seen if isinstance(each, kind)]
