"""One incarnation of the worker: obeys its device topics, gives signs of life, hears of its own loss."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Mapping
from functools import partial

import structlog

from trackside.contracts.codec import CODEC, UndecodableError
from trackside.contracts.fleet import RunningPlacement, WorkerHeartbeat, WorkerLost
from trackside.contracts.message import Envelope, Message
from trackside.contracts.tasks import AttemptEnd, RunTask, StopTask
from trackside.eventlog.errors import OffsetGoneError, TransientError
from trackside.eventlog.log import Appended, Entry, Log, TopicPartition
from trackside.telemetry import context, metrics
from trackside.worker.catalogue import Catalogue
from trackside.worker.devices import Place
from trackside.worker.endings import Ending, Why
from trackside.worker.journal import Placement
from trackside.worker.ledger import Ledger, Refusal, Verdict
from trackside.worker.reporter import Reporter, Voice
from trackside.worker.runner import Run, Workshop

log = structlog.get_logger("trackside.worker")

READ_S = 1.0


class Incarnation:
    """One life of a worker between a join and a loss; `lost` is set when the log says it is over.

    Its placements run as tasks of `group`.
    """

    def __init__(
        self,
        incarnation: str,
        places: Iterable[Place],
        catalogue: Catalogue,
        shop: Workshop,
        voice: Voice,
        group: asyncio.TaskGroup,
        keep_workdirs: bool = False,
    ) -> None:
        self.id = incarnation
        self.lost = asyncio.Event()
        self._places = {place.id: place for place in places}
        self._catalogue = catalogue
        self._shop = shop
        self._voice = voice
        self._group = group
        self._keep_workdirs = keep_workdirs
        self._ledger = Ledger(incarnation, frozenset(self._places), frozenset(catalogue.tasks))
        self._runs: dict[str, Run] = {}
        self._processes: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._devices = {
            voice.topics.device(voice.author.instance, device_id).name: device_id
            for device_id in self._places
        }

    @property
    def running(self) -> list[RunningPlacement]:
        """The placements that run now."""
        return [
            RunningPlacement(
                stream=run.placement.stream,
                task_id=run.placement.task_id,
                attempt=run.placement.attempt,
                placement=run.placement.placement,
                device_ids=[run.placement.device_id],
            )
            for run in self._runs.values()
        ]

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

    async def beat(self, log_: Log, every_s: float) -> None:
        """Gives signs of life, for ever. One that can't be given is left out: the next says it all."""
        topic = self._voice.topics.heartbeats.name
        while True:
            beat = WorkerHeartbeat(
                worker_id=self._voice.author.instance, incarnation=self.id, running=self.running
            )
            with contextlib.suppress(TransientError):
                await log_.publish(topic, 0, self._voice.author.single(beat.worker_id, beat))
            await asyncio.sleep(every_s)

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

    async def end_all(self, grace_s: float) -> None:
        """Ends every placement so that it is given back, and waits until all processes are gone."""
        for run in self._runs.values():
            run.stop(Why.LEAVING, grace_s)
        while self._runs or any(not process.done() for process in self._processes.values()):
            await asyncio.wait([*self._tasks, *self._processes.values()])

    def _obey_entry(self, entry: Entry) -> None:
        envelope, command = _decoded(entry)
        device_id = self._devices[entry.topic]
        match command:
            case RunTask():
                self._run(command, device_id, envelope.traceparent)
            case StopTask():
                self._stop(command, device_id, envelope.traceparent)
            case _:
                log.warning(
                    "a record of a device topic is no command", topic=entry.topic, offset=entry.offset
                )

    def _run(self, command: RunTask, device_id: str, traceparent: str) -> None:
        verdict = self._ledger.judge_run(command, device_id)
        if verdict is Verdict.RUN:
            verdict = self._judge_parameters(command)
        if verdict is Verdict.IGNORE:
            return
        placement = _placement(command, device_id, traceparent)
        reporter = Reporter(self._voice, placement)
        if isinstance(verdict, Refusal):
            metrics.counter("trackside.worker.refused.tasks").labels(code=verdict.code).inc()
            refused = reporter.refused(verdict.code, verdict.message)
            self._ledger.answered(command.task_id, placement.token, refused)
        elif verdict is Verdict.ANSWER_AGAIN:
            self._answer_again(command.task_id, reporter)
        else:
            self._start(placement, command)

    def _judge_parameters(self, command: RunTask) -> Verdict | Refusal:
        reason = self._catalogue.violation_of(command.task_type, command.parameters)
        return Verdict.RUN if reason is None else Refusal("bad_parameters", reason)

    def _start(self, placement: Placement, command: RunTask) -> None:
        older = self._run_of(command.task_id)
        if older is not None:
            older.stop(Why.LEAVING)
        run = Run(
            self._shop,
            placement,
            self._places[placement.device_id],
            self._catalogue.tasks[command.task_type],
            command.parameters,
        )
        self._ledger.started(command.task_id, placement.token, placement.device_id)
        self._runs[placement.device_id] = run
        self._spawn(self._carry_out(run, command.task_type))

    def _stop(self, command: StopTask, device_id: str, traceparent: str) -> None:
        verdict = self._ledger.judge_stop(command)
        placement = _placement(command, device_id, traceparent)
        if verdict is Verdict.STOP:
            log.info("stopping a task", task=command.task_id, reason=command.reason)
            run = self._run_of(command.task_id)
            assert run is not None, "the ledger says it runs"
            run.stop(Why.STOPPED)
        elif verdict is Verdict.ANSWER_AGAIN:
            self._answer_again(command.task_id, Reporter(self._voice, placement))
        elif verdict is Verdict.NEVER_RUN:
            self._ledger.buried(command.task_id, placement.token)
            self._spawn(self._bury(placement))

    def _answer_again(self, task_id: str, reporter: Reporter) -> None:
        answer = self._ledger.tasks[task_id].answer
        if answer is not None:  # else it is still on its way into the journal
            reporter.again(answer)

    def _run_of(self, task_id: str) -> Run | None:
        known = self._ledger.tasks.get(task_id)
        return self._runs.get(known.running_on) if known is not None else None

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, run: Run, task_type: str) -> None:
        placement = run.placement
        attributes = {"trackside.task": placement.task_id, "trackside.task_type": task_type}
        with context.start("run task", placement.traceparent or None, attributes) as traceparent:
            reporter = Reporter(self._voice, placement, traceparent)
            before = self._processes.get(placement.device_id)
            try:
                await self._shop.journal.write(placement)
            except OSError as error:
                self._leave_device(placement)
                refused = reporter.refused("journal_unwritable", f"{type(error).__name__}: {error}")
                self._ledger.answered(placement.task_id, placement.token, refused)
                return
            self._ledger.answered(placement.task_id, placement.token, reporter.accepted())
            if before is not None:
                await asyncio.wait([before])
            process = self._group.create_task(run.to_end(reporter, traceparent))
            self._processes[placement.device_id] = process
            ending = await run.ended()
            # The log may have its end while the process goes: the next one on the device waits for that.
            self._leave_device(placement)
            self._end(placement, reporter, ending)
            await process

    async def _bury(self, placement: Placement) -> None:
        """Notes on disk that a placement must never run, and says that it is cancelled."""
        with contextlib.suppress(OSError):  # the log will hold it
            await self._shop.journal.write(placement)
        self._end(placement, Reporter(self._voice, placement), {"end": AttemptEnd.CANCELLED})

    def _leave_device(self, placement: Placement) -> None:
        self._ledger.ended(placement.task_id, placement.token, placement.device_id)
        del self._runs[placement.device_id]
        metrics.gauge("trackside.worker.running.tasks").set(len(self._runs))

    def _end(self, placement: Placement, reporter: Reporter, ending: Ending) -> None:
        event, _ = reporter.ended(ending, partial(self._heard, placement))
        self._ledger.answered(placement.task_id, placement.token, event)
        metrics.counter("trackside.worker.ended.tasks").labels(status=event.end.value).inc()
        if event.load_time_ms >= 0:
            metrics.histogram("trackside.worker.load.seconds").observe(event.load_time_ms / 1000)
        if event.train_time_ms >= 0:
            metrics.histogram("trackside.worker.train.seconds").observe(event.train_time_ms / 1000)

    def _heard(self, placement: Placement, _: Appended) -> None:
        self._spawn(self._shop.journal.forget(placement, self._keep_workdirs))


def _placement(command: RunTask | StopTask, device_id: str, traceparent: str) -> Placement:
    return Placement(
        stream=command.stream,
        task_id=command.task_id,
        attempt=command.attempt,
        placement=command.placement,
        incarnation=command.incarnation,
        device_id=device_id,
        traceparent=traceparent,
    )


def _decoded(entry: Entry) -> tuple[Envelope, Message | None]:
    """Reads a record; None for one that can't be read."""
    envelope = CODEC.envelope(entry.headers)
    try:
        return envelope, CODEC.decode(envelope, entry.value)
    except UndecodableError as error:
        log.warning("unreadable record", topic=entry.topic, offset=entry.offset, reason=str(error)[:500])
        return envelope, None
