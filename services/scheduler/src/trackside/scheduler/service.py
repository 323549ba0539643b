"""The scheduler as the reactor calls it: folds streams and fleet, places tasks, sends device commands."""

from collections.abc import Callable, Iterable

import structlog

from trackside.contracts.envelope.message import Record
from trackside.contracts.fleet.fleet import (
    SchedulerHeartbeat,
    WorkerHeartbeat,
    WorkerHeartbeatDigest,
)
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnded,
    MetricReported,
    TaskAssigned,
    TaskRefused,
)
from trackside.domain.fleet import fleet
from trackside.domain.fleet.fleet import Worker
from trackside.domain.fleet.heartbeats import HeartbeatViews
from trackside.domain.folding.fold import DRAINS, UNPARKING
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal, cause_of
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState
from trackside.domain.tasks.task_events import task_of
from trackside.domain.tasks.task_instructions import is_ready, is_unacknowledged
from trackside.eventlog.clock import now_ms
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Entry
from trackside.eventlog.reactor.decider import Decision, DecisionContext
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.released_streams import follow_released
from trackside.projections.tables.owners import OWNERS, SCHEDULER
from trackside.projections.writing.row_changes import RowChanges
from trackside.scheduler import decide, decision_counts
from trackside.scheduler.decision_descriptions import describe
from trackside.scheduler.hosts.estimates import MemoryPeaks
from trackside.scheduler.hosts.hosts import avoid_refusing_devices
from trackside.scheduler.lease import Leases
from trackside.scheduler.planning.cluster_state import ClusterState
from trackside.scheduler.planning.parked_tasks import ParkedTasks
from trackside.scheduler.planning.planner import Planner
from trackside.scheduler.planning.wait_reasons import fleet_states, wait_reasons
from trackside.scheduler.sending.command_span import CommandSpan
from trackside.scheduler.sending.device_commands import (
    CommandKey,
    DeviceMessage,
    PendingCommand,
    pending_commands,
    with_key,
)
from trackside.scheduler.sending.instruction_times import InstructionTimes
from trackside.scheduler.sending.orphans import OrphanWatch
from trackside.scheduler.settings import SchedulerSettings
from trackside.telemetry.disk_space import DiskWatch
from trackside.telemetry.metrics import gauge, histogram

log = structlog.get_logger("trackside.scheduler")

EARLY_RETRY_MS = 250
"""After how long a task is placed again whose placement the log found too early: its clock may be slower."""
GAUGE_INTERVAL_MS = 1_000


class Scheduler:
    """Holds the folded state, and when each unanswered device command was last sent."""

    def __init__(
        self,
        service: ServiceContext,
        streams: Streams,
        settings: SchedulerSettings,
        peaks: MemoryPeaks | None = None,
        changes: RowChanges | None = None,
    ) -> None:
        self._changes = changes or RowChanges(OWNERS[SCHEDULER], service.topics)
        self._log = service.log
        self._topics = service.topics
        self._writer = service.writer
        self._streams = streams
        self._background = service.background
        self._settings = settings
        self._lease_ms = int(settings.lease_s * 1000)
        self._fleet = fleet.Fleet()
        service.spans.describe = lambda stream, proposal: describe(streams.find(stream), proposal)
        self._cluster = ClusterState(settings.policy)
        self._planner = Planner(self._cluster)
        self._leases = Leases(int(settings.heartbeat_s * 1000))
        self._heartbeats = HeartbeatViews()
        self._sent: dict[CommandKey, int] = {}
        self._instruction_times = InstructionTimes()
        self._orphan_commands: list[PendingCommand] = []
        self._orphans = OrphanWatch(streams)
        self._ended_incarnations: set[str] = set()
        self._full_incarnations: set[str] = set()
        self._health = service.health
        self._disks = DiskWatch(service.settings.watched_folders, service.settings.disk_limits)
        self._live_workers: frozenset[tuple[str, str]] = frozenset()
        self._lagging: set[str] = set()
        self._lease_check_due = True
        self._heartbeat_due_ms = 0
        self._gauges_due_ms = 0
        self._resend_due_ms: int | None = None
        self._drained = {
            name: frozenset(each.drained) for name, each in streams.by_id.items() if each.drained
        }
        for stream in streams.by_id.values():
            for task in stream.tasks.values():
                self._cluster.update(stream.stream_id, task)
                # The join of the newest, which has adopted the attempt, may not be folded before hosts open.
                self._ended_incarnations.update(task.attempt.incarnations[:-1])
        self._parked = ParkedTasks(self._cluster, streams)
        if peaks is not None:  # these include the peaks of the tasks above
            self._cluster.peaks = peaks

    def fold(self, record: Record) -> Outcome:
        """Folds a record of the events, the fleet or the heartbeats topic."""
        if record.topic == self._topics.heartbeats.name:
            self._fold_heartbeat(record)
            return Outcome.APPLIED
        if record.topic == self._topics.fleet.name:
            return self._fold_fleet(record)
        return self._fold_event(record)

    def count(self, record: Record) -> None:
        """Counts an event of a decision of this process that was just folded as applied."""
        stream = self._streams.find(record.envelope.stream)
        decision_counts.count(record, None if stream is None else stream.tasks)

    def reconsider(self, stream: str) -> None:
        """Reports unschedulable tasks again; everything else is decided from the state each time."""
        self._cluster.report_again()

    def on_external_entry(self, entry: Entry) -> None:
        """Does nothing: the scheduler reads no foreign topic."""

    def decide(self, context: DecisionContext) -> Iterable[Decision]:
        """Returns lost workers, ended attempts, time limits that were reached, and actions on tasks."""
        if self._lease_check_due and not context.busy(self._topics.fleet.name, ""):
            self._lease_check_due = False
            for worker, lost in decide.lost_workers(self._fleet, self._leases, self._lease_ms):
                silent_ms = self._leases.silent_ms(worker.incarnation)
                log.warning("worker lost", worker=worker.worker_id, silent_ms=silent_ms)
                self._lease_check_due = True  # check again until it is in the log
                yield Decision(self._topics.fleet.name, worker.worker_id, lost)
        yield from self._attempt_events(context)
        if self._lagging and self._lagging != self._lagging_incarnations():
            self._sync_hosts()
        for action in self._planner.plan(context.now_ms, lambda stream: self._is_busy(context, stream)):
            yield self._decision(action.task, decide.proposal_of(action, self._fleet.position))

    def act(self, context: DecisionContext) -> None:
        """Sends unanswered device commands, again after `resend_s`, and the own heartbeat when it is due."""
        if context.now_ms >= self._heartbeat_due_ms:
            self._heartbeat_due_ms = context.now_ms + int(self._settings.heartbeat_s * 1000)
            self._background.spawn(self._send_heartbeat())
            self._check_disks()
        resend_ms = int(self._settings.resend_s * 1000)
        still_unanswered: dict[CommandKey, int] = {}
        expected: list[int] = []
        for pending in (*pending_commands(self._cluster, self._fleet), *self._orphan_commands):
            sent_ms = self._sent.get(pending.key)
            if sent_ms is None or (context.now_ms - sent_ms >= resend_ms and not pending.deferred):
                command = pending.build()
                key = self._streams.key_of(command.stream)
                self._background.spawn(self._send(pending, with_key(command, key)))
                sent_ms = context.now_ms
            still_unanswered[pending.key] = context.now_ms if pending.deferred else sent_ms
            if not pending.deferred:
                expected.append(sent_ms)
        self._orphan_commands.clear()
        self._changes.settle()
        self._sent = still_unanswered
        self._resend_due_ms = min(expected) + resend_ms if expected else None
        if context.now_ms >= self._gauges_due_ms:
            self._gauges_due_ms = context.now_ms + GAUGE_INTERVAL_MS
            self._set_gauges()

    def next_due_ms(self) -> int | None:
        """Returns when the next heartbeat, repeated command, time limit or scheduling pass is due."""
        moments = (
            self._heartbeat_due_ms,
            self._resend_due_ms,
            self._cluster.time_limits.next_ms(),
            self._planner.next_due_ms(),
        )
        return min(moment for moment in moments if moment is not None)

    def _attempt_events(self, context: DecisionContext) -> Iterable[Decision]:
        for task, ended in decide.lost_attempts(
            self._cluster, self._fleet, self._streams.positions, self._live_workers, self._is_silent
        ):
            if not self._is_busy(context, self._cluster.stream_of[task.task_id]):
                yield self._decision(task, ended)
        for task in self._cluster.given_up.values():
            if not self._is_busy(context, self._cluster.stream_of[task.task_id]):
                yield self._decision(task, decide.give_up(task))
        for task, reached in decide.limits_reached(
            self._cluster, context.now_ms, lambda stream: self._is_busy(context, stream)
        ):
            yield self._decision(task, reached)

    def _is_silent(self, incarnation: str, keep_ms: int) -> bool:
        return self._leases.silent_ms(incarnation) > max(self._lease_ms, keep_ms)

    def _is_busy(self, context: DecisionContext, stream: str) -> bool:
        return stream in self._parked.streams or context.busy(self._topics.events.name, stream)

    def _lagging_incarnations(self) -> set[str]:
        """Returns the incarnations whose earlier events are not all folded yet."""
        positions = self._streams.positions
        return {
            worker.incarnation
            for worker in self._fleet.workers.values()
            if any(positions.get(partition, 0) < offset for partition, offset in worker.after.items())
        }

    def _sync_hosts(self) -> None:
        """Updates the hosts: a worker gets tasks once its earlier events are folded, while there is room."""
        self._lagging = self._lagging_incarnations()
        closed = self._ended_incarnations | self._lagging | self._full_incarnations
        no_room = bool(self._disks.low)

        def is_open(worker: Worker) -> bool:
            return not (no_room or worker.gone or worker.incarnation in closed)

        bookings = list(self._cluster.bookings.values())
        self._cluster.hosts.sync_fleet(self._fleet, is_open, bookings, self._drained)

    def _check_disks(self) -> None:
        """Closes all hosts while a disk of the log or the read models is low: running tasks go on."""
        was_low = bool(self._disks.low)
        self._health.set_disk_low(self._disks.check())
        if was_low != bool(self._disks.low):
            self._sync_hosts()

    def _fold_fleet(self, record: Record) -> Outcome:
        outcome = fleet.evolve(self._fleet, record)
        self._changes.note_fleet(self._fleet, outcome, record)
        if outcome is not Outcome.APPLIED:
            return outcome
        self._lease_check_due = True
        current = {worker.incarnation for worker in self._fleet.workers.values()}
        self._live_workers = frozenset(
            (worker.worker_id, worker.incarnation)
            for worker in self._fleet.workers.values()
            if not worker.gone
        )
        self._leases.retain(current | {incarnation for _, incarnation in self._cluster.tasks_on})
        self._orphans.retain(current)

        def is_replaced(name: str) -> bool:  # if unknown, its join may not be folded yet
            return name not in current and self._fleet.knows(name)

        self._heartbeats.retain(lambda name: not is_replaced(name))
        self._ended_incarnations.difference_update([*filter(is_replaced, self._ended_incarnations)])
        self._full_incarnations.difference_update([*filter(is_replaced, self._full_incarnations)])
        self._sync_hosts()
        return outcome

    def _fold_event(self, record: Record) -> Outcome:
        stream, outcome = self._streams.fold(record)
        self._folded(stream, outcome, record)
        return outcome

    def _folded(self, stream: Stream, outcome: Outcome, record: Record) -> None:
        self._take_in(stream, outcome, record)
        self._changes.note(stream, outcome, record, self._streams.positions[record.partition] - 1)

    async def read_released(self, wake: Callable[[], None]) -> None:
        """Reads the streams again that were parked, as they go on, for as long as the service runs."""

        def go_on(stream: Stream) -> None:
            self._parked.update(stream)
            self._changes.on_change()
            wake()

        await follow_released(self._log, self._topics.events.name, self._streams, self._folded, go_on)

    def _take_in(self, stream: Stream, outcome: Outcome, record: Record) -> None:
        """Updates what is derived from the streams, after a record of one was folded."""
        message = record.message
        if type(message) is AttemptEnded and message.recovered and record.envelope.role == "worker":
            # A later incarnation wrote this, and joins next: the old one gets no more tasks.
            self._ended_incarnations.add(message.incarnation)
            self._sync_hosts()
        if type(message) in UNPARKING:
            self._parked.update(stream)
        elif outcome is Outcome.PARKED:
            self._parked.take_in(stream, task_of(message))
        elif outcome is Outcome.APPLIED:
            self._take_in_applied(stream, record)
        elif type(message) is TaskAssigned and record.envelope.source == self._writer.source:
            self._retry_later(stream.tasks.get(message.task_id))

    def _take_in_applied(self, stream: Stream, record: Record) -> None:
        message = record.message
        if type(message) is MetricReported:
            return
        if type(message) in DRAINS:
            self._drained[stream.stream_id] = frozenset(stream.drained)
            self._sync_hosts()
            return
        took_s = self._instruction_times.fold(record, self._sent)
        if took_s is not None:
            histogram("trackside.scheduler.instruction.seconds").observe(took_s)
        task = stream.tasks.get(task_of(message))
        if type(message) is TaskRefused and task is not None:
            avoid_refusing_devices(self._cluster.hosts, message, task, now_ms())
        if self._health.ready and not self._settings.standby:
            decision_counts.count_return(message)
        if type(message) is AttemptAdopted:
            self._take_in_adopted(message)
        if task is not None:
            if task.state is TaskState.ENDED or stream.released is None:
                self._cluster.update(stream.stream_id, task)
            if task.state is TaskState.ENDED:
                self._instruction_times.forget(task.task_id)

    def _take_in_adopted(self, event: AttemptAdopted) -> None:
        """Closes the earlier incarnations to new tasks, and has commands sent again, to the new one.

        To adopt is a sign of life: the lease of an incarnation that has not joined yet begins with it. An
        earlier incarnation whose join is not folded yet is closed, too.
        """
        self._leases.renew(event.incarnation)
        placement = (event.task_id, event.attempt, event.placement)
        self._sent = {key: sent_ms for key, sent_ms in self._sent.items() if key[1:] != placement}
        worker = self._fleet.workers.get(event.worker_id)
        current = "" if worker is None else worker.incarnation
        self._ended_incarnations.update(
            name for name in event.earlier if name == current or not self._fleet.knows(name)
        )
        self._sync_hosts()

    def _retry_later(self, task: Task | None) -> None:
        if task is not None and task.state is TaskState.QUEUED:
            # Plans are made by the latest time that this clock has shown, also once it was set back.
            latest_ms = max(now_ms(), self._cluster.now_ms)
            self._cluster.backoff_timers.set(task.task_id, latest_ms + EARLY_RETRY_MS)

    def _fold_heartbeat(self, record: Record) -> None:
        message = record.message
        if isinstance(message, SchedulerHeartbeat):
            if message.instance == self._writer.instance:
                self._leases.record_own_heartbeat(record.append_time_ms)
                self._lease_check_due = True
        elif isinstance(message, WorkerHeartbeat | WorkerHeartbeatDigest):
            self._leases.renew(message.incarnation)
            if (heartbeat := self._heartbeats.read(message)) is not None:
                self._apply_heartbeat(heartbeat)

    def _apply_heartbeat(self, heartbeat: WorkerHeartbeat) -> None:
        self._cluster.hosts.apply_heartbeat(heartbeat)
        if bool(heartbeat.disk_low) != (heartbeat.incarnation in self._full_incarnations):
            self._full_incarnations ^= {heartbeat.incarnation}
            self._sync_hosts()
        self._orphan_commands += self._orphans.commands(heartbeat)

    def _decision(self, task: Task, proposal: Proposal) -> Decision:
        stream = self._cluster.stream_of[task.task_id]
        return Decision(self._topics.events.name, stream, proposal, self._streams.key_of(stream))

    async def _send(self, pending: PendingCommand, command: DeviceMessage) -> None:
        topic = self._topics.device(pending.worker_id, pending.device_id)
        cause = cause_of(command.stream, pending.follows)
        span = CommandSpan(pending.traceparent, command, pending.worker_id, pending.device_id, topic.name)
        record = self._writer.single(
            command.task_id, command, cause=cause, traceparent=span.traceparent, message_id=span.message_id
        )
        try:
            appended = await self._log.publish(topic.name, 0, record)
        except TransientError as error:
            self._sent.pop(pending.key, None)
            span.end(None, error)
            log.warning(
                "a device command could not be sent, trying again", task=command.task_id, reason=str(error)
            )
        else:
            span.end(appended.offset)

    async def _send_heartbeat(self) -> None:
        heartbeat = SchedulerHeartbeat(instance=self._writer.instance)
        try:
            record = self._writer.single(self._writer.instance, heartbeat)
            await self._log.publish(self._topics.heartbeats.name, 0, record)
        except TransientError as error:
            log.warning("no heartbeat sent: the log does not answer", reason=str(error))

    def _set_gauges(self) -> None:
        for reason, count in wait_reasons(self._cluster, bool(self._disks.low)).items():
            gauge("trackside.scheduler.queue.tasks").labels(reason).set(count)
        for state, count in fleet_states(self._fleet).items():
            gauge("trackside.scheduler.fleet.workers").labels(state).set(count)
        gauge("trackside.scheduler.busy.devices").set(self._cluster.hosts.busy_devices)
        gauge("trackside.scheduler.free.devices").set(self._cluster.hosts.free_devices)
        ready = sum(map(is_ready, self._cluster.placed.values()))
        gauge("trackside.scheduler.ready_services.tasks").set(ready)
        unacknowledged = sum(map(is_unacknowledged, self._cluster.unanswered.values()))
        gauge("trackside.scheduler.unacknowledged.instructions").set(unacknowledged)
        self._streams.spill_idle()
        gauge("trackside.eventlog.open.streams").set(len(self._streams.by_id))
