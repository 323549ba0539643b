"""The scheduler as the reactor drives it: folds all streams and the fleet, places tasks, tells devices."""

from collections.abc import Iterable

import structlog

from trackside.contracts.fleet import RunningPlacement, SchedulerHeartbeat, WorkerHeartbeat
from trackside.contracts.message import Record
from trackside.contracts.tasks import AttemptEnded, TaskAssigned, TaskRefused
from trackside.contracts.topics import Topics
from trackside.domain import fleet
from trackside.domain.outcome import Outcome
from trackside.domain.stream import shrink
from trackside.domain.streams import Streams
from trackside.eventlog.author import Author
from trackside.eventlog.background import Background
from trackside.eventlog.clock import now_ms
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Entry, Log
from trackside.eventlog.reactor import Decision, Facts
from trackside.scheduler import decide
from trackside.scheduler.board import Board, DeviceKey
from trackside.scheduler.decide import DeviceCommand
from trackside.scheduler.lease import Leases
from trackside.scheduler.placement import place
from trackside.scheduler.settings import SchedulerSettings
from trackside.telemetry import context
from trackside.telemetry.metrics import counter, gauge, histogram

log = structlog.get_logger("trackside.scheduler")

AVOID_MS = 1_000
"""How long a device that refused a task is left alone."""


class Scheduler:
    """Holds what was folded, what is owed to devices, and when it was last sent."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
        author: Author,
        streams: Streams,
        background: Background,
        settings: SchedulerSettings,
    ) -> None:
        self._log = log
        self._topics = topics
        self._author = author
        self._streams = streams
        self._background = background
        self._settings = settings
        self._fleet = fleet.Fleet()
        self._board = Board()
        self._leases = Leases(int(settings.heartbeat_s * 1000))
        self._avoid: dict[DeviceKey, int] = {}
        self._sent: dict[tuple[str, str, int, int], int] = {}
        self._strays: list[DeviceCommand] = []
        self._over: set[str] = set()
        self._beat_due_ms = 0
        self._resend_due_ms: int | None = None
        for stream in streams.by_id.values():
            for task in stream.tasks.values():
                self._board.update(stream.stream_id, task)

    def fold(self, record: Record) -> None:
        """Folds a record of the events, the fleet or the heartbeats topic."""
        if record.topic == self._topics.heartbeats.name:
            self._heard(record)
        elif record.topic == self._topics.fleet.name:
            fleet.evolve(self._fleet, record)
            current = {worker.incarnation for worker in self._fleet.workers.values()}
            self._leases.keep(current)
            self._over &= current
        else:
            self._fold_event(record)

    def reconsider(self, stream: str) -> None:
        """Needs no memory of streams: everything that is lacking is looked for each time."""

    def arrive(self, entry: Entry) -> None:
        """Reads no topic that others write."""

    def decide(self, facts: Facts) -> Iterable[Decision]:
        """Gives lost workers, lost attempts and new placements."""
        if not self._is_busy_fleet(facts):
            for lost in decide.lost_workers(self._fleet, self._leases, int(self._settings.lease_s * 1000)):
                counter("trackside.scheduler.lost.workers").inc()
                log.warning("worker lost", worker=lost.worker_id, silent_ms=lost.silent_ms)
                yield Decision(self._topics.fleet.name, lost.worker_id, (lost,), "lose worker")
        for task, ended in decide.lost_attempts(self._board, self._fleet, self._streams.positions):
            stream = self._board.stream_of[task.task_id]
            if not facts.busy(self._topics.events.name, stream):
                counter("trackside.scheduler.returned.tasks").labels("lost").inc()
                yield self._decision(stream, ended, "lose attempt", task.traceparent)
        yield from self._placements(facts)

    def act(self, facts: Facts) -> None:
        """Sends what devices are owed, again after a while, and the own heartbeat when it is due."""
        if facts.now_ms >= self._beat_due_ms:
            self._beat_due_ms = facts.now_ms + int(self._settings.heartbeat_s * 1000)
            self._background.spawn(self._beat())
        resend_ms = int(self._settings.resend_s * 1000)
        still: dict[tuple[str, str, int, int], int] = {}
        for due in (*decide.owed(self._board, self._fleet), *self._strays):
            sent_ms = self._sent.get(due.key)
            if sent_ms is None or facts.now_ms - sent_ms >= resend_ms:
                self._background.spawn(self._send(due))
                sent_ms = facts.now_ms
            still[due.key] = sent_ms
        self._strays.clear()
        self._sent = still
        self._resend_due_ms = min(still.values()) + resend_ms if still else None
        self._measure()

    def next_due_ms(self) -> int | None:
        """Gives when the next heartbeat, repeated command or avoided device is due."""
        moments = [self._beat_due_ms, *self._avoid.values()]
        if self._resend_due_ms is not None:
            moments.append(self._resend_due_ms)
        return min(moments)

    def _fold_event(self, record: Record) -> None:
        stream, outcome = self._streams.fold(record)
        message = record.message
        if isinstance(message, AttemptEnded) and message.recovered and record.envelope.role == "worker":
            # A later incarnation says so, and will join next: nothing more for the one that is no more.
            self._over.add(message.incarnation)
        if outcome is not Outcome.APPLIED:
            counter("trackside.eventlog.ignored.events").labels(outcome.value).inc()
            return
        task = stream.tasks.get(getattr(message, "task_id", ""))
        if isinstance(message, TaskRefused):
            counter("trackside.scheduler.returned.tasks").labels("refused").inc()
            self._leave_alone(message, record)
        if task is not None:
            self._board.update(stream.stream_id, task)
        if stream.closed:
            shrink(stream)

    def _leave_alone(self, refused: TaskRefused, record: Record) -> None:
        attempt = self._board.placed.get(refused.task_id)
        if attempt is not None:
            for device_id in attempt.attempt.device_ids:
                self._avoid[attempt.attempt.worker_id, device_id] = now_ms() + AVOID_MS

    def _heard(self, record: Record) -> None:
        message = record.message
        if isinstance(message, SchedulerHeartbeat):
            if message.instance == self._author.instance:
                self._leases.own(record.append_time_ms)
        elif isinstance(message, WorkerHeartbeat):
            self._leases.heard(message.incarnation)
            self._strays += decide.strays(
                message.running, message.worker_id, message.incarnation, self._is_current
            )

    def _is_current(self, running: RunningPlacement) -> bool:
        """Says whether the log may still have this placement where its worker runs it.

        Heartbeats may be read before the events they rest on: what isn't folded yet is no stray.
        """
        stream = self._streams.by_id.get(running.stream)
        task = None if stream is None else stream.tasks.get(running.task_id)
        if stream is None or task is None:
            return stream is None or not stream.closed
        folded = (task.attempt.number, task.attempt.placement)
        runs = (running.attempt, running.placement)
        return folded < runs or (folded == runs and task.place is not None)

    def _is_busy_fleet(self, facts: Facts) -> bool:
        return facts.busy(self._topics.fleet.name, "")

    def _placements(self, facts: Facts) -> Iterable[Decision]:
        self._avoid = {device: until for device, until in self._avoid.items() if until > facts.now_ms}
        if not self._board.queue:
            return
        events, workers = self._topics.events.name, self._fleet.workers
        taken = self._board.taken() | self._avoid.keys()
        for decision in facts.in_flight:
            for message in decision.messages:
                if isinstance(message, TaskAssigned):
                    taken |= {(message.worker_id, device_id) for device_id in message.device_ids}
        waiting = (
            task
            for task in self._board.waiting()
            if not facts.busy(events, self._board.stream_of[task.task_id])
        )
        there = {name: worker for name, worker in workers.items() if worker.incarnation not in self._over}
        for placement in place(waiting, there, taken):
            task = placement.task
            counter("trackside.scheduler.assigned.tasks").inc()
            histogram("trackside.scheduler.queue_wait.seconds").observe(
                max(0, facts.now_ms - task.queued_at[0]) / 1000
            )
            assigned = decide.assigned(placement, self._fleet.position)
            yield self._decision(
                self._board.stream_of[task.task_id], assigned, "assign task", task.traceparent
            )

    def _decision(
        self, stream: str, event: AttemptEnded | TaskAssigned, what: str, traceparent: str
    ) -> Decision:
        return Decision(self._topics.events.name, stream, (event,), what, "", traceparent)

    async def _send(self, due: DeviceCommand) -> None:
        topic = self._topics.device(due.worker_id, due.device_id)
        with context.start("command device", due.traceparent or None) as traceparent:
            record = self._author.single(due.command.task_id, due.command, traceparent=traceparent)
        try:
            await self._log.publish(topic.name, 0, record)
        except TransientError as error:
            log.warning("a device command is sent again later", task=due.command.task_id, reason=str(error))

    async def _beat(self) -> None:
        beat = SchedulerHeartbeat(instance=self._author.instance)
        try:
            record = self._author.single(self._author.instance, beat)
            await self._log.publish(self._topics.heartbeats.name, 0, record)
        except TransientError as error:
            log.warning("no heartbeat: the log does not answer", reason=str(error))

    def _measure(self) -> None:
        taken = self._board.taken()
        devices = sum(len(worker.devices) for worker in self._fleet.workers.values() if not worker.gone)
        gauge("trackside.scheduler.queue.tasks").set(len(self._board.queue))
        gauge("trackside.scheduler.busy.devices").set(len(taken))
        gauge("trackside.scheduler.free.devices").set(max(0, devices - len(taken)))
        gauge("trackside.eventlog.open.streams").set(len(self._streams.by_id))
