"""A small world for simulations: a log with faults, workers that die, services that are killed at will."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from trackside.contracts.fleet import Device, RunningPlacement, WorkerHeartbeat, WorkerJoined
from trackside.contracts.ids import new_id
from trackside.contracts.message import Message
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    RecallTask,
    RunTask,
    StopTask,
    TaskAccepted,
    TaskRefused,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.contracts.topics import Topics, partition_of
from trackside.dispatcher.advice import Advice
from trackside.dispatcher.advisor import Advisor
from trackside.dispatcher.lanes import Lane, Op
from trackside.dispatcher.service import Dispatcher
from trackside.domain.streams import Streams
from trackside.eventlog.author import Author
from trackside.eventlog.background import Background
from trackside.eventlog.decode import decode
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.reactor import Reactor
from trackside.eventlog.serving import from_end, from_start
from trackside.scheduler.service import Scheduler
from trackside.scheduler.settings import SchedulerSettings
from trackside.telemetry.health import Health

TOPICS = Topics(event_partitions=3)
LEASE_S = 0.4
Token = tuple[str, int, int]


class FaultyLog(MemoryLog):
    """Loses appends, keeps silent about others, and repeats and drops device commands; counts each fault."""

    def __init__(self, chance: random.Random, rate: float) -> None:
        super().__init__()
        self._chance = chance
        self._rate = rate
        self.faults: Counter[str] = Counter()

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        await asyncio.sleep(self._chance.random() * 0.003)
        if self._strikes("lost append"):
            raise TransientError("lost")
        appended = await super().append(topic, partition, batch)
        if self._strikes("unknown append"):
            raise TransientError("written, but nobody was told")
        return appended

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        if ".device." not in topic:
            return await super().append(topic, partition, [record])
        if self._strikes("lost command"):
            return Appended(0, 0)
        if self._strikes("repeated command"):
            await super().append(topic, partition, [record])
        return await super().append(topic, partition, [record])

    def _strikes(self, what: str) -> bool:
        struck = self._chance.random() < self._rate
        self.faults[what] += struck
        return struck


class LocalLane(Lane):
    """A lane whose advisor is in this process: the same program, without the pipe."""

    def __init__(self) -> None:
        super().__init__("local")
        self.generation = 1
        self._advisor = Advisor()

    async def request(
        self, search: str, ops: Callable[[int], Iterable[Op]] | Sequence[Op], ops_a_line: int = 0
    ) -> Any:
        await asyncio.sleep(0)
        listed = list(ops(self.generation) if callable(ops) else ops)
        return self._advisor.answer(json.dumps({"id": 1, "search": search, "ops": listed})).get("result")


async def dispatcher(log: MemoryLog, instance: str) -> None:
    """Runs a dispatcher from an empty memory until it is cancelled."""
    background = Background()
    author = Author("dispatcher", instance)
    advice = Advice(LocalLane(), LocalLane(), background)
    service = Dispatcher(log, TOPICS, author, Streams(), advice, background)
    reactor = Reactor(
        log,
        author,
        service,
        starts=await from_start(log, TOPICS.events) | await from_start(log, TOPICS.fleet),
        raw=await from_start(log, TOPICS.commands),
        partitions={TOPICS.events.name: TOPICS.event_partitions},
        health=Health("dispatcher"),
        background=background,
    )
    advice.ready = reactor.wake
    await reactor.run(asyncio.Event())


async def scheduler(log: MemoryLog, instance: str) -> None:
    """Runs a scheduler from an empty memory until it is cancelled."""
    background = Background()
    author = Author("scheduler", instance)
    settings = SchedulerSettings(lease_s=0.5, heartbeat_s=0.05, resend_s=0.1).model_copy(
        update={"lease_s": LEASE_S}
    )
    service = Scheduler(log, TOPICS, author, Streams(), background, settings)
    starts = await from_start(log, TOPICS.events) | await from_start(log, TOPICS.fleet)
    reactor = Reactor(
        log,
        author,
        service,
        starts=starts | await from_end(log, TOPICS.heartbeats),
        raw={},
        partitions={TOPICS.events.name: TOPICS.event_partitions, TOPICS.fleet.name: 1},
        health=Health("scheduler"),
        background=background,
    )
    await reactor.run(asyncio.Event())


class Worker:
    """A worker as the log sees it: a journal that outlives it, one task a device, a value a step."""

    def __init__(self, log: FaultyLog, worker_id: str, devices: int, chance: random.Random) -> None:
        self._log = log
        self._id = worker_id
        self._devices = [f"cpu-{number}" for number in range(devices)]
        self._chance = chance
        self._author = Author("worker", worker_id)
        self._journal: dict[Token, tuple[str, str, bool]] = {}
        self._running: dict[Token, tuple[str, asyncio.Task[None], str]] = {}
        self._held: list[tuple[RunTask, Token, str]] = []
        self._incarnation = ""
        self._alive = False
        self.returned = 0
        self.ran: Counter[Token] = Counter()

    async def run(self) -> None:
        """Joins, recovers what its journal has open, and takes commands until it is cancelled."""
        self._incarnation = new_id()
        self._running = {}
        self._held = []
        topics = [TOPICS.device(self._id, device) for device in self._devices]
        await self._log.ensure(topics)
        reader = self._log.reader({(topic.name, 0): 0 for topic in topics})
        await self._join()
        self._alive = True
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat())
            try:
                while True:
                    for entry in await reader.read(1.0):
                        record = decode(entry)
                        if record is not None:
                            device = entry.topic.rpartition(".")[2]
                            await self._take(record.message, device, group)
            finally:
                self._alive = False  # before its tasks are cancelled: nothing begins after that

    async def _join(self) -> None:
        after: dict[str, int] = {}
        for token, (stream, incarnation, ended) in list(self._journal.items()):
            if not ended:
                partition, end = await self._say(stream, self._end(token, incarnation, AttemptEnd.LOST))
                after[str(partition)] = max(end, after.get(str(partition), 0))
                self._journal[token] = (stream, incarnation, True)
        devices = [Device(device_id=name, kind="cpu", name="cpu", memory_bytes=1) for name in self._devices]
        joined = WorkerJoined(
            worker_id=self._id,
            incarnation=self._incarnation,
            host="here",
            devices=devices,
            task_types=["noop"],
            queues=["default"],
            after=after,
        )
        await self._certainly(TOPICS.fleet.name, 0, [self._author.single(self._id, joined)])

    async def _beat(self) -> None:
        while True:
            running = [
                RunningPlacement(
                    stream=stream, task_id=token[0], attempt=token[1], placement=token[2], device_ids=[device]
                )
                for token, (stream, task, device) in self._running.items()
                if not task.done()
            ]
            beat = WorkerHeartbeat(worker_id=self._id, incarnation=self._incarnation, running=running)
            await self._log.publish(TOPICS.heartbeats.name, 0, self._author.single(self._id, beat))
            await asyncio.sleep(0.05)

    async def _take(self, command: Message, device: str, group: asyncio.TaskGroup) -> None:
        if not isinstance(command, RunTask | StopTask | RecallTask):
            return
        if command.incarnation != self._incarnation:
            return
        token = (command.task_id, command.attempt, command.placement)
        if isinstance(command, StopTask):
            await self._stop(command, token)
        elif isinstance(command, RecallTask):
            await self._give_back(command, token)
        elif token in self._journal or any(token == held for _, held, _ in self._held):
            return
        elif self._is_busy(device) and command.wait:
            self._held.append((command, token, device))
        elif self._is_busy(device):
            refused = TaskRefused(
                **self._token(token), incarnation=self._incarnation, code="busy", message=""
            )
            await self._say(command.stream, refused)
        else:
            self._begin(command, token, device, group)

    def _is_busy(self, device: str) -> bool:
        return any(not task.done() and at == device for _, task, at in self._running.values())

    def _begin(self, command: RunTask, token: Token, device: str, group: asyncio.TaskGroup) -> None:
        self._journal[token] = (command.stream, self._incarnation, False)
        self.ran[token] += 1
        task = group.create_task(self._work(command, token))
        task.add_done_callback(lambda _: self._begin_held(group))
        self._running[token] = (command.stream, task, device)

    def _begin_held(self, group: asyncio.TaskGroup) -> None:
        """Begins what waited for a device that is free now, without asking anybody."""
        for held in list(self._held):
            if not self._is_busy(held[2]) and self._alive:
                self._held.remove(held)
                self._begin(*held, group)

    async def _give_back(self, command: RecallTask, token: Token) -> None:
        """Gives back what hasn't begun, also what never came: then it must not begin any more."""
        self._held = [held for held in self._held if held[1] != token]
        if token not in self._journal:
            self._journal[token] = (command.stream, self._incarnation, True)
            self.returned += 1
            returned = TaskReturned(**self._token(token), incarnation=self._incarnation)
            await self._say(command.stream, returned)

    async def _stop(self, command: StopTask, token: Token) -> None:
        self._held = [held for held in self._held if held[1] != token]
        running = self._running.get(token)
        if running is not None:
            running[1].cancel()
        if not self._journal.get(token, ("", "", False))[2]:
            self._journal[token] = (command.stream, self._incarnation, True)
            await self._say(command.stream, self._end(token, self._incarnation, AttemptEnd.CANCELLED))

    async def _work(self, command: RunTask, token: Token) -> None:
        known = self._token(token)
        await self._say(command.stream, TaskAccepted(**known, incarnation=self._incarnation))
        for status in (TaskStatus.AVAILABLE, TaskStatus.TRAINING):
            changed = TaskStatusChanged(**known, incarnation=self._incarnation, status=status)
            await self._say(command.stream, changed)
        for step in range(3):
            await asyncio.sleep(self._chance.random() * 0.01)
            value = command.parameters["x"] * (step + 1)
            report = MetricReported(**known, kind="PERIODICAL", step=step, value=value)
            await self._say(command.stream, report)
        await self._say(command.stream, self._end(token, self._incarnation, AttemptEnd.FINISHED))
        self._journal[token] = (command.stream, self._incarnation, True)

    def _end(self, token: Token, incarnation: str, end: AttemptEnd) -> AttemptEnded:
        return AttemptEnded(**self._token(token), incarnation=incarnation, end=end)

    def _token(self, token: Token) -> dict[str, Any]:
        return {"task_id": token[0], "attempt": token[1], "placement": token[2]}

    async def _say(self, stream: str, message: Message) -> tuple[int, int]:
        partition = partition_of(stream, TOPICS.event_partitions)
        end = await self._certainly(TOPICS.events.name, partition, [self._author.single(stream, message)])
        return partition, end

    async def _certainly(self, topic: str, partition: int, batch: list[Outgoing]) -> int:
        while True:
            try:
                appended = await self._log.append(topic, partition, batch)
                return appended.offset + len(batch)
            except TransientError:
                await asyncio.sleep(0)
