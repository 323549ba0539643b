"""The placements of one incarnation: held until their devices are free, running, going.

Whatever changes what is free (a process that is gone, a training that was interrupted, a new reading of the
devices) calls `advance`, which begins what fits in the order of arrival, without a round over the log.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial

import structlog

from trackside.contracts.fleet import RunningPlacement
from trackside.contracts.message import Json
from trackside.contracts.tasks import AttemptEnd, RunTask
from trackside.domain.memory import raised
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Appended
from trackside.telemetry import context, metrics
from trackside.worker.attempts.attempt import Ears, Job, Run, Workshop
from trackside.worker.attempts.forkserver_client import Process
from trackside.worker.attempts.outcome import Ending
from trackside.worker.catalogue.catalogue import TaskType
from trackside.worker.host.devices import Place
from trackside.worker.host.sampler import Owned
from trackside.worker.host.usage import Usage
from trackside.worker.placements.admission import Room
from trackside.worker.placements.fencing import Refusal, Tokens
from trackside.worker.placements.ledger import (
    AHEAD_ON_DEVICES,
    AHEAD_ON_HOST,
    HAS_DEVICES,
    Holding,
    Ledger,
    Stage,
)
from trackside.worker.placements.placement import Begin, GiveBack, Held, claim_of, over_ceiling, placement_of
from trackside.worker.placements.warm_processes import WarmProcesses
from trackside.worker.reporting.journal import Placement
from trackside.worker.reporting.reporter import Reporter, Voice

log = structlog.get_logger("trackside.worker")

PATIENCE_S = 60.0
"""How long a placement waits for memory that no task of ours has, before it is given back."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How many placements may load before their devices are free, and whether working folders stay."""

    load_early: int = 0
    keep_workdirs: bool = False


class Placements:
    """The placements of one incarnation; their work runs as tasks of `group`.

    `peak` gives the most that a task was seen to use, by the key of its placement.
    """

    def __init__(
        self,
        places: dict[str, Place],
        ledger: Ledger,
        tokens: Tokens,
        shop: Workshop,
        voice: Voice,
        group: asyncio.TaskGroup,
        terms: Terms,
    ) -> None:
        self.here: dict[str, Held] = {}
        self.ledger = ledger
        self.warm = WarmProcesses(ledger, shop.forkserver, self.advance)
        self._room = Room(ledger, self.warm, places)
        self.peak: Callable[[str], Usage] = lambda _: Usage()
        self._places = places
        self._tokens = tokens
        self._shop = shop
        self._voice = voice
        self._group = group
        self._terms = terms
        self._tasks: set[asyncio.Task[None]] = set()

    def running(self) -> list[RunningPlacement]:
        """Lists the placements that are here and whose end has not been said: what heartbeats tell."""
        return [held.told() for held in self.here.values() if held.holding.stage is not Stage.GOING]

    def owned(self) -> list[Owned]:
        """Lists the tasks that have processes now, and processes that wait for one."""
        there = [held for held in self.here.values() if held.key in self.ledger.holdings]
        return [*(found for held in there if (found := held.owned()) is not None), *self.warm.owned()]

    def of_task(self, task_id: str) -> Held | None:
        """Gives the newest placement of a task that is here."""
        known = self._tokens.tasks.get(task_id)
        token = known.token if known is not None else None
        of_it = (held for held in self.here.values() if held.placement.task_id == task_id)
        return next((held for held in of_it if held.placement.token == token), None)

    def take(self, command: RunTask, task_type: TaskType, traceparent: str) -> Refusal | None:
        """Takes a placement on, or says why not."""
        claim = claim_of(command, command.reserved)
        refusal = self.ledger.impossible(claim) or over_ceiling(claim, task_type)
        if refusal is None and not command.wait:
            on_devices = self.ledger.on_devices(claim, AHEAD_ON_DEVICES)
            refusal = on_devices or self.ledger.on_host(claim, AHEAD_ON_HOST)
        if refusal is not None:
            return refusal
        placement = placement_of(command, traceparent, claim.device_ids, held=command.wait)
        holding = Holding(command.task_id, claim, Stage.HELD if command.wait else Stage.COMING)
        held = Held(
            placement=placement,
            key=placement.key,
            command=command,
            task_type=task_type,
            holding=holding,
            reporter=Reporter(self._voice, placement),
            turn=asyncio.get_running_loop().create_future(),
            reserved=command.reserved,
            interrupts=command.interrupted,
        )
        try:
            self._shop.journal.write(placement)
        except OSError as error:
            return Refusal("journal_unwritable", f"{type(error).__name__}: {error}")
        older = [each for each in self.here.values() if each.placement.task_id == command.task_id]
        self._tokens.came(command.task_id, placement.token)
        self.here[held.key] = held
        self.ledger.put(held.key, holding)
        for each in older:
            each.stop(AttemptEnd.LOST)
        self.spawn(self._carry_out(held))
        self.advance()
        return None

    def bury(self, placement: Placement, end: AttemptEnd | None) -> None:
        """Says of a placement that was never seen that it has ended so, or is given back; it never runs."""
        self._tokens.buried(placement.task_id, placement.token)
        with contextlib.suppress(OSError):  # the log will hold it
            self._shop.journal.write(placement)
        reporter = Reporter(self._voice, placement)
        if end is not None:
            self._end(placement, reporter, {"end": end})
        else:
            self._return(placement, reporter)

    def give_back(self, device_id: str | None = None) -> None:
        """Gives back what has not begun, on one device or on all."""
        for held in list(self.here.values()):
            if not held.begun and (device_id is None or device_id in held.placement.device_ids):
                held.decide(GiveBack())

    async def end_all(self, grace_s: float) -> None:
        """Gives back or ends every placement, and waits until all processes are gone."""
        self.give_back()
        for held in list(self.here.values()):
            held.stop(AttemptEnd.LOST, grace_s)
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self.warm.end_all()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Runs something until it is done; `end_all` waits for it."""
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def advance(self) -> None:
        """Begins what has room now; nobody overtakes on a device that another one waits for."""
        awaited: set[str] = set()
        waiting = [held for held in self.here.values() if held.waits]
        for held in sorted(waiting, key=lambda held: held.holding.stage is not Stage.LOADED):
            devices = set(held.placement.device_ids)
            if not devices & awaited and self._room.to_train(held):
                self._begin(held)
            else:
                awaited |= devices
        self._load_early()
        self._give_up_waiting()

    def _begin(self, held: Held) -> None:
        self._room.take_process(held)
        holding = held.holding
        holding.claim, holding.stage = self.ledger.cut(held.claim), Stage.TRAINING
        held.blocked_s = None
        if held.run is not None:
            held.run.train()
        else:
            held.decide(Begin(trains=True))

    def _load_early(self) -> None:
        loaded = sum(held.holding.stage is Stage.LOADED for held in self.here.values())
        for held in self.here.values() if self._terms.load_early else ():
            if loaded >= self._terms.load_early:
                return
            if held.waits and not held.begun:
                if not self._room.to_load(held):
                    return
                self._room.take_process(held)
                held.holding.stage = Stage.LOADED
                held.decide(Begin(trains=False))
                loaded += 1

    def _give_up_waiting(self) -> None:
        """Gives back what no end of a task of ours will ever let begin: what waits for each other, or others.

        Of several that have loaded and fill the host, the one that came last makes room.
        """
        waiting = [held for held in self.here.values() if held.waits]
        if any(holding.stage in HAS_DEVICES for holding in self.ledger.holdings.values()):
            for held in waiting:
                held.blocked_s = None
            return
        loaded = [held for held in waiting if held.holding.stage is Stage.LOADED]
        if len(loaded) > 1 and any(self._room.alone(held) for held in waiting):
            log.warning("tasks wait for each other's memory: the last one makes room", task=loaded[-1].key)
            self._yield(loaded[-1])
            return
        for held in waiting:
            held.blocked_s = held.blocked_s or monotonic_s()
            if monotonic_s() - held.blocked_s > PATIENCE_S:
                log.warning("a task waits for memory that others have: given back", task=held.key)
                self._yield(held)

    def _yield(self, held: Held) -> None:
        if not held.begun:
            held.decide(GiveBack())
        else:
            held.holding.stage = Stage.GOING
            held.stop(AttemptEnd.PREEMPTED)

    async def _carry_out(self, held: Held) -> None:
        placement = held.placement
        match await held.turn:
            case Begin(trains):
                await self._run(held, trains)
            case GiveBack():
                self._leave(held)
                self._return(placement, held.reporter)
            case AttemptEnd() as end:
                self._leave(held)
                self._end(placement, held.reporter, {"end": end})

    async def _run(self, held: Held, trains: bool) -> None:
        placement = held.placement
        attributes = {"trackside.task": placement.task_id, "trackside.task_type": held.task_type.name}
        with context.start("run task", placement.traceparent or None, attributes) as traceparent:
            held.reporter = Reporter(self._voice, placement, traceparent)
            held.reporter.begin_anew(held.interrupts)
            self._tokens.begun(placement.task_id, placement.token)
            self._tokens.answered(placement.task_id, placement.token, held.reporter.accepted())
            ears = Ears(
                partial(self._interrupted, held), partial(self._gone, held), partial(self._stays, held)
            )
            held.run = run = Run(self._shop, self._job(held), held.reporter, ears, traceparent)
            if held.asked is not None:
                run.stop(*held.asked)
            self._count()
            process = self._group.create_task(run.to_end(trains or held.holding.stage is Stage.TRAINING))
            ending = await run.ended()
            # The log may have its end while the process goes: the next one on the device waits for that.
            if held.key in self.ledger.holdings:
                held.holding.stage = Stage.GOING
            self._tokens.left(placement.task_id, placement.token)
            self._end(placement, held.reporter, self._with_peaks(held, ending))
            self._count()
            await process
            held.reporter.flush()  # what was said after the end: nobody sends it once the worker has left
        self.here.pop(held.key, None)

    def _job(self, held: Held) -> Job:
        places = [self._places[device_id] for device_id in held.placement.device_ids]
        return Job(
            placement=held.placement,
            places=places,
            task_type=held.task_type,
            parameters=held.command.parameters,
            interrupts=held.command.interrupts,
            interrupted=held.command.interrupted,
            process=held.process,
            shared=not held.command.whole_device and all(place.device.kind == "gpu" for place in places),
        )

    def _interrupted(self, held: Held, said: Json) -> None:
        """Raises the reservation of a training that ran out of memory; it trains again once that fits."""
        if held.asked is not None:
            return
        peaks = self._with_peaks(held, said)
        on_host = said["resource"] == "host"
        most = peaks["peak_memory_bytes" if on_host else "peak_cuda_memory_bytes"]
        held.interrupts += 1
        grown = claim_of(held.command, raised(held.reserved, "host" if on_host else "device", most))
        cut = self.ledger.cut(grown)
        held.reserved = held.reserved.model_copy(
            update={
                "memory_bytes": cut.memory_bytes,
                "cuda_memory_bytes": cut.cuda_memory_bytes,
                "estimated_by": "raised",
            }
        )
        held.reporter.interrupted(held.interrupts, said["resource"], held.reserved, said["error"])
        metrics.counter("trackside.worker.interrupted.tasks").labels(resource=said["resource"]).inc()
        held.holding.stage = Stage.LOADED
        # Newcomers shall leave it the room that it waits for; of the host it has what it had.
        held.holding.claim = replace(held.holding.claim, cuda_memory_bytes=cut.cuda_memory_bytes)
        self.advance()

    def _with_peaks(self, held: Held, ending: Ending) -> Ending:
        seen, has = self.peak(held.key), held.holding
        has.saw(ending.get("peak_memory_bytes", 0), ending.get("peak_cuda_memory_bytes", 0))
        has.saw(seen.memory_bytes, seen.cuda_memory_bytes)
        return ending | {
            "peak_memory_bytes": has.peak_memory_bytes,
            "peak_cuda_memory_bytes": has.peak_cuda_memory_bytes,
        }

    def _gone(self, held: Held) -> None:
        """Frees what a placement had, the instant that its process is gone."""
        self.ledger.drop(held.key)
        held.holding.stage = Stage.GOING
        self.advance()

    def _stays(self, held: Held, process: Process, memory: Json) -> None:
        """Frees what a placement had, the instant that its process waits for another one."""
        self.ledger.drop(held.key)
        held.holding.stage = Stage.GOING
        self.warm.park(self._room.kind(held), process, held.placement.device_ids, memory)
        self.advance()

    def _leave(self, held: Held) -> None:
        self.ledger.drop(held.key)
        del self.here[held.key]
        self._tokens.left(held.placement.task_id, held.placement.token)
        self.advance()

    def _count(self) -> None:
        having = sum(held.holding.stage in (Stage.LOADED, Stage.TRAINING) for held in self.here.values())
        metrics.gauge("trackside.worker.running.tasks").set(having)

    def _return(self, placement: Placement, reporter: Reporter) -> None:
        returned = reporter.returned(partial(self._heard, placement))
        self._tokens.answered(placement.task_id, placement.token, returned)

    def _end(self, placement: Placement, reporter: Reporter, ending: Ending) -> None:
        event, _ = reporter.ended(ending, partial(self._heard, placement))
        self._tokens.answered(placement.task_id, placement.token, event)
        metrics.counter("trackside.worker.ended.tasks").labels(status=event.end.value).inc()
        if event.load_time_ms >= 0:
            metrics.histogram("trackside.worker.load.seconds").observe(event.load_time_ms / 1000)
        if event.train_time_ms >= 0:
            metrics.histogram("trackside.worker.train.seconds").observe(event.train_time_ms / 1000)

    def _heard(self, placement: Placement, _: Appended) -> None:
        self.spawn(self._shop.journal.forget(placement, self._terms.keep_workdirs))
