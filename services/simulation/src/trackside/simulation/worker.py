"""A model of a worker: the shipped fencing of commands, and simulated disks and tasks.

Its disk (the journal of placements, with the results of tasks) outlives the process. Events are appended in
order, one batch at a time for each partition, and again until the log has them: so some are there twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import HOST, Topics
from trackside.contracts.fleet.fleet import (
    Device,
    WorkerHeartbeat,
    WorkerHeartbeatDigest,
    WorkerLost,
)
from trackside.contracts.tasks.device_commands import (
    GiveInstruction,
    NextParameters,
    RecallTask,
    RunTask,
    StopTask,
)
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnd,
    TaskAccepted,
    TaskRefused,
    TaskReturned,
    TaskStatusChanged,
)
from trackside.domain.fleet.heartbeats import HeartbeatDigester
from trackside.eventlog.errors import TransientError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.simulation.host.reporting import SimulatedReporter
from trackside.simulation.host.store import SharedResources, SimulatedUploads
from trackside.simulation.host.worker_state import (
    BUILT_IN,
    LATE_END_S,
    LATE_ENDS,
    PHASES,
    SERVICES,
    TASK_TYPES,
    PlacementKey,
    SimulatedDisk,
    SimulatedOutbox,
    SimulatedPlacement,
    Workload,
    placement_key,
    simulated_placement,
)
from trackside.simulation.recovery import JournalRecovery, joined
from trackside.simulation.tasks.incremental_tasks import task_class
from trackside.simulation.tasks.tasks import SimulatedTask
from trackside.worker.placements.fencing import CommandAction, FencingTable


class SimulatedWorker:
    """One host with its disk; `run` is its process, incarnation after incarnation."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
        worker_id: str,
        devices: Sequence[Device],
        workload: Workload,
        decoded: Callable[[Entry], Record | None] = decode,
        shared: SharedResources | None = None,
    ) -> None:
        self.worker_id = worker_id
        self.shared = shared or SharedResources()
        self.uuids = {device.device_id: device.uuid for device in devices if device.uuid}
        self.disk = self.shared.disks[worker_id] = SimulatedDisk()
        self.log = log
        self.decoded = decoded
        self.topics = topics
        self.devices = list(devices)
        self.workload = workload
        self.writer = RecordWriter("worker", worker_id)
        self.heartbeat_s = 1.0

    async def run(self, rng: Random, _held: object = None) -> None:
        """Runs until it is killed: joins, works until it was declared lost, and joins again."""
        outbox = SimulatedOutbox(self.log)
        while True:
            await _Incarnation(self, outbox, rng).live()


class _Incarnation:
    """One incarnation: the commands it received, its placements, and the queue of each device."""

    def __init__(self, worker: SimulatedWorker, outbox: SimulatedOutbox, rng: Random) -> None:
        self._worker = worker
        self._outbox = outbox
        self._rng = rng
        self._id = new_id()
        self._reporter = SimulatedReporter(self._id, outbox, worker.writer, worker.topics, worker.workload)
        self._fencing = FencingTable(self._id, (*TASK_TYPES, *BUILT_IN), SERVICES)
        self._placements: dict[PlacementKey, SimulatedPlacement] = {}
        self._device_users: dict[str, PlacementKey] = {}
        self._tasks: dict[PlacementKey, SimulatedTask] = {}
        self._saving: set[asyncio.Task[None]] = set()
        self._lost = asyncio.Event()

    async def live(self) -> None:
        """Reports what an earlier incarnation left, joins, and works until the log declares this one lost."""
        worker = self._worker
        after = await self._recover_journal()
        topics = [worker.topics.device(worker.worker_id, device.device_id) for device in worker.devices]
        topics.append(worker.topics.device(worker.worker_id, HOST))
        await worker.log.ensure(topics)
        start = (await self._fleet_ends())[0]
        background = [
            asyncio.create_task(workload)
            for workload in (
                self._follow_commands({(topic.name, 0): 0 for topic in topics}),
                self._follow_fleet(start),
            )
        ]
        try:
            await self._join(after)
            background.append(asyncio.create_task(self._send_heartbeats()))
            await self._lost.wait()
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
        for placement in sorted(self._placements.values(), key=lambda placement: placement.begun):
            self._end_early(placement, AttemptEnd.LOST)
        await asyncio.gather(*self._saving)

    async def _fleet_ends(self) -> dict[int, int]:
        while True:
            try:
                return await self._worker.log.ends(self._worker.topics.fleet.name)
            except TransientError:
                await asyncio.sleep(0.2)

    async def _recover_journal(self) -> dict[str, int]:
        """Ends and adopts what the journal has; returns the next offset by partition."""
        worker = self._worker
        recovery = JournalRecovery(
            worker.worker_id,
            self._id,
            worker.disk,
            worker.shared,
            self._reporter,
            worker.workload,
            self._rng,
        )
        outlived = recovery.outlived()
        in_use = {uuid for placement in outlived for uuid in placement.uuids(worker.uuids)}
        worker.shared.gpus.release({*worker.uuids.values()} - in_use, worker.worker_id)
        await recovery.report_ends(outlived)
        adopted = await recovery.adopt_all(outlived)
        for placement, event in zip(outlived, adopted, strict=True):
            self._take_over(placement, event)
        topic = worker.topics.events.name
        partitions = sorted(recovery.partitions)
        return {str(partition): self._outbox.positions[topic, partition] for partition in partitions}

    def _take_over(self, placement: SimulatedPlacement, adopted: AttemptAdopted) -> None:
        """Begins a placement whose task an earlier incarnation has begun."""
        task_id, token = placement.key[0], placement.key[1:]
        self._placements[placement.key] = placement
        self._fencing.record_accepted(task_id, token)
        self._fencing.record_begun(task_id, token)
        self._fencing.record_answer(task_id, token, adopted)
        self._device_users |= dict.fromkeys(placement.device_ids, placement.key)
        self._worker.shared.gpus.take(placement.uuids(self._worker.uuids), self._worker.worker_id)
        self._run_task(placement)

    async def _join(self, after: dict[str, int]) -> None:
        worker, written = self._worker, asyncio.Event()
        event = joined(worker.worker_id, self._id, worker.devices, after)
        record = worker.writer.single(worker.worker_id, event, sequence=self._reporter.numbers.draw())
        self._outbox.send(worker.topics.fleet, 0, worker.writer.signed(worker.topics.fleet, record), written)
        await written.wait()

    async def _send_heartbeats(self) -> None:
        worker, topic, digester = self._worker, self._worker.topics.heartbeats.name, HeartbeatDigester()
        while True:
            running = [placement.running() for placement in self._placements.values()]
            whole = WorkerHeartbeat(worker_id=worker.worker_id, incarnation=self._id, running=running)
            now_s = asyncio.get_running_loop().time()
            beat = digester.next(whole, now_s)
            record = worker.writer.single(
                worker.worker_id, beat, brief=isinstance(beat, WorkerHeartbeatDigest)
            )
            with suppress(TransientError):
                await worker.log.publish(topic, 0, record)
                digester.sent(beat, now_s)
            await asyncio.sleep(worker.heartbeat_s)
            self._advance()  # another worker may have left a GPU

    async def _follow_fleet(self, start: int) -> None:
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

    async def _follow_commands(self, starts: dict[TopicPartition, int]) -> None:
        log = self._worker.log
        reader = log.reader(starts)
        try:
            while True:
                for entry in await reader.read(60.0):
                    self._handle(self._worker.decoded(entry))
        finally:
            await reader.close()

    def _handle(self, record: Record | None) -> None:
        if record is None:
            return
        cause = record.envelope.causation_id
        match record.message:
            case RunTask() as command:
                self._run(command, cause)
            case StopTask() as command:
                self._stop(command, cause)
            case RecallTask() as command:
                self._recall(command, cause)
            case GiveInstruction() as command if (task := self._current_task(command)) is not None:
                task.instruct(command.instruction, cause)
            case NextParameters() as command if (task := self._current_task(command)) is not None:
                task.answer(command.request, command.parameters, cause)

    def _current_task(self, command: GiveInstruction | NextParameters) -> SimulatedTask | None:
        return self._tasks.get(placement_key(command)) if self._fencing.is_current(command) else None

    def _run(self, command: RunTask, cause: str) -> None:
        action = self._fencing.action_for_run(command)
        if action is CommandAction.ANSWER_AGAIN:
            self._answer_again(command, cause)
        if action is not CommandAction.RUN:
            return
        device_ids = tuple(command.device_ids)
        placement = simulated_placement(command, device_ids, command.parameters, command.wait, cause)
        token = (command.attempt, command.placement)
        if self._is_busy(placement) and not command.wait:
            refused = TaskRefused(
                **placement.token, incarnation=self._id, code="device_busy", message="is busy"
            )
            self._fencing.record_answer(command.task_id, token, refused)
            self._reporter.event(placement, refused)
            self._end_older(command.task_id)
            return
        self._end_older(command.task_id)
        self._fencing.record_accepted(command.task_id, token)
        self._worker.disk.journal[placement.key] = placement
        self._placements[placement.key] = placement
        self._advance()

    def _stop(self, command: StopTask, cause: str) -> None:
        action = self._fencing.action_for_stop(command)
        if action is CommandAction.STOP:
            placement, end = self._placements[placement_key(command)], AttemptEnd(command.end)
            task = self._tasks.get(placement.key) if command.checkpoint_s else None
            if task is None or not task.stop_after_checkpoint(end, command.checkpoint_s):
                self._end_early(placement, end, cause)
        elif action is CommandAction.ANSWER_AGAIN:
            self._answer_again(command, cause)
        elif action is CommandAction.NEVER_RUN:
            placement = self._never_run(command, cause)
            ended = placement.ended(AttemptEnd(command.end))
            self._fencing.record_answer(command.task_id, placement.key[1:], ended)
            self._reporter.event(placement, ended)

    def _recall(self, command: RecallTask, cause: str) -> None:
        action = self._fencing.action_for_recall(command)
        if action is CommandAction.ANSWER_AGAIN:
            self._answer_again(command, cause)
        elif action is CommandAction.RETURN:
            placement = self._placements.pop(placement_key(command))
            placement.cause = cause
            self._return(placement)
        elif action is CommandAction.NEVER_RUN:
            self._return(self._never_run(command, cause))

    def _return(self, placement: SimulatedPlacement) -> None:
        task_id, token = placement.key[0], placement.key[1:]
        self._fencing.record_finished(task_id, token)
        returned = TaskReturned(**placement.token, incarnation=self._id)
        self._fencing.record_answer(task_id, token, returned)
        self._reporter.event(placement, returned, placement)

    def _never_run(self, command: StopTask | RecallTask, cause: str) -> SimulatedPlacement:
        """Records that a placement must never run, whenever its command arrives."""
        placement = simulated_placement(command, (), {}, True, cause)
        self._fencing.record_forbidden(command.task_id, placement.key[1:])
        self._end_older(command.task_id)
        return placement

    def _end_older(self, task_id: str) -> None:
        """Ends the placements of a task that the log has replaced by a newer one."""
        for key in [key for key in self._placements if key[0] == task_id]:
            self._end_early(self._placements[key], AttemptEnd.LOST)

    def _end_early(self, placement: SimulatedPlacement, end: AttemptEnd, cause: str = "") -> None:
        if placement.ending is None:
            placement.cause = cause or placement.cause
        if placement.begun:
            self._finish(placement, placement.ending or end)
        else:
            del self._placements[placement.key]
            self._report_end(placement, end)

    def _answer_again(self, command: RunTask | StopTask | RecallTask, cause: str) -> None:
        answer = self._fencing.tasks[command.task_id].answer
        if answer is not None:
            self._reporter.event(simulated_placement(command, (), {}, False, cause), answer)

    def _is_busy(self, placement: SimulatedPlacement) -> bool:
        if self._worker.shared.gpus.is_taken(placement.uuids(self._worker.uuids), self._worker.worker_id):
            return True
        return any(device_id in self._device_users for device_id in placement.device_ids)

    def _advance(self) -> None:
        """Starts the placements that waited for devices which are free now."""
        for placement in list(self._placements.values()):
            if not placement.begun and not self._is_busy(placement):
                placement.begun = True
                self._worker.disk.begun[placement.key] += 1
                self._device_users |= dict.fromkeys(placement.device_ids, placement.key)
                self._worker.shared.gpus.take(placement.uuids(self._worker.uuids), self._worker.worker_id)
                self._fencing.record_begun(placement.key[0], placement.key[1:])
                self._begin(placement)

    def _begin(self, placement: SimulatedPlacement) -> None:
        accepted = TaskAccepted(**placement.token, incarnation=self._id)
        self._fencing.record_answer(placement.key[0], placement.key[1:], accepted)
        self._reporter.event(placement, accepted)
        for status in PHASES:
            changed = TaskStatusChanged(**placement.token, incarnation=self._id, status=status)
            self._reporter.event(placement, changed)
        self._run_task(placement)

    def _run_task(self, placement: SimulatedPlacement) -> None:
        task = self._tasks[placement.key] = task_class(placement)(
            placement,
            self._reporter,
            self._worker.workload,
            self._rng,
            self._finish,
            self._worker.shared,
        )
        task.begin()

    def _finish(self, placement: SimulatedPlacement, end: AttemptEnd) -> None:
        """Frees its devices for the next placement, and reports the end at once or a little later."""
        placement.over = True
        number = self._reporter.numbers.draw()
        task = self._tasks.pop(placement.key)
        task.cancel()
        del self._placements[placement.key]
        for device_id in placement.device_ids:
            self._device_users.pop(device_id, None)
        self._worker.shared.gpus.release(placement.uuids(self._worker.uuids), self._worker.worker_id)
        self._fencing.record_finished(placement.key[0], placement.key[1:])
        if task.uploads is not None:
            ending = asyncio.get_running_loop().create_task(
                self._end_saved(task.uploads, placement, end, number)
            )
            self._saving.add(ending)
            ending.add_done_callback(self._saving.discard)
        elif (late := self._rng.random()) < LATE_ENDS:
            late_s = late / LATE_ENDS * LATE_END_S
            asyncio.get_running_loop().call_later(late_s, self._report_end, placement, end, number)
        else:
            self._report_end(placement, end, number)
        self._advance()

    async def _end_saved(
        self, uploads: SimulatedUploads, placement: SimulatedPlacement, end: AttemptEnd, number: int
    ) -> None:
        """Reports the end once the store has what the task has saved: without that none has finished."""
        if not await uploads.finish() and end is AttemptEnd.FINISHED:
            end = AttemptEnd.FAILED
        self._report_end(placement, end, number)

    def _report_end(self, placement: SimulatedPlacement, end: AttemptEnd, number: int | None = None) -> None:
        self._fencing.record_finished(placement.key[0], placement.key[1:])
        ended = placement.ended(end)
        self._fencing.record_answer(placement.key[0], placement.key[1:], ended)
        self._reporter.event(placement, ended, placement, number)
