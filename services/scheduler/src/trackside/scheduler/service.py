"""The scheduler as the reactor drives it: folds all streams and the fleet, places tasks, tells devices."""

from collections.abc import Iterable

import structlog

from trackside.contracts.fleet import RunningPlacement, SchedulerHeartbeat, WorkerHeartbeat
from trackside.contracts.message import Event, Record
from trackside.contracts.searches import TrialSuggested
from trackside.contracts.tasks import AttemptEnded, MetricReported, TaskAssigned, TaskRefused, TaskReturned
from trackside.domain import fleet
from trackside.domain.fleet import Worker
from trackside.domain.outcome import Outcome
from trackside.domain.stream import shrink
from trackside.domain.streams import Streams
from trackside.domain.task import Task, TaskState
from trackside.domain.task_events import task_of
from trackside.eventlog.clock import now_ms
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Entry
from trackside.eventlog.reactor import Decision, Facts
from trackside.eventlog.service_context import ServiceContext
from trackside.scheduler import decide
from trackside.scheduler.actions import Assign, Preempt
from trackside.scheduler.cluster_state import ClusterState
from trackside.scheduler.device_commands import (
    CommandKey,
    DeviceMessage,
    PendingCommand,
    commands_for_orphans,
    pending_commands,
)
from trackside.scheduler.estimates import Peaks
from trackside.scheduler.lease import Leases
from trackside.scheduler.planner import Planner
from trackside.scheduler.requirements import requirements_of
from trackside.scheduler.settings import SchedulerSettings
from trackside.telemetry import context
from trackside.telemetry.metrics import counter, gauge, histogram

log = structlog.get_logger("trackside.scheduler")

AVOID_MS = 1_000
"""How long a device that refused a task is left alone; twice as long for each refusal of the attempt."""
LONGEST_AVOID_MS = 30_000
EARLY_MS = 250
"""How long a task is left alone whose placement the log found too early: its clock is behind ours."""
MEASURE_MS = 1_000


class Scheduler:
    """Holds what was folded, what is owed to devices, and when it was last sent."""

    def __init__(
        self,
        service: ServiceContext,
        streams: Streams,
        settings: SchedulerSettings,
        peaks: Peaks | None = None,
    ) -> None:
        self._log = service.log
        self._topics = service.topics
        self._writer = service.writer
        self._streams = streams
        self._background = service.background
        self._settings = settings
        self._fleet = fleet.Fleet()
        self._cluster = ClusterState(settings.policy)
        self._planner = Planner(self._cluster)
        self._leases = Leases(int(settings.heartbeat_s * 1000))
        self._sent: dict[CommandKey, int] = {}
        self._orphan_commands: list[PendingCommand] = []
        self._over: set[str] = set()
        self._there: frozenset[tuple[str, str]] = frozenset()
        self._unready: set[str] = set()
        self._aged = True
        self._beat_due_ms = 0
        self._measure_due_ms = 0
        self._resend_due_ms: int | None = None
        for stream in streams.by_id.values():
            for task in stream.tasks.values():
                self._cluster.update(stream.stream_id, task)
        if peaks is not None:  # among them are those of the tasks above
            self._cluster.peaks = peaks

    def fold(self, record: Record) -> None:
        """Folds a record of the events, the fleet or the heartbeats topic."""
        if record.topic == self._topics.heartbeats.name:
            self._heard(record)
        elif record.topic == self._topics.fleet.name:
            if fleet.evolve(self._fleet, record) is not Outcome.APPLIED:
                return
            self._aged = True
            current = {worker.incarnation for worker in self._fleet.workers.values()}
            self._there = frozenset(
                (worker.worker_id, worker.incarnation)
                for worker in self._fleet.workers.values()
                if not worker.gone
            )
            self._leases.keep(current)
            self._over &= current
            self._follow_fleet()
        else:
            self._fold_event(record)

    def reconsider(self, stream: str) -> None:
        """Says again what may not have reached the log; all else is looked for each time."""
        self._cluster.report_again()

    def arrive(self, entry: Entry) -> None:
        """Reads no topic that others write."""

    def decide(self, facts: Facts) -> Iterable[Decision]:
        """Gives lost workers, attempts that are over, limits that are reached, and actions on tasks."""
        if self._aged and not facts.busy(self._topics.fleet.name, ""):
            self._aged = False
            for lost in decide.lost_workers(self._fleet, self._leases, int(self._settings.lease_s * 1000)):
                counter("trackside.scheduler.lost.workers").inc()
                log.warning("worker lost", worker=lost.worker_id, silent_ms=lost.silent_ms)
                self._aged = True  # until it is in the log
                yield Decision(self._topics.fleet.name, lost.worker_id, (lost,), "lose worker")
        yield from self._ends(facts)
        if self._unready and self._unready != self._not_ready():
            self._follow_fleet()
        for action in self._planner.plan(facts.now_ms, lambda stream: self._is_busy(facts, stream)):
            event = decide.event_of(action, self._fleet.position)
            if isinstance(action, Assign):
                counter("trackside.scheduler.assigned.tasks").inc()
                waited_s = max(0, facts.now_ms - action.task.queued_at[0]) / 1000
                histogram("trackside.scheduler.queue_wait.seconds").observe(waited_s)
            elif isinstance(action, Preempt):
                counter("trackside.scheduler.returned.tasks").labels("preempted").inc()
            yield self._decision(
                action.task, event, "assign task" if isinstance(action, Assign) else "move task"
            )

    def act(self, facts: Facts) -> None:
        """Sends what devices are owed, again after a while, and the own heartbeat when it is due."""
        if facts.now_ms >= self._beat_due_ms:
            self._beat_due_ms = facts.now_ms + int(self._settings.heartbeat_s * 1000)
            self._background.spawn(self._beat())
        resend_ms = int(self._settings.resend_s * 1000)
        still: dict[CommandKey, int] = {}
        expected: list[int] = []
        for due in (*pending_commands(self._cluster, self._fleet), *self._orphan_commands):
            sent_ms = self._sent.get(due.key)
            if sent_ms is None or (facts.now_ms - sent_ms >= resend_ms and not due.held):
                self._background.spawn(self._send(due, due.make()))
                sent_ms = facts.now_ms
            still[due.key] = facts.now_ms if due.held else sent_ms
            if not due.held:
                expected.append(sent_ms)
        self._orphan_commands.clear()
        self._sent = still
        self._resend_due_ms = min(expected) + resend_ms if expected else None
        if facts.now_ms >= self._measure_due_ms:
            self._measure_due_ms = facts.now_ms + MEASURE_MS
            self._measure()

    def next_due_ms(self) -> int | None:
        """Gives when the next heartbeat, repeated command, time limit or look at waiting tasks is due."""
        moments = (
            self._beat_due_ms,
            self._resend_due_ms,
            self._cluster.limits.next_ms(),
            self._planner.next_due_ms(),
        )
        return min(moment for moment in moments if moment is not None)

    def _ends(self, facts: Facts) -> Iterable[Decision]:
        for task, ended in decide.lost_attempts(
            self._cluster, self._fleet, self._streams.positions, self._there
        ):
            if not self._is_busy(facts, self._cluster.stream_of[task.task_id]):
                counter("trackside.scheduler.returned.tasks").labels("lost").inc()
                yield self._decision(task, ended, "lose attempt")
        for task in self._cluster.given_up.values():
            if not self._is_busy(facts, self._cluster.stream_of[task.task_id]):
                yield self._decision(task, decide.given_up(task), "give up task")
        for task, reached in decide.limits_reached(
            self._cluster, facts.now_ms, lambda stream: self._is_busy(facts, stream)
        ):
            yield self._decision(task, reached, "limit task")

    def _is_busy(self, facts: Facts, stream: str) -> bool:
        return facts.busy(self._topics.events.name, stream)

    def _not_ready(self) -> set[str]:
        """Gives the incarnations whose worker said more before it joined than was folded."""
        positions = self._streams.positions
        return {
            worker.incarnation
            for worker in self._fleet.workers.values()
            if any(positions.get(partition, 0) < offset for partition, offset in worker.after.items())
        }

    def _follow_fleet(self) -> None:
        """Brings the hosts up to the fleet: one that joined anew gets tasks once its past is folded."""
        self._unready = self._not_ready()
        closed = self._over | self._unready

        def is_open(worker: Worker) -> bool:
            return not worker.gone and worker.incarnation not in closed

        self._cluster.hosts.follow(self._fleet, is_open, list(self._cluster.bookings.values()))

    def _fold_event(self, record: Record) -> None:
        stream, outcome = self._streams.fold(record)
        message = record.message
        if type(message) is AttemptEnded and message.recovered and record.envelope.role == "worker":
            # A later incarnation says so, and will join next: nothing more for the one that is no more.
            self._over.add(message.incarnation)
            self._follow_fleet()
        if outcome is not Outcome.APPLIED:
            counter("trackside.eventlog.ignored.events").labels(outcome.value).inc()
            if type(message) is TaskAssigned and record.envelope.source == self._writer.source:
                self._come_back_later(stream.tasks.get(message.task_id))
            return
        if type(message) is MetricReported:
            return
        goes_on = type(message) is TrialSuggested
        task = stream.tasks.get(message.within if goes_on else task_of(message))  # type: ignore[attr-defined]
        if type(message) is TaskRefused and task is not None:
            counter("trackside.scheduler.returned.tasks").labels("refused").inc()
            self._leave_alone(message, task)
        elif type(message) is TaskReturned:
            counter("trackside.scheduler.returned.tasks").labels("recalled").inc()
        if task is not None:
            self._cluster.update(stream.stream_id, task)
        if stream.closed:
            shrink(stream)

    def _leave_alone(self, refused: TaskRefused, task: Task) -> None:
        """Keeps a device that refused a task from others, or from such tasks if they only don't fit."""
        past = task.attempt.past[-1]
        count = sum(other.end == "refused" for other in task.attempt.past)
        until_ms = now_ms() + min(AVOID_MS * 2 ** (count - 1), LONGEST_AVOID_MS)
        requirements = requirements_of(task) if refused.code == "out_of_memory" else None
        if requirements is None:
            until_ms = now_ms() + AVOID_MS
        self._cluster.hosts.avoid(past.worker_id, past.device_ids, requirements, until_ms)

    def _come_back_later(self, task: Task | None) -> None:
        if task is not None and task.state is TaskState.QUEUED:
            self._cluster.later.set(task.task_id, now_ms() + EARLY_MS)

    def _heard(self, record: Record) -> None:
        message = record.message
        if isinstance(message, SchedulerHeartbeat):
            if message.instance == self._writer.instance:
                self._leases.own(record.append_time_ms)
                self._aged = True
        elif isinstance(message, WorkerHeartbeat):
            self._leases.heard(message.incarnation)
            self._cluster.hosts.heard(message)
            self._orphan_commands += commands_for_orphans(
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

    def _decision(self, task: Task, event: Event, what: str) -> Decision:
        stream = self._cluster.stream_of[task.task_id]
        return Decision(self._topics.events.name, stream, (event,), what, "", task.traceparent)

    async def _send(self, due: PendingCommand, command: DeviceMessage) -> None:
        topic = self._topics.device(due.worker_id, due.device_id)
        with context.start("command device", due.traceparent or None) as traceparent:
            record = self._writer.single(command.task_id, command, traceparent=traceparent)
        try:
            await self._log.publish(topic.name, 0, record)
        except TransientError as error:
            self._sent.pop(due.key, None)
            log.warning("a device command is sent again later", task=command.task_id, reason=str(error))

    async def _beat(self) -> None:
        beat = SchedulerHeartbeat(instance=self._writer.instance)
        try:
            record = self._writer.single(self._writer.instance, beat)
            await self._log.publish(self._topics.heartbeats.name, 0, record)
        except TransientError as error:
            log.warning("no heartbeat: the log does not answer", reason=str(error))

    def _measure(self) -> None:
        devices = sum(len(host.slots) for host in self._cluster.hosts.open)
        busy = self._cluster.hosts.busy_devices
        gauge("trackside.scheduler.queue.tasks").set(len(self._cluster.waiting))
        gauge("trackside.scheduler.busy.devices").set(busy)
        gauge("trackside.scheduler.free.devices").set(max(0, devices - busy))
        self._streams.spill_idle()
        gauge("trackside.eventlog.open.streams").set(len(self._streams.by_id))
