"""One incarnation of the worker: obeys its device topics, gives signs of life, hears of its own loss."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping

import structlog

from trackside.contracts.codec import CODEC, UndecodableError
from trackside.contracts.fleet import DeviceUnhealthy, WorkerHeartbeat, WorkerLost
from trackside.contracts.message import Envelope, Message
from trackside.contracts.tasks import AttemptEnd, NextParameters, RecallTask, RunTask, StopTask
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import OffsetGoneError, TransientError
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.telemetry import metrics
from trackside.worker.catalogue.catalogue import Catalogue
from trackside.worker.placements.fencing import Refusal, Tokens, Verdict
from trackside.worker.placements.placement import GiveBack, placement_of
from trackside.worker.placements.placements import Placements
from trackside.worker.reporting.reporter import Reporter, Voice

log = structlog.get_logger("trackside.worker")

READ_S = 1.0
GUARD_S = 0.1
MARGIN_S = 3.0
"""How long before its lease runs out a worker that the log doesn't answer ends its exclusive tasks."""


class Incarnation:
    """One life of a worker between a join and a loss; `lost` is set when the log says it is over."""

    def __init__(self, tokens: Tokens, placements: Placements, catalogue: Catalogue, voice: Voice) -> None:
        self.id = tokens.incarnation
        self.lost = asyncio.Event()
        self.placements = placements
        self._tokens = tokens
        self._catalogue = catalogue
        self._voice = voice
        self._heard_s = monotonic_s()

    async def obey(self, log_: Log, starts: Mapping[TopicPartition, int]) -> None:
        """Reads the device topics and does what they say, for ever."""
        reader = log_.reader(starts)
        try:
            while True:
                try:
                    entries = await reader.read(READ_S)
                except OffsetGoneError:  # commands as old as that were meant for another incarnation
                    reader.assign({place: (await log_.beginnings(place[0]))[place[1]] for place in starts})
                    continue
                except TransientError as error:
                    log.info("device topics don't answer", reason=str(error))
                    await asyncio.sleep(READ_S)
                    continue
                for entry in entries:
                    self._obey_entry(entry)
        finally:
            await reader.close()

    async def beat(
        self, log_: Log, every_s: float, seen: Callable[[WorkerHeartbeat], WorkerHeartbeat]
    ) -> None:
        """Gives signs of life, for ever. One that can't be given is left out: the next says it all.

        `seen` adds what is known of devices and host.
        """
        topic = self._voice.topics.heartbeats.name
        while True:
            began_s, beat = monotonic_s(), seen(self._heartbeat())
            with contextlib.suppress(TransientError):
                await log_.publish(topic, 0, self._voice.writer.single(beat.worker_id, beat))
                self._heard_s = began_s
            await asyncio.sleep(every_s)

    def _heartbeat(self) -> WorkerHeartbeat:
        return WorkerHeartbeat(
            worker_id=self._voice.writer.instance,
            incarnation=self.id,
            running=self.placements.running(),
        )

    async def watch_fleet(self, log_: Log, start: int) -> None:
        """Reads the fleet until it says that this incarnation is lost."""
        reader = log_.reader({(self._voice.topics.fleet.name, 0): start})
        try:
            while not self.lost.is_set():
                try:
                    entries = await reader.read(READ_S)
                except TransientError:
                    await asyncio.sleep(READ_S)
                    continue
                for entry in entries:
                    message = _decoded(entry)[1]
                    if isinstance(message, WorkerLost) and message.incarnation == self.id:
                        self.lost.set()
        finally:
            await reader.close()

    async def guard_exclusive(self) -> None:
        """Ends exclusive tasks before somebody may take this worker, which has just joined, for lost.

        That is MARGIN_S before the lease is over that the scheduler gave with the task, or half a lease
        where it is shorter than twice that.
        """
        self._heard_s = monotonic_s()
        while True:
            self._end_exclusive(monotonic_s() - self._heard_s)
            await asyncio.sleep(GUARD_S)

    def _end_exclusive(self, silent_s: float) -> None:
        for held in list(self.placements.here.values()):
            lease_s = held.command.lease_s
            over = silent_s > max(lease_s - MARGIN_S, lease_s / 2)
            if over and held.command.exclusive and held.asked is None:
                log.warning("the log is silent: an exclusive task ends", task=held.key, silent_s=silent_s)
                held.decide(GiveBack())
                held.stop(AttemptEnd.LOST, 0)

    def device_failed(self, device_id: str, reason: str) -> None:
        """Says that a device has failed; what runs there is lost, what waits for it is given back."""
        self.placements.ledger.failed[device_id] = reason
        worker_id = self._voice.writer.instance
        failed = DeviceUnhealthy(
            worker_id=worker_id, incarnation=self.id, device_id=device_id, reason=reason[:1_000]
        )
        self._voice.outbox.event(self._voice.topics.fleet, self._voice.writer.single(worker_id, failed))
        self.placements.give_back(device_id)
        self.placements.warm.end_on(device_id)
        for held in list(self.placements.here.values()):
            if device_id in held.placement.device_ids:
                held.stop(AttemptEnd.LOST, 0)

    def _obey_entry(self, entry: Entry) -> None:
        envelope, command = _decoded(entry)
        match command:
            case RunTask():
                self._run(command, envelope.traceparent)
            case StopTask():
                self._stop(command, envelope.traceparent)
            case RecallTask():
                self._recall(command, envelope.traceparent)
            case NextParameters():
                self._go_on(command)
            case _:
                log.warning(
                    "a record of a device topic is no command", topic=entry.topic, offset=entry.offset
                )

    def _run(self, command: RunTask, traceparent: str) -> None:
        verdict = self._tokens.judge_run(command)
        if verdict is Verdict.RUN:
            verdict = self._judge_parameters(command)
        if verdict is Verdict.RUN:
            task_type = self._catalogue.tasks[command.task_type]
            verdict = self.placements.take(command, task_type, traceparent) or Verdict.RUN
        if isinstance(verdict, Refusal):
            metrics.counter("trackside.worker.refused.tasks").labels(code=verdict.code).inc()
            placement = placement_of(command, traceparent)
            refused = Reporter(self._voice, placement).refused(verdict.code, verdict.message)
            self._tokens.answered(command.task_id, placement.token, refused)
        elif verdict is Verdict.ANSWER_AGAIN:
            self._answer_again(command, traceparent)

    def _judge_parameters(self, command: RunTask) -> Verdict | Refusal:
        reason = self._catalogue.violation_of(command.task_type, command.parameters)
        return Verdict.RUN if reason is None else Refusal("bad_parameters", reason)

    def _stop(self, command: StopTask, traceparent: str) -> None:
        verdict = self._tokens.judge_stop(command)
        if verdict is Verdict.STOP:
            log.info("stopping a task", task=command.task_id, reason=command.reason)
            held = self.placements.of_task(command.task_id)
            assert held is not None, "it is known to be here"
            held.stop(AttemptEnd(command.end))
        elif verdict is Verdict.ANSWER_AGAIN:
            self._answer_again(command, traceparent)
        elif verdict is Verdict.NEVER_RUN:
            self.placements.bury(placement_of(command, traceparent), AttemptEnd(command.end))

    def _recall(self, command: RecallTask, traceparent: str) -> None:
        verdict = self._tokens.judge_recall(command)
        if verdict is Verdict.RETURN:
            held = self.placements.of_task(command.task_id)
            assert held is not None, "it is known to be here"
            held.decide(GiveBack())
        elif verdict is Verdict.ANSWER_AGAIN:
            self._answer_again(command, traceparent)
        elif verdict is Verdict.NEVER_RUN:
            self.placements.bury(placement_of(command, traceparent), None)

    def _go_on(self, command: NextParameters) -> None:
        held = self.placements.of_task(command.task_id) if self._tokens.is_here(command) else None
        if held is not None and held.run is not None:
            problem = None
            if command.parameters is not None:
                problem = self._catalogue.violation_of(held.command.task_type, command.parameters)
            held.run.go_on(command.request, command.parameters, problem or "")

    def _answer_again(self, command: RunTask | StopTask | RecallTask, traceparent: str) -> None:
        answer = self._tokens.tasks[command.task_id].answer
        if answer is not None:  # else it is still on its way into the journal, or waits for its devices
            Reporter(self._voice, placement_of(command, traceparent)).again(answer)


def _decoded(entry: Entry) -> tuple[Envelope, Message | None]:
    """Reads a record; None for one that can't be read."""
    envelope = CODEC.envelope(entry.headers)
    try:
        return envelope, CODEC.decode(envelope, entry.value)
    except UndecodableError as error:
        log.warning("unreadable record", topic=entry.topic, offset=entry.offset, reason=str(error)[:500])
        return envelope, None
