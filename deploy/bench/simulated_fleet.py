"""Workers without processes: they join, send heartbeats, and report the end of each task as soon as it comes.

What they write is what a worker writes of a task that reports one value, in as few appends as come together.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import HOST, MAX_BATCH_BYTES, Topics, partition_of
from trackside.contracts.fleet.fleet import (
    Device,
    RunningPlacement,
    WorkerHeartbeat,
    WorkerHeartbeatDigest,
    WorkerJoined,
)
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskAccepted,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.domain.fleet.heartbeats import HeartbeatDigester
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log, Outgoing

TASK_TYPE = "noop"
DEVICES_PER_WORKER = 8
DEVICE_BYTES = 2**32
HEARTBEAT_S, READ_S, PAUSE_S = 1.0, 1.0, 0.2
STATUSES = (TaskStatus.AVAILABLE, TaskStatus.LOADING, TaskStatus.WAITING, TaskStatus.TRAINING)
RECORD_BYTES = 600
"""What a record takes in a batch, besides its value."""
Token = tuple[str, int, int]


@dataclass(slots=True)
class _Worker:
    worker_id: str
    devices: list[Device]
    writer: RecordWriter
    incarnation: str = field(default_factory=new_id)
    running: dict[Token, RunningPlacement] = field(default_factory=dict)
    digester: HeartbeatDigester = field(default_factory=HeartbeatDigester)


class SimulatedFleet:
    """All workers, with `devices` devices in all; after `tasks` ends they keep what they get running."""

    def __init__(self, log: Log, topics: Topics, devices: int, tasks: int) -> None:
        self.ended = 0
        self._log = log
        self._topics = topics
        self._tasks = tasks
        self._seen: set[Token] = set()
        self._workers = {worker.worker_id: worker for worker in _workers(devices)}

    async def join(self) -> None:
        """Creates the topics of the devices, and lets all workers join."""
        names = [
            (worker.worker_id, name)
            for worker in self._workers.values()
            for name in (*(device.device_id for device in worker.devices), HOST)
        ]
        self._device_topics = {self._topics.device(*name).name: name[0] for name in names}
        await self._log.ensure([self._topics.device(*name) for name in names])
        joins = [worker.writer.single(worker.worker_id, _joined(worker)) for worker in self._workers.values()]
        await self._append(self._topics.fleet.name, 0, joins)

    async def run(self) -> None:
        """Works until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_heartbeats())
            group.create_task(self._follow_commands())

    async def _send_heartbeats(self) -> None:
        while True:
            now_s, workers = monotonic_s(), list(self._workers.values())
            beats = [worker.digester.next(_heartbeat(worker), now_s) for worker in workers]
            records = [
                worker.writer.single(worker.worker_id, beat, brief=isinstance(beat, WorkerHeartbeatDigest))
                for worker, beat in zip(workers, beats, strict=True)
            ]
            with suppress(TransientError):
                await self._append(self._topics.heartbeats.name, 0, records)
                for worker, beat in zip(workers, beats, strict=True):
                    worker.digester.sent(beat, now_s)
            await asyncio.sleep(HEARTBEAT_S)

    async def _follow_commands(self) -> None:
        reader = self._log.reader({(name, 0): 0 for name in self._device_topics})
        try:
            while True:
                made: dict[int, list[Outgoing]] = {}
                for entry in await reader.read(READ_S):
                    record = decode(entry)
                    if record is not None and isinstance(record.message, RunTask):
                        worker = self._workers[self._device_topics[entry.topic]]
                        partition = partition_of(record.message.stream, self._topics.events.partitions)
                        made.setdefault(partition, []).extend(self._results(worker, record.message))
                for partition, records in made.items():
                    await self._append(self._topics.events.name, partition, records)
        finally:
            await reader.close()

    def _results(self, worker: _Worker, command: RunTask) -> list[Outgoing]:
        """Returns the records of a placement that is new."""
        token = (command.task_id, command.attempt, command.placement)
        if token in self._seen:
            return []
        self._seen.add(token)
        ends = self.ended < self._tasks
        self.ended += ends
        if not ends:
            worker.running[token] = RunningPlacement(
                stream=command.stream, task_id=command.task_id, attempt=command.attempt,
                placement=command.placement, device_ids=command.device_ids,
            )  # fmt: skip
        events = _events(worker.incarnation, command, ends)
        return [worker.writer.single(command.stream, event) for event in events]

    async def _append(self, topic: str, partition: int, records: Sequence[Outgoing]) -> None:
        """Appends records in batches that are not too large."""
        for batch in _batches(records):
            while True:
                try:
                    await self._log.append(topic, partition, batch)
                    break
                except TransientError:  # a duplicate has no effect
                    await asyncio.sleep(PAUSE_S)


def _workers(devices: int) -> Iterator[_Worker]:
    for first in range(0, devices, DEVICES_PER_WORKER):
        worker_id = f"simulated-{first // DEVICES_PER_WORKER}"
        listed = [
            Device(device_id=f"cpu-{at}", kind="cpu", name="CPU slot", memory_bytes=DEVICE_BYTES)
            for at in range(min(DEVICES_PER_WORKER, devices - first))
        ]
        yield _Worker(worker_id, listed, RecordWriter("worker", worker_id))


def _heartbeat(worker: _Worker) -> WorkerHeartbeat:
    return WorkerHeartbeat(
        worker_id=worker.worker_id,
        incarnation=worker.incarnation,
        running=[*worker.running.values()],
    )


def _joined(worker: _Worker) -> WorkerJoined:
    return WorkerJoined(
        worker_id=worker.worker_id,
        incarnation=worker.incarnation,
        host=worker.worker_id,
        devices=worker.devices,
        task_types=[TASK_TYPE],
        queues=["default"],
        after={},
        memory_bytes=DEVICE_BYTES * len(worker.devices),
    )


def _events(incarnation: str, command: RunTask, ends: bool) -> Iterator[Message]:
    token = {"task_id": command.task_id, "attempt": command.attempt, "placement": command.placement}
    mine = token | {"incarnation": incarnation}
    yield TaskAccepted.model_validate(mine)
    for status in STATUSES:
        yield TaskStatusChanged.model_validate(mine | {"status": status})
    if ends:
        value = float(command.parameters["x"])
        yield MetricReported.model_validate(token | {"kind": "FINAL", "step": 0, "value": value})
        yield AttemptEnded.model_validate(mine | {"end": AttemptEnd.FINISHED, "result": {}, "exit_code": 0})


def _batches(records: Sequence[Outgoing]) -> Iterator[list[Outgoing]]:
    batch: list[Outgoing] = []
    size = 0
    for record in records:
        added = len(record.value or b"") + RECORD_BYTES
        if batch and size + added > MAX_BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += added
    if batch:
        yield batch
