"""Runs the placements of one incarnation: holds them until their devices are free, begins and ends them.

Whatever changes the free capacity (a process has exited, a training was interrupted, a device was read again)
calls `advance`, which begins what fits in the order of arrival, without a round trip over the log.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial

import structlog

from trackside.contracts.envelope.message import Envelope, Event
from trackside.contracts.fleet.fleet import RunningPlacement
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.eventlog.log import Appended
from trackside.telemetry import context, metrics
from trackside.worker.artifacts.uploads import Uploads
from trackside.worker.attempts.forkservers.forkserver_connection import TaskProcess
from trackside.worker.attempts.outcome import Ending
from trackside.worker.attempts.spec import AttemptContext, AttemptListener
from trackside.worker.catalogue.task_catalogue import TaskType
from trackside.worker.child.process.out_of_memory import Resource
from trackside.worker.host.devices import HostDevice
from trackside.worker.host.sampler import OwnedSession
from trackside.worker.host.usage import Usage
from trackside.worker.messages.process_messages import ProcessFree, TrainingInterrupted
from trackside.worker.placements.admission import AdmissionControl
from trackside.worker.placements.device_time import DeviceTime
from trackside.worker.placements.fencing import FencingTable, Refusal
from trackside.worker.placements.ledger import AHEAD_ON_DEVICES, AHEAD_ON_HOST, Allocation, Ledger, Stage
from trackside.worker.placements.local_placement import (
    Begin,
    GiveBack,
    LocalPlacement,
    PlacementPolicy,
    check_type_limits,
    claim_of,
    have_work,
    journal_entry_of,
    needs_secrets,
)
from trackside.worker.placements.placement_run import make_run
from trackside.worker.placements.sharing import published
from trackside.worker.placements.warm_processes import WarmProcessPool
from trackside.worker.reporting.journal import JournalEntry
from trackside.worker.reporting.reporter import Publisher, Reporter

log = structlog.get_logger("trackside.worker")
NEIGHBOURS_EVERY_S = 0.1
"""Seconds between two looks at what other workers of the host have, while a task here or there waits."""
RETRY_S = 0.005
"""Seconds until the next try, while another worker decides what begins."""
STAGES_THAT_RUN = (Stage.LOADED, Stage.TRAINING)


class PlacementController:
    """The placements of one incarnation, by key; their work runs as tasks of `group`.

    `peak` returns the highest measured usage of a task by the key of its placement.
    """

    def __init__(
        self,
        host_devices: dict[str, HostDevice],
        ledger: Ledger,
        fencing: FencingTable,
        context: AttemptContext,
        publisher: Publisher,
        group: asyncio.TaskGroup,
        policy: PlacementPolicy,
    ) -> None:
        self.active: dict[str, LocalPlacement] = {}
        self.ledger = ledger
        self.warm = WarmProcessPool(ledger, self.advance)
        self._admission = AdmissionControl(ledger, self.warm, host_devices)
        self._device_time = DeviceTime(ledger.devices)
        self.peak: Callable[[str], Usage] = lambda _: Usage()
        self._host_devices = host_devices
        self._fencing = fencing
        self._context = context
        self._publisher = publisher
        self._group = group
        self._policy = policy
        self._tasks: set[asyncio.Task[None]] = set()
        self._waits_for_neighbours: set[str] = set()
        self._due: asyncio.Handle | None = None
        self._retry: asyncio.TimerHandle | None = None

    def running(self) -> list[RunningPlacement]:
        """Returns the placements whose end has not been reported: the content of heartbeats."""
        return [
            placement.running_placement()
            for placement in self.active.values()
            if placement.allocation.stage is not Stage.ENDING
        ]

    def owned(self) -> list[OwnedSession]:
        """Returns the sessions of tasks that have processes now, and of warm processes."""
        there = [placement for placement in self.active.values() if placement.key in self.ledger.allocations]
        return [
            *(found for placement in there if (found := placement.owned()) is not None),
            *self.warm.owned(),
        ]

    def of_task(self, task_id: str) -> LocalPlacement | None:
        """Returns the newest placement of a task if it is on this worker, else None."""
        known = self._fencing.tasks.get(task_id)
        token = known.token if known is not None else None
        of_it = (placement for placement in self.active.values() if placement.entry.task_id == task_id)
        return next((placement for placement in of_it if placement.entry.token == token), None)

    def accept(self, command: RunTask, task_type: TaskType, envelope: Envelope) -> Refusal | None:
        """Accepts a placement, or returns why it is refused."""
        claim = claim_of(command, command.reserved)
        refusal = self.ledger.check_capacity(claim) or check_type_limits(claim, task_type)
        if refusal is None and not command.wait:
            on_devices = self.ledger.check_devices(claim, AHEAD_ON_DEVICES)
            refusal = on_devices or self.ledger.check_host(claim, AHEAD_ON_HOST)
        if refusal is not None:
            return refusal
        entry = journal_entry_of(command, envelope, claim.device_ids, held=command.wait)
        entry = replace(entry, secrets=needs_secrets(command, task_type))
        allocation = Allocation(command.task_id, claim, Stage.HELD if command.wait else Stage.STARTING)
        placement = LocalPlacement(
            entry=entry,
            key=entry.key,
            command=command,
            task_type=task_type,
            allocation=allocation,
            reporter=Reporter(self._publisher, entry),
            decision=asyncio.get_running_loop().create_future(),
            reserved=command.reserved,
            interrupts=command.interrupted,
        )
        try:
            self._context.journal.write(entry)
        except OSError as error:
            return Refusal("journal_unwritable", f"{type(error).__name__}: {error}")
        self._add(placement)
        self.spawn(self._carry_out(placement))
        self.advance()
        return None

    def adopt(self, placement: LocalPlacement, answer: Event) -> None:
        """Takes over a placement that an earlier worker has begun; `answer` has said so in the log."""
        placement.decide(Begin(trains=placement.adopted is not None and placement.adopted.trains))
        self._add(placement)
        self._fencing.record_answer(placement.entry.task_id, placement.entry.token, answer)

    def follow_adopted(self) -> None:
        """Follows the placements that were taken over: what their tasks say from here on is reported."""
        for placement in [each for each in self.active.values() if each.adopted is not None]:
            self.spawn(self._carry_out(placement))

    def _add(self, placement: LocalPlacement) -> None:
        self._fencing.record_accepted(placement.entry.task_id, placement.entry.token)
        self.active[placement.key] = placement
        self.ledger.add(placement.key, placement.allocation)
        self.end_older(placement.entry)

    def end_older(self, entry: JournalEntry) -> None:
        """Ends what runs here of the earlier placements of a task, also if this one never will."""
        for placement in list(self.active.values()):
            if placement.entry.task_id == entry.task_id and placement.entry.token < entry.token:
                placement.stop(AttemptEnd.LOST)

    def forbid(self, entry: JournalEntry, end: AttemptEnd | None) -> None:
        """Reports an end, or that it is given back, for a placement that never came; it will never run."""
        self._fencing.record_forbidden(entry.task_id, entry.token)
        self.end_older(entry)
        with contextlib.suppress(OSError):  # the log will have it
            self._context.journal.write(entry)
        reporter = Reporter(self._publisher, entry)
        if end is not None:
            self._end(entry, reporter, {"end": end})
        else:
            self._return(entry, reporter)

    def give_back(self, device_id: str | None = None) -> None:
        """Hands back the placements that have not begun, on one device or on all."""
        for placement in list(self.active.values()):
            if not placement.begun and (device_id is None or device_id in placement.entry.device_ids):
                placement.decide(GiveBack())

    async def end_all(self, grace_s: float) -> None:
        """Hands back or ends all placements, and waits until all processes are gone."""
        self.give_back()
        for placement in list(self.active.values()):
            placement.leave(grace_s)
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.warm.end_all()
        for handle in (self._due, self._retry):
            if handle is not None:
                handle.cancel()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Runs a coroutine in the background; `end_all` waits for it."""
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def advance(self) -> None:
        """Begins what fits, in the order of arrival on each device: once for all changes of this turn."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_soon(self._advance)

    def _advance(self) -> None:
        """Begins what fits now; one worker of a host at a time does so."""
        self._due = None
        self._device_time.update(self.ledger)
        neighbourhood = self._context.neighbourhood
        with neighbourhood.deciding() as decides:
            if decides:
                self.ledger.neighbours = neighbourhood.others
                self._begin_fitting()
                self._admission.make_room_for_neighbours()
                names = self._publisher.writer.instance, self._fencing.incarnation
                neighbourhood.publish(published(self.ledger, *names, self._waits_for_neighbours))
        self._device_time.update(self.ledger)
        if not decides:
            self._advance_within(RETRY_S)
        elif self.ledger.neighbours and (
            self.warm.memory_bytes or any(placement.waits for placement in self.active.values())
        ):
            self._advance_within(NEIGHBOURS_EVERY_S)

    def _advance_within(self, seconds: float) -> None:
        """Begins what other workers of the host have made room for until then, and makes room for them."""
        loop = asyncio.get_running_loop()
        if self._retry is not None and self._retry.when() > loop.time() + seconds:
            self._retry.cancel()
            self._retry = None
        if self._retry is None or self._retry.when() <= loop.time():
            self._retry = loop.call_later(seconds, self.advance)

    def _begin_fitting(self) -> None:
        awaited: set[str] = set()
        blocked, self._waits_for_neighbours = self._waits_for_neighbours, set()
        waiting = [placement for placement in self.active.values() if placement.waits]
        for placement in sorted(waiting, key=lambda each: each.allocation.stage is not Stage.LOADED):
            devices = set(placement.entry.device_ids)
            if not devices & awaited:
                if self._admission.can_train(placement):
                    self._begin(placement)
                    continue
                reason = self._admission.waits_for_neighbours(placement)
                if reason is not None:
                    self._waits_for_neighbours.add(placement.key)
                    if placement.key not in blocked:
                        log.info("a task waits for another worker", task=placement.key, reason=reason.message)
            awaited |= devices
        self._load_early()
        for placement in self._admission.waiting_in_vain(self.active.values()):
            self._give_up(placement)

    def _begin(self, placement: LocalPlacement) -> None:
        self._admission.assign_warm_process(placement)
        allocation = placement.allocation
        allocation.claim, allocation.stage = self.ledger.limit_raised(placement.claim), Stage.TRAINING
        placement.blocked_s = None
        if placement.run is not None:
            placement.run.train()
        else:
            placement.decide(Begin(trains=True))

    def _load_early(self) -> None:
        loaded = sum(placement.allocation.stage is Stage.LOADED for placement in self.active.values())
        for placement in self.active.values() if self._policy.load_early else ():
            if loaded >= self._policy.load_early:
                return
            if placement.waits and not placement.begun:
                if not self._admission.can_load(placement):
                    return
                self._admission.assign_warm_process(placement)
                placement.allocation.stage = Stage.LOADED
                placement.decide(Begin(trains=False))
                loaded += 1

    def _give_up(self, placement: LocalPlacement) -> None:
        if not placement.begun:
            placement.decide(GiveBack())
        else:
            placement.allocation.stage = Stage.ENDING
            placement.stop(AttemptEnd.PREEMPTED)

    async def _carry_out(self, placement: LocalPlacement) -> None:
        entry = placement.entry
        match await placement.decision:
            case Begin(trains):
                await self._run(placement, trains)
            case GiveBack():
                self._remove(placement)
                self._return(entry, placement.reporter)
            case AttemptEnd() as end:
                self._remove(placement)
                self._end(entry, placement.reporter, {"end": end})

    async def _run(self, placement: LocalPlacement, trains: bool) -> None:
        entry = placement.entry
        began_ns = 0 if placement.adopted is None else self._context.journal.accepted_ns(entry)
        spans = placement.spans(self._publisher, began_ns)
        with context.within(spans.traceparent) as traceparent:
            placement.reporter = Reporter(self._publisher, entry, spans)
            placement.reporter.restart_steps(placement.interrupts)
            self._fencing.record_begun(entry.task_id, entry.token)
            if placement.adopted is None:
                self._fencing.record_answer(entry.task_id, entry.token, placement.reporter.accepted())
            listener_of = partial(self._listener, placement)
            run = make_run(self._context, placement, self._host_devices, listener_of, traceparent)
            placement.run = run
            if placement.adopted is not None:  # after what its task has said was read again
                placement.allocation.stage = Stage.TRAINING if trains else Stage.LOADED
                self.advance()
            if placement.requested_end is not None:
                run.stop(*placement.requested_end)
            self._update_gauge()
            trains = trains or placement.allocation.stage is Stage.TRAINING
            process = self._group.create_task(run.run_to_end(trains))
            ending = await run.ended()
            # The end may be in the log before the process exits; the next placement waits for the exit.
            if placement.key in self.ledger.allocations:
                placement.allocation.stage = Stage.ENDING
            self._fencing.record_finished(entry.task_id, entry.token)
            placement.follow_end(ending["end"])
            assert placement.uploads is not None, "its run has them"
            ending = await placement.uploads.finish(ending, self._context.upload_timeout_s)
            reported = ending.get("peak_memory_bytes", 0), ending.get("peak_cuda_memory_bytes", 0)
            self._end(entry, placement.reporter, ending | self._record_peaks(placement, *reported))
            self._update_gauge()
            await process
            placement.reporter.flush()  # output after the end: later the worker may have left
        self.active.pop(placement.key, None)

    def _listener(self, placement: LocalPlacement, uploads: Uploads) -> AttemptListener:
        return AttemptListener(
            partial(self._interrupted, placement),
            uploads.add,
            partial(self._process_gone, placement),
            partial(self._process_free, placement),
            lambda: self._record_peaks(placement, 0, 0)["peak_memory_bytes"],
            lambda: placement.memory_cap,
        )

    def _interrupted(self, placement: LocalPlacement, interrupt: TrainingInterrupted) -> None:
        """Raises the reservation of a training that ran out of memory; it trains again once it fits."""
        if placement.requested_end is not None:
            return
        peaks = self._record_peaks(placement, interrupt.peak_memory_bytes, interrupt.peak_cuda_memory_bytes)
        resource: Resource = "host" if interrupt.resource == "host" else "device"
        most = peaks["peak_memory_bytes" if resource == "host" else "peak_cuda_memory_bytes"]
        placement.interrupts += 1
        limited = placement.raise_reservation(resource, most, self.ledger)
        placement.reporter.interrupted(placement.interrupts, resource, placement.reserved, interrupt.error)
        metrics.counter("trackside.worker.interrupted.tasks").labels(resource=resource).inc()
        had, placement.allocation.stage = placement.allocation.claim, Stage.LOADED
        # New placements must leave room for the raised device memory; its host memory stays as it was.
        placement.allocation.claim = replace(had, cuda_memory_bytes=limited.cuda_memory_bytes)
        self.advance()

    def _record_peaks(self, placement: LocalPlacement, memory_bytes: int, cuda_bytes: int) -> dict[str, int]:
        placement.record_peaks(memory_bytes, cuda_bytes)
        found = self.peak(placement.key)
        return placement.record_peaks(found.memory_bytes, found.cuda_memory_bytes)

    def _process_gone(self, placement: LocalPlacement) -> None:
        placement.reporter.resources_freed()
        self.ledger.remove(placement.key)
        placement.allocation.stage = Stage.ENDING
        self.advance()

    def _process_free(self, placement: LocalPlacement, process: TaskProcess, free: ProcessFree) -> None:
        self._process_gone(placement)
        self.warm.add(self._admission.kind(placement), process, placement.entry.device_ids, free)

    def _remove(self, placement: LocalPlacement) -> None:
        self.ledger.remove(placement.key)
        del self.active[placement.key]
        self._fencing.record_finished(placement.entry.task_id, placement.entry.token)
        self.advance()

    def _update_gauge(self) -> None:
        running = sum(each.allocation.stage in STAGES_THAT_RUN for each in self.active.values())
        metrics.gauge("trackside.worker.running.tasks").set(running)

    def _return(self, entry: JournalEntry, reporter: Reporter) -> None:
        returned = reporter.returned(partial(self._on_end_appended, entry))
        self._fencing.record_answer(entry.task_id, entry.token, returned)

    def _end(self, entry: JournalEntry, reporter: Reporter, ending: Ending) -> None:
        linger = have_work(entry.device_ids, self.active.values())
        event, _ = reporter.ended(ending, partial(self._on_end_appended, entry), linger)
        self._fencing.record_answer(entry.task_id, entry.token, event)

    def _on_end_appended(self, entry: JournalEntry, _: Appended) -> None:
        self.spawn(self._context.journal.remove(entry, self._policy.keep_workdirs))
