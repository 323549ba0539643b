"""One incarnation of the worker: executes device commands, sends heartbeats, notices its own loss."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping

import structlog

from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Envelope, Message
from trackside.contracts.fleet.fleet import (
    CatalogueChanged,
    DeviceUnhealthy,
    WorkerHeartbeat,
    WorkerHeartbeatDigest,
    WorkerJoined,
    WorkerLeft,
    WorkerLost,
)
from trackside.contracts.streams.keys import KEYS_STREAM
from trackside.contracts.tasks.device_commands import (
    GiveInstruction,
    NextParameters,
    RecallTask,
    RunTask,
    StopTask,
)
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.contracts.wire.codec import UndecodableError
from trackside.domain.fleet.fleet import Fleet, evolve
from trackside.domain.fleet.heartbeats import HeartbeatDigester
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import cause_of
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import OffsetGoneError, TransientError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.telemetry import metrics
from trackside.worker.catalogue.built_in import BUILT_IN, BUILT_IN_SERVICES
from trackside.worker.catalogue.catalogue_watch import CatalogueChange, known_types
from trackside.worker.catalogue.task_catalogue import TaskCatalogue
from trackside.worker.placements.controller import PlacementController
from trackside.worker.placements.fencing import CommandAction, FencingTable, Refusal
from trackside.worker.placements.local_placement import GiveBack, journal_entry_of, silence_allowed_s
from trackside.worker.reporting.reporter import Publisher, Reporter

log = structlog.get_logger("trackside.worker")

READ_S = 1.0
LEASE_CHECK_S, LOOK_FOR_EXCLUSIVE_S = 0.1, 0.5


class Incarnation:
    """A worker between its join and its loss; `lost` is set when WorkerLost for it is in the log.

    `joined_at` is the offset of its WorkerJoined, -1 until that is in the log. `credentials` are the names of
    those that its host has.
    """

    def __init__(
        self,
        fencing: FencingTable,
        placements: PlacementController,
        catalogue: TaskCatalogue,
        publisher: Publisher,
        credentials: Collection[str] = (),
    ) -> None:
        self.id = fencing.incarnation
        self.lost = asyncio.Event()
        self.joined_at = -1
        self.placements = placements
        self._fencing = fencing
        self._catalogue = catalogue
        self._publisher = publisher
        self.credentials = frozenset(credentials)
        self._membership = OwnMembership(publisher.writer.instance)
        self._contact_s = monotonic_s()

    async def execute_commands(self, log_: Log, starts: Mapping[TopicPartition, int]) -> None:
        """Executes the commands of the device topics until it is cancelled."""
        reader = log_.reader(starts)
        try:
            while True:
                try:
                    entries = await reader.read(READ_S)
                except OffsetGoneError:  # commands that old were for another incarnation
                    reader.assign({place: (await log_.beginnings(place[0]))[place[1]] for place in starts})
                    continue
                except TransientError as error:
                    log.info("device topics can't be read", reason=str(error))
                    await asyncio.sleep(READ_S)
                    continue
                for entry in entries:
                    self._execute(entry)
        finally:
            await reader.close()

    async def send_heartbeats(
        self,
        log_: Log,
        every_s: float,
        with_readings: Callable[[WorkerHeartbeat], WorkerHeartbeat],
        on_contact: Callable[[float], None],
    ) -> None:
        """Sends heartbeats until it is cancelled, whole ones and digests. One that can't be sent is skipped.

        `with_readings` adds the last readings of devices and host; `on_contact` is told when the log was
        reached, in monotonic seconds.
        """
        writer, digester = self._publisher.writer, HeartbeatDigester()
        topic = self._publisher.topics.heartbeats.name
        while True:
            began_s = monotonic_s()
            heartbeat = digester.next(with_readings(self._heartbeat()), began_s)
            is_digest = isinstance(heartbeat, WorkerHeartbeatDigest)
            with contextlib.suppress(TransientError):
                record = writer.single(writer.instance, heartbeat, brief=is_digest)
                await log_.publish(topic, 0, record)
                digester.sent(heartbeat, began_s)
                self._contact_s = began_s
                on_contact(began_s)
                for placement in self.placements.active.values():
                    placement.note_in_log()
            await asyncio.sleep(every_s)

    def _heartbeat(self) -> WorkerHeartbeat:
        return WorkerHeartbeat(
            worker_id=self._publisher.writer.instance,
            incarnation=self.id,
            running=self.placements.running(),
        )

    async def watch_fleet(self, log_: Log, start: int) -> None:
        """Reads the fleet topic from its beginning until it reports that this incarnation is lost."""
        reader = log_.reader({(self._publisher.topics.fleet.name, 0): start})
        try:
            while not self.lost.is_set():
                try:
                    entries = await reader.read(READ_S)
                except TransientError:
                    await asyncio.sleep(READ_S)
                    continue
                for entry in entries:
                    self._read_fleet(entry)
        finally:
            await reader.close()

    def _read_fleet(self, entry: Entry) -> None:
        message = self._membership.take(entry)
        if isinstance(message, WorkerLost):
            if message.incarnation == self.id:
                self.lost.set()
        elif isinstance(message, WorkerJoined) and self._is_namesake(message, entry.offset):
            log.warning(
                "another worker has joined under this name: give each its own TRACKSIDE_WORKER_ID",
                worker=message.worker_id,
                host=message.host,
            )

    def _is_namesake(self, joined: WorkerJoined, offset: int) -> bool:
        """Returns whether another worker of this name joined after this one."""
        is_own_name = joined.worker_id == self._publisher.writer.instance
        return is_own_name and joined.incarnation != self.id and offset > self.joined_at >= 0

    async def guard_exclusive(self) -> None:
        """Ends exclusive tasks before the scheduler may declare this worker lost; begins at the join.

        They end LEASE_MARGIN_S before the end of the lease in their RunTask, but not before half of it.
        """
        self._contact_s = monotonic_s()
        while True:
            self._end_exclusive(monotonic_s() - self._contact_s)
            has_exclusive = any(each.command.exclusive for each in self.placements.active.values())
            await asyncio.sleep(LEASE_CHECK_S if has_exclusive else LOOK_FOR_EXCLUSIVE_S)

    def _end_exclusive(self, silent_s: float) -> None:
        for placement in list(self.placements.active.values()):
            over = silent_s > silence_allowed_s(placement.command.lease_s)
            if over and placement.command.exclusive and placement.requested_end is None:
                log.warning(
                    "no contact to the log: an exclusive task ends", task=placement.key, silent_s=silent_s
                )
                placement.decide(GiveBack())
                placement.stop(AttemptEnd.LOST, 0)

    def use_catalogue(self, change: CatalogueChange) -> None:
        """Runs the task types of another catalogue from now on; tasks that run already continue as they are.

        Warm processes of types that changed or are gone end.
        """
        before, known = known_types(self._catalogue), known_types(change.catalogue)
        self._catalogue = change.catalogue
        self._fencing.task_types = frozenset((*change.catalogue.tasks, *BUILT_IN))
        self._fencing.services = change.catalogue.services | BUILT_IN_SERVICES
        self.placements.warm.end_types((*change.changed, *change.removed))
        if known != before:
            worker_id = self._publisher.writer.instance
            self.report(CatalogueChanged(worker_id=worker_id, incarnation=self.id, **known))

    def report(self, event: CatalogueChanged | DeviceUnhealthy | WorkerLeft) -> None:
        """Writes an event of this worker to the fleet topic; it follows the join."""
        cause = cause_of(event.worker_id, self.joined_at)
        number = self._publisher.draw_number()
        fleet, writer = self._publisher.topics.fleet, self._publisher.writer
        record = writer.single(event.worker_id, event, cause=cause, sequence=number)
        self._publisher.outbox.event(fleet, writer.signed(fleet, record))

    def device_failed(self, device_id: str, reason: str) -> None:
        """Reports a failed device; tasks on it are lost, those that wait for it are given back."""
        self.placements.ledger.failed[device_id] = reason
        worker_id = self._publisher.writer.instance
        failed = DeviceUnhealthy(
            worker_id=worker_id, incarnation=self.id, device_id=device_id, reason=reason[:1_000]
        )
        self.report(failed)
        self.placements.give_back(device_id)
        self.placements.warm.end_on([device_id])
        for placement in list(self.placements.active.values()):
            if device_id in placement.entry.device_ids:
                placement.stop(AttemptEnd.LOST, 0)

    def _execute(self, entry: Entry) -> None:
        envelope, command = _decoded(entry)
        match command:
            case RunTask():
                self._run(command, envelope)
            case StopTask():
                self._stop(command, envelope)
            case RecallTask():
                self._recall(command, envelope)
            case NextParameters():
                self._send_parameters(command, envelope)
            case GiveInstruction():
                self._give_instruction(command, envelope)
            case _:
                log.warning(
                    "a record of a device topic is not a command", topic=entry.topic, offset=entry.offset
                )

    def _run(self, command: RunTask, envelope: Envelope) -> None:
        action = self._fencing.action_for_run(command)
        if action is CommandAction.RUN:
            action = self._check_parameters(command)
        if action is CommandAction.RUN:
            action = self._check_credentials(command)
        if action is CommandAction.RUN:
            task_type = BUILT_IN.get(command.task_type) or self._catalogue.tasks[command.task_type]
            action = self.placements.accept(command, task_type, envelope) or CommandAction.RUN
        if isinstance(action, Refusal):
            metrics.counter("trackside.worker.refused.tasks").labels(code=action.code).inc()
            entry = journal_entry_of(command, envelope)
            refused = Reporter(self._publisher, entry).refused(action.code, action.message)
            self._fencing.record_answer(command.task_id, entry.token, refused)
            self.placements.end_older(entry)
        elif action is CommandAction.ANSWER_AGAIN:
            self._answer_again(command, envelope)

    def _check_parameters(self, command: RunTask) -> CommandAction | Refusal:
        if reason := self._catalogue.secret_refused(command.task_type, command.parameters):
            return Refusal("secret_not_allowed", reason)
        reason = self._catalogue.violation_of(command.task_type, command.parameters)
        return CommandAction.RUN if reason is None else Refusal("bad_parameters", reason)

    def _check_credentials(self, command: RunTask) -> CommandAction | Refusal:
        for name, given in command.inputs.items():
            if given.credential and given.credential not in self.credentials:
                message = (
                    f"input {name!r} needs the credential {given.credential!r}, which this host lacks: "
                    "add it to the file that TRACKSIDE_CREDENTIALS names, and start the worker again"
                )
                return Refusal("credential_missing", message)
        return CommandAction.RUN

    def _stop(self, command: StopTask, envelope: Envelope) -> None:
        action = self._fencing.action_for_stop(command)
        if action is CommandAction.STOP:
            log.info("stopping a task", task=command.task_id, reason=command.reason)
            placement = self.placements.of_task(command.task_id)
            assert placement is not None, "it is on this worker"
            placement.stop(
                AttemptEnd(command.end), cause=envelope.causation_id, checkpoint_s=command.checkpoint_s
            )
        elif action is CommandAction.ANSWER_AGAIN:
            self._answer_again(command, envelope)
        elif action is CommandAction.NEVER_RUN:
            self.placements.forbid(journal_entry_of(command, envelope), AttemptEnd(command.end))

    def _recall(self, command: RecallTask, envelope: Envelope) -> None:
        action = self._fencing.action_for_recall(command)
        if action is CommandAction.RETURN:
            placement = self.placements.of_task(command.task_id)
            assert placement is not None, "it is on this worker"
            placement.recall(envelope.causation_id)
        elif action is CommandAction.ANSWER_AGAIN:
            self._answer_again(command, envelope)
        elif action is CommandAction.NEVER_RUN:
            self.placements.forbid(journal_entry_of(command, envelope), None)

    def _send_parameters(self, command: NextParameters, envelope: Envelope) -> None:
        placement = self.placements.of_task(command.task_id) if self._fencing.is_current(command) else None
        if placement is not None and placement.run is not None:
            problem = None
            if command.parameters is not None:
                named = placement.command.task_type, command.parameters
                problem = self._catalogue.secret_refused(*named) or self._catalogue.violation_of(*named)
            placement.reporter.follow_parameters(command.request, envelope.causation_id)
            placement.run.send_parameters(command.request, command.parameters, problem or "")

    def _give_instruction(self, command: GiveInstruction, envelope: Envelope) -> None:
        placement = self.placements.of_task(command.task_id) if self._fencing.is_current(command) else None
        if placement is not None and placement.run is not None:
            placement.run.conversation.give(command.instruction, envelope.causation_id)

    def _answer_again(self, command: RunTask | StopTask | RecallTask, envelope: Envelope) -> None:
        answer = self._fencing.tasks[command.task_id].answer
        if answer is not None:  # else it is being written to the journal, or waits for its devices
            Reporter(self._publisher, journal_entry_of(command, envelope)).resend(answer)


def _decoded(entry: Entry) -> tuple[Envelope, Message | None]:
    """Returns a record's envelope and message; None for a message that can't be decoded."""
    envelope = CODEC.envelope(entry.headers)
    try:
        return envelope, CODEC.decode(envelope, entry.value)
    except UndecodableError as error:
        log.warning("undecodable record", topic=entry.topic, offset=entry.offset, reason=str(error)[:500])
        return envelope, None


class OwnMembership:
    """Folds the events about one worker, and those about the keys that they are signed with."""

    def __init__(self, worker_id: str) -> None:
        self._streams = (worker_id.encode(), KEYS_STREAM.encode())
        self._fleet = Fleet()

    def take(self, entry: Entry) -> Message | None:
        """Takes an entry of the topic, in order from its beginning; returns its event if that counts."""
        own, keys = self._streams
        stream = next((octets for name, octets in entry.headers if name == "ce_partitionkey"), None) or b""
        if stream != own and not stream.startswith(keys):
            return None  # of other workers there may be very many
        record = decode(entry)
        if record is None or evolve(self._fleet, record) is not Outcome.APPLIED:
            return None
        return record.message
