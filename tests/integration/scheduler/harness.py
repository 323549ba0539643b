"""Publishes what dispatcher and workers would, to a scheduler process, and reads all that is written."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.service_processes import ServiceProcess
from trackside.contracts.commands import RULES, CommandReceived, Source
from trackside.contracts.fleet import (
    Device,
    DeviceReading,
    RunningPlacement,
    WorkerHeartbeat,
    WorkerHeartbeatDigest,
    WorkerJoined,
)
from trackside.contracts.ids import new_id
from trackside.contracts.message import Message
from trackside.contracts.resources import Needs
from trackside.contracts.tasks import (
    TaskSubmitted,
)
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.record_writer import RecordWriter

Kind = TypeVar("Kind", bound=Message)
STREAM = "s"


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
    """The topics of one test, one reader of all of them, and what a dispatcher or worker publishes."""

    def __init__(self, log: KafkaLog, topics: Topics, scheduler: ServiceProcess) -> None:
        self.log = log
        self.topics = topics
        self.scheduler = scheduler
        events = topics.events
        self._reader = log.reader({(events.name, at): 0 for at in range(events.partitions)})
        self.seen: list[tuple[str, Message]] = []

    async def join_worker(self, worker: str, slots: int = 1, gpu_gib: int = 0) -> str:
        incarnation = new_id()
        devices = [
            Device(device_id=f"cpu-{at}", kind="cpu", name="cpu", memory_bytes=1) for at in range(slots)
        ]
        if gpu_gib:
            size = gpu_gib * 1024**3
            devices = [Device(device_id="gpu-0", kind="gpu", name="gpu", memory_bytes=size, index=0)]
        topics = [self.topics.device(worker, device.device_id) for device in devices]
        await self.log.ensure(topics)
        self._reader.assign({(topic.name, 0): 0 for topic in topics})
        joined = WorkerJoined(
            worker_id=worker,
            incarnation=incarnation,
            host="here",
            devices=devices,
            task_types=["noop"],
            queues=["default"],
            after={},
        )
        record = RecordWriter("worker", worker).single(worker, joined)
        await self.log.append(self.topics.fleet.name, 0, [record])
        return incarnation

    async def submit(
        self, *task_ids: str, needs: Needs | None = None, parameters: dict[str, Any] | None = None
    ) -> None:
        tasks = [
            TaskSubmitted(
                task_id=task_id, task_type="noop", parameters=parameters or {}, needs=needs or Needs()
            )
            for task_id in task_ids
        ]
        await self.publish("dispatcher", command_received(new_id()), *tasks)

    async def publish(self, role: str, *messages: Message, stream: str = STREAM) -> None:
        writer = RecordWriter(role, "test")
        batch = [writer.single(stream, message) for message in messages]
        events = self.topics.events
        await self.log.append(events.name, partition_of(stream, events.partitions), batch)

    async def publish_heartbeat(
        self,
        worker: str,
        incarnation: str,
        *running: RunningPlacement,
        devices: tuple[DeviceReading, ...] = (),
    ) -> None:
        heartbeat = WorkerHeartbeat(
            worker_id=worker, incarnation=incarnation, running=list(running), devices=devices
        )
        await self.publish_sign_of_life(worker, heartbeat)

    async def publish_sign_of_life(
        self, worker: str, message: WorkerHeartbeat | WorkerHeartbeatDigest
    ) -> None:
        is_digest = isinstance(message, WorkerHeartbeatDigest)
        record = RecordWriter("worker", worker).single(worker, message, brief=is_digest)
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
                found = [message for _, message in self.seen if isinstance(message, kind) and wanted(message)]
                if len(found) >= nth:
                    return found[nth - 1]
                for entry in await self._reader.read(1.0):
                    record = decode(entry)
                    if record is not None:
                        self.seen.append((entry.topic, record.message))
