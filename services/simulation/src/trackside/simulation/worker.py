"""A worker as the log sees it: the shipped judgement of commands; its disk and its tasks are models.

What it wrote to its disk (the journal of placements, with the results of tasks) outlives it. Its events leave
in order, a batch a partition at a time, said again until the log has them: so some come twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from trackside.contracts.fleet import Device, RunningPlacement, WorkerHeartbeat, WorkerJoined, WorkerLost
from trackside.contracts.ids import new_id
from trackside.contracts.message import Event, Record
from trackside.contracts.summaries import MetricPointsReported, Series
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
from trackside.contracts.topics import HOST, Topics, partition_of
from trackside.eventlog.clock import now_ms
from trackside.eventlog.decode import decode
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.eventlog.record_writer import RecordWriter
from trackside.simulation.worker_disk import (
    TASK_TYPE,
    Disk,
    Key,
    Outbox,
    Placement,
    Work,
    key_of,
    placement_of,
)
from trackside.worker.placements.fencing import CommandAction, FencingTable

PHASES = (TaskStatus.AVAILABLE, TaskStatus.TRAINING)


class SimulatedWorker:
    """One host with its disk; `run` is the life of its process, incarnation after incarnation."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
        worker_id: str,
        devices: Sequence[Device],
        work: Work,
        decoded: Callable[[Entry], Record | None] = decode,
    ) -> None:
        self.worker_id = worker_id
        self.disk = Disk()
        self.log = log
        self.decoded = decoded
        self.topics = topics
        self.devices = list(devices)
        self.work = work
        self.writer = RecordWriter("worker", worker_id)
        self.heartbeat_s = 1.0

    async def run(self, chance: Random, _held: object = None) -> None:
        """Lives until it is killed: joins, works until it is told that it was lost, and joins anew."""
        outbox = Outbox(self.log)
        while True:
            await _Incarnation(self, outbox, chance).live()


class _Incarnation:
    """One incarnation: what it was told, what it has, and who waits for which device."""

    def __init__(self, worker: SimulatedWorker, outbox: Outbox, chance: Random) -> None:
        self._worker = worker
        self._outbox = outbox
        self._chance = chance
        self._id = new_id()
        self._fencing = FencingTable(self._id, (TASK_TYPE,))
        self._here: dict[Key, Placement] = {}
        self._busy: dict[str, Key] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._lost = asyncio.Event()

    async def live(self) -> None:
        """Settles what is owed, joins, and works until the log says that it was lost."""
        worker = self._worker
        after = await self._settle_debts()
        topics = [worker.topics.device(worker.worker_id, device.device_id) for device in worker.devices]
        topics.append(worker.topics.device(worker.worker_id, HOST))
        await worker.log.ensure(topics)
        start = (await self._patient_ends())[0]
        begun = [
            asyncio.create_task(work)
            for work in (self._obey({(topic.name, 0): 0 for topic in topics}), self._watch(start))
        ]
        try:
            await self._join(after)
            begun.append(asyncio.create_task(self._beat()))
            await self._lost.wait()
        finally:
            for task in begun:
                task.cancel()
            await asyncio.gather(*begun, return_exceptions=True)
        for placement in sorted(self._here.values(), key=lambda placement: placement.begun):
            self._end_early(placement, AttemptEnd.LOST)

    async def _patient_ends(self) -> dict[int, int]:
        while True:
            try:
                return await self._worker.log.ends(self._worker.topics.fleet.name)
            except TransientError:
                await asyncio.sleep(0.2)

    async def _settle_debts(self) -> dict[str, int]:
        """Says the ends of what an earlier incarnation has left; gives partition to offset behind them."""
        journal = self._worker.disk.journal
        owed = [placement for placement in journal.values() if not placement.said]
        places = set()
        done = []
        for placement in owed:
            if placement.wait and not placement.begun:
                self._say(placement, TaskReturned(**placement.token, incarnation=placement.incarnation))
            else:
                self._say(placement, TaskAccepted(**placement.token, incarnation=placement.incarnation))
            if placement.ending is not None:
                self._say_values(placement)
            end = placement.ending or AttemptEnd.LOST
            heard = asyncio.Event()
            partition = self._say(placement, self._ended(placement, end, recovered=True), heard)
            places.add(partition)
            done.append(heard)
        for heard in done:
            await heard.wait()
        journal.clear()
        topic = self._worker.topics.events.name
        return {str(partition): self._outbox.positions[topic, partition] for partition in sorted(places)}

    async def _join(self, after: dict[str, int]) -> None:
        worker, heard = self._worker, asyncio.Event()
        joined = WorkerJoined(
            worker_id=worker.worker_id,
            incarnation=self._id,
            host=worker.worker_id,
            devices=worker.devices,
            task_types=[TASK_TYPE],
            queues=["default"],
            after=after,
            memory_bytes=sum(device.memory_bytes for device in worker.devices),
        )
        self._outbox.say(worker.topics.fleet, 0, worker.writer.single(worker.worker_id, joined), heard)
        await heard.wait()

    async def _beat(self) -> None:
        worker, topic = self._worker, self._worker.topics.heartbeats.name
        while True:
            running = [
                RunningPlacement(
                    stream=placement.stream, device_ids=[*placement.device_ids], **placement.token
                )
                for placement in self._here.values()
            ]
            beat = WorkerHeartbeat(worker_id=worker.worker_id, incarnation=self._id, running=running)
            record = worker.writer.single(worker.worker_id, beat)
            with suppress(TransientError):
                await worker.log.publish(topic, 0, record)
            await asyncio.sleep(worker.heartbeat_s)

    async def _watch(self, start: int) -> None:
        log = self._worker.log
        reader = log.reader({(self._worker.topics.fleet.name, 0): start})
        try:
            while True:
                for entry in await reader.read(60.0):
                    record = self._worker.decoded(entry)
                    message = None if record is None else record.message
                    if isinstance(message, WorkerLost) and message.incarnation == self._id:
                        self._lost.set()
        finally:
            await reader.close()

    async def _obey(self, starts: dict[TopicPartition, int]) -> None:
        log = self._worker.log
        reader = log.reader(starts)
        try:
            while True:
                for entry in await reader.read(60.0):
                    self._take(self._worker.decoded(entry))
        finally:
            await reader.close()

    def _take(self, record: Record | None) -> None:
        match None if record is None else record.message:
            case RunTask() as command:
                self._run(command)
            case StopTask() as command:
                self._stop(command)
            case RecallTask() as command:
                self._recall(command)

    def _run(self, command: RunTask) -> None:
        verdict = self._fencing.action_for_run(command)
        if verdict is CommandAction.ANSWER_AGAIN:
            self._answer_again(command)
        if verdict is not CommandAction.RUN:
            return
        placement = placement_of(command, tuple(command.device_ids), command.parameters, command.wait)
        token = (command.attempt, command.placement)
        if self._is_busy(placement) and not command.wait:
            refused = TaskRefused(**placement.token, incarnation=self._id, code="busy", message="is busy")
            self._fencing.record_answer(command.task_id, token, refused)
            self._say(placement, refused)
            return
        for older in [key for key in self._here if key[0] == command.task_id]:
            self._end_early(self._here[older], AttemptEnd.LOST)
        self._fencing.record_accepted(command.task_id, token)
        self._worker.disk.journal[placement.key] = placement
        self._here[placement.key] = placement
        self._advance()

    def _stop(self, command: StopTask) -> None:
        verdict = self._fencing.action_for_stop(command)
        if verdict is CommandAction.STOP:
            self._end_early(self._here[key_of(command)], AttemptEnd(command.end))
        elif verdict is CommandAction.ANSWER_AGAIN:
            self._answer_again(command)
        elif verdict is CommandAction.NEVER_RUN:
            placement = self._bury(command)
            ended = self._ended(placement, AttemptEnd(command.end))
            self._fencing.record_answer(command.task_id, placement.key[1:], ended)
            self._say(placement, ended)

    def _recall(self, command: RecallTask) -> None:
        verdict = self._fencing.action_for_recall(command)
        if verdict is CommandAction.ANSWER_AGAIN:
            self._answer_again(command)
        elif verdict is CommandAction.RETURN:
            placement = self._here.pop(key_of(command))
            self._return(placement)
        elif verdict is CommandAction.NEVER_RUN:
            self._return(self._bury(command))

    def _return(self, placement: Placement) -> None:
        task_id, token = placement.key[0], placement.key[1:]
        self._fencing.record_finished(task_id, token)
        returned = TaskReturned(**placement.token, incarnation=self._id)
        self._fencing.record_answer(task_id, token, returned)
        self._say(placement, returned, placement)

    def _bury(self, command: StopTask | RecallTask) -> Placement:
        """Notes that a placement must never run, whenever its command comes."""
        placement = placement_of(command, (), {}, wait=True)
        self._fencing.record_forbidden(command.task_id, placement.key[1:])
        return placement

    def _end_early(self, placement: Placement, end: AttemptEnd) -> None:
        if placement.begun:
            self._timers.pop(placement.key).cancel()
            self._leave(placement, placement.ending or end)
        else:
            del self._here[placement.key]
            self._conclude(placement, end)

    def _answer_again(self, command: RunTask | StopTask | RecallTask) -> None:
        answer = self._fencing.tasks[command.task_id].answer
        if answer is not None:
            self._say(placement_of(command, (), {}, wait=False), answer)

    def _is_busy(self, placement: Placement) -> bool:
        return any(device_id in self._busy for device_id in placement.device_ids)

    def _advance(self) -> None:
        """Begins what waited for devices that are free now, without asking anybody."""
        for placement in list(self._here.values()):
            if not placement.begun and not self._is_busy(placement):
                placement.begun = True
                self._worker.disk.begun[placement.key] += 1
                self._busy |= dict.fromkeys(placement.device_ids, placement.key)
                self._fencing.record_begun(placement.key[0], placement.key[1:])
                self._begin(placement)

    def _begin(self, placement: Placement) -> None:
        accepted = TaskAccepted(**placement.token, incarnation=self._id)
        self._fencing.record_answer(placement.key[0], placement.key[1:], accepted)
        self._say(placement, accepted)
        for status in PHASES:
            changed = TaskStatusChanged(**placement.token, incarnation=self._id, status=status)
            self._say(placement, changed)
        low, high = self._worker.work.seconds
        pace_s = (low + self._chance.random() * (high - low)) / self._worker.work.reports
        self._later(pace_s, self._report, placement, self._values(placement), pace_s)

    def _report(self, placement: Placement, values: list[float], pace_s: float) -> None:
        step = len(placement.values)
        placement.values.append(values[step])
        self._say_value(placement, "PERIODICAL", step, values[step])
        if step + 1 < len(values):
            self._later(pace_s, self._report, placement, values, pace_s)
            return
        placement.ending = AttemptEnd.FINISHED  # on disk: whoever comes later can say it again
        self._say_value(placement, "FINAL", len(values), values[-1])
        self._later(0.005, self._leave, placement, AttemptEnd.FINISHED)

    def _later(self, delay_s: float, what: Callable[..., None], placement: Placement, *more: Any) -> None:
        loop = asyncio.get_running_loop()
        self._timers[placement.key] = loop.call_later(delay_s, what, placement, *more)

    def _leave(self, placement: Placement, end: AttemptEnd) -> None:
        self._timers.pop(placement.key, None)
        del self._here[placement.key]
        for device_id in placement.device_ids:
            del self._busy[device_id]
        self._conclude(placement, end)
        self._advance()

    def _conclude(self, placement: Placement, end: AttemptEnd) -> None:
        self._fencing.record_finished(placement.key[0], placement.key[1:])
        ended = self._ended(placement, end)
        self._fencing.record_answer(placement.key[0], placement.key[1:], ended)
        self._say(placement, ended, placement)

    def _values(self, placement: Placement) -> list[float]:
        slope = float(placement.parameters.get("x", 0.0))
        return [slope * (step + 1) for step in range(self._worker.work.reports)]

    def _say_values(self, placement: Placement) -> None:
        for step, value in enumerate(placement.values):
            self._say_value(placement, "PERIODICAL", step, value)
        self._say_value(placement, "FINAL", len(placement.values), placement.values[-1])

    def _say_value(self, placement: Placement, kind: Any, step: int, value: float) -> None:
        self._say(placement, MetricReported(**placement.token, kind=kind, step=step, value=value))
        if self._worker.work.points and kind == "PERIODICAL":
            task_id, topic = placement.key[0], self._worker.topics.metrics
            series = Series(tag="objective", steps=[step], times_ms=[now_ms()], values=[value])
            points = MetricPointsReported(
                stream=placement.stream, task_id=task_id, attempt=placement.key[1], series=[series]
            )
            record = self._worker.writer.single(placement.stream, points)
            self._outbox.say(topic, partition_of(task_id, topic.partitions), record)

    def _ended(self, placement: Placement, end: AttemptEnd, recovered: bool = False) -> AttemptEnded:
        return AttemptEnded(
            **placement.token, incarnation=placement.incarnation, end=end, recovered=recovered
        )

    def _say(self, placement: Placement, event: Event, then: Placement | asyncio.Event | None = None) -> int:
        topic = self._worker.topics.events
        partition = partition_of(placement.stream, topic.partitions)
        self._outbox.say(topic, partition, self._worker.writer.single(placement.stream, event), then)
        return partition
