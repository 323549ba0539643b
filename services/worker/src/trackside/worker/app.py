"""Wires a worker together and lives its incarnations, one after another."""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import structlog

from trackside.contracts.fleet import WorkerJoined, WorkerLeft
from trackside.contracts.ids import new_id
from trackside.contracts.topics import HOST, Topics
from trackside.eventlog.log import Appended, Log, TopicPartition
from trackside.eventlog.record_writer import RecordWriter
from trackside.eventlog.retry import Response, retry_until_reachable
from trackside.eventlog.serving import Service, run_service, until_fit
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.telemetry.health import Health
from trackside.worker.attempts.attempt import Workshop
from trackside.worker.attempts.cgroups import cgroups_of
from trackside.worker.attempts.device_locks import RETRY_S, Locks, try_lock
from trackside.worker.attempts.forkserver_client import Forkserver, allowed_environment
from trackside.worker.attempts.memory_pressure import Pressure
from trackside.worker.catalogue import catalogue as catalogues
from trackside.worker.catalogue.catalogue import Catalogue, CatalogueError
from trackside.worker.host.devices import Place, discover
from trackside.worker.host.nvml import Nvml
from trackside.worker.host.sampler import Watch
from trackside.worker.host.usage import read_host
from trackside.worker.incarnation import Incarnation
from trackside.worker.monitor import Observing
from trackside.worker.placements.fencing import Tokens
from trackside.worker.placements.ledger import Ledger
from trackside.worker.placements.placements import Placements, Terms
from trackside.worker.recovery import settle_debts
from trackside.worker.reporting.journal import Journal
from trackside.worker.reporting.outbox import Outbox
from trackside.worker.reporting.reporter import Voice
from trackside.worker.settings import WorkerSettings

log = structlog.get_logger("trackside.worker")

LEAVE_S = 2.0
"""How long a worker that was told to leave waits for the log to take its last words."""
ASK_AGAIN_S = 0.5


def main() -> None:
    """Runs a worker until it is told to stop; exits with 2 if its catalogue can't be obeyed."""
    settings = read_settings(WorkerSettings)
    try:
        catalogue = catalogues.read(settings.catalogue)
    except CatalogueError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from error
    run_service("worker", read_settings(StackSettings), lambda service: _run(service, settings, catalogue))


async def _run(service: Service, settings: WorkerSettings, catalogue: Catalogue) -> None:
    topics = service.settings.topics
    if await until_fit(
        service, [topics.events, topics.fleet, topics.heartbeats, topics.metrics, topics.logs]
    ):
        worker = Worker(service.log, topics, settings, catalogue, service.health)
        await live_until(worker, service.stop)


async def live_until(worker: "Worker", leaving: asyncio.Event) -> None:
    """Lives until it is told to leave; gives up at once if it hasn't joined by then."""
    living = asyncio.create_task(worker.live(leaving))
    told = asyncio.create_task(leaving.wait())
    await asyncio.wait({living, told}, return_when=asyncio.FIRST_COMPLETED)
    if not worker.joined and not living.done():
        living.cancel()
    told.cancel()
    try:
        await living
    except asyncio.CancelledError:
        log.info("left before joining", worker=worker.id)


class Worker:
    """A worker on a log; `joined` says whether the fleet knows its current incarnation."""

    def __init__(
        self, log: Log, topics: Topics, settings: WorkerSettings, catalogue: Catalogue, health: Health
    ) -> None:
        self.id = settings.id
        self.joined = False
        self._log = log
        self._topics = topics
        self._settings = settings
        self._catalogue = catalogue
        self._health = health

    async def live(self, leaving: asyncio.Event) -> None:
        """Joins and works until it shall leave; joins again whenever the log says that it was lost."""
        settings = self._settings
        data_dir = settings.data_dir.resolve()
        data_dir.mkdir(parents=True, exist_ok=True)
        nvml = Nvml()
        places = discover(settings.cpu_slots, nvml)
        alone = await self._alone(data_dir / "worker.lock")
        forkserver = Forkserver(self._modules(), _environment(places))
        cgroups = cgroups_of(settings.id, data_dir, settings.max_processes)
        try:
            shop = Workshop(
                journal=Journal(data_dir),
                locks=Locks(data_dir / "locks"),
                forkserver=forkserver,
                host=dict(os.environ),
                stop_grace_s=settings.stop_grace_s,
                pressure=Pressure(),
                cgroups=cgroups,
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(forkserver.start())  # torch takes seconds to import: meanwhile, debts
                await self._lives(places, shop, nvml, group, leaving)
        finally:
            forkserver.close()
            cgroups.close()
            nvml.close()
            os.close(alone)

    async def _lives(
        self,
        places: list[Place],
        shop: Workshop,
        nvml: Nvml,
        group: asyncio.TaskGroup,
        leaving: asyncio.Event,
    ) -> None:
        outbox = Outbox(self._log, self._health, group)
        voice = Voice(outbox, RecordWriter("worker", self.id), self._topics)
        while not leaving.is_set():
            await self._live_once(places, shop, nvml, voice, group, leaving)
        outbox.close()

    async def _live_once(
        self,
        places: list[Place],
        shop: Workshop,
        nvml: Nvml,
        voice: Voice,
        group: asyncio.TaskGroup,
        leaving: asyncio.Event,
    ) -> None:
        """Settles what is owed, joins, works until it shall leave or is lost, and ends its tasks."""
        settings = self._settings
        after = await settle_debts(shop.journal, shop.locks, voice, settings.keep_workdirs)
        starts = await self._device_topics(places)
        fleet_end = (await self._patiently(partial(self._log.ends, self._topics.fleet.name)))[0]
        incarnation, watch = self._incarnation(places, shop, nvml, voice, group)
        observing = Observing(watch, incarnation.placements, shop.pressure, settings.watch_interval_s)
        obeying = [
            group.create_task(incarnation.obey(self._log, starts), name="obey"),
            group.create_task(incarnation.watch_fleet(self._log, fleet_end), name="watch-fleet"),
            group.create_task(observing.run(), name="observe"),
        ]
        await shop.forkserver.start()
        await self._join(incarnation, places, voice, after)
        beat = incarnation.beat(self._log, settings.heartbeat_interval_s, observing.seen)
        beating = group.create_task(beat, name="beat")
        obeying.append(group.create_task(incarnation.guard_exclusive(), name="guard"))
        self.joined = self._health.ready = True
        await _first(leaving, incarnation.lost)
        self._health.ready = False
        for task in obeying:
            task.cancel()
        await self._end(incarnation, voice, leaving)
        beating.cancel()
        await asyncio.gather(*obeying, beating, return_exceptions=True)
        self.joined = False

    async def _device_topics(self, places: list[Place]) -> dict[TopicPartition, int]:
        """Gives where to begin to read the topics of the devices, and of the host: with several devices."""
        names = [*(place.id for place in places), HOST]
        topics = [self._topics.device(self.id, name) for name in names]
        await self._patiently(partial(self._log.ensure, topics))
        starts: dict[TopicPartition, int] = {}
        for topic in topics:
            starts[topic.name, 0] = (await self._patiently(partial(self._log.beginnings, topic.name)))[0]
        return starts

    def _incarnation(
        self, places: list[Place], shop: Workshop, nvml: Nvml, voice: Voice, group: asyncio.TaskGroup
    ) -> tuple[Incarnation, Watch]:
        settings = self._settings
        reserve_bytes, memory_bytes = host_shares(settings.host_reserve)
        ledger = Ledger(
            devices={place.id: place.device for place in places},
            memory_bytes=memory_bytes,
            max_tasks=settings.max_tasks,
            reserve_bytes=reserve_bytes,
        )
        tokens = Tokens(new_id(), frozenset(self._catalogue.tasks))
        placements = Placements(
            {place.id: place for place in places},
            ledger,
            tokens,
            shop,
            voice,
            group,
            Terms(settings.load_early, settings.keep_workdirs),
        )
        incarnation = Incarnation(tokens, placements, self._catalogue, voice)
        watch = Watch(places, nvml, placements.owned, incarnation.device_failed, settings.watch_interval_s)
        placements.peak = watch.peak
        return incarnation, watch

    async def _join(
        self, incarnation: Incarnation, places: list[Place], voice: Voice, after: dict[str, int]
    ) -> None:
        joined = WorkerJoined(
            worker_id=self.id,
            incarnation=incarnation.id,
            host=socket.gethostname(),
            devices=[place.device for place in places],
            task_types=sorted(self._catalogue.tasks),
            queues=self._settings.queue_names,
            after=after,
            memory_bytes=incarnation.placements.ledger.memory_bytes,
            max_tasks=self._settings.max_tasks,
        )
        in_log: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        voice.outbox.event(self._topics.fleet, voice.writer.single(self.id, joined), in_log.set_result)
        await in_log
        log.info("joined", worker=self.id, incarnation=incarnation.id, devices=len(places))

    async def _end(self, incarnation: Incarnation, voice: Voice, leaving: asyncio.Event) -> None:
        if not leaving.is_set():
            log.warning("the log says this worker was lost: its tasks end here", worker=self.id)
            await incarnation.placements.end_all(grace_s=0)
            return
        grace_s = self._settings.stop_grace_s
        await incarnation.placements.end_all(max(grace_s - 1, grace_s / 2))
        left = WorkerLeft(worker_id=self.id, incarnation=incarnation.id)
        voice.outbox.event(self._topics.fleet, voice.writer.single(self.id, left))
        try:
            async with asyncio.timeout(LEAVE_S):
                await voice.outbox.drained()
        except TimeoutError:
            log.warning("left without the log's knowledge: it doesn't answer", worker=self.id)

    def _modules(self) -> list[str]:
        return list(dict.fromkeys([*self._settings.preload_modules, *self._catalogue.preload]))

    async def _alone(self, path: Path) -> int:
        """Waits until no other worker uses the data folder; gives the descriptor that says so."""
        while (descriptor := try_lock(path)) is None:
            self._health.waiting(f"another worker uses {path.parent}")
            await asyncio.sleep(RETRY_S)
        self._health.waiting(None)
        return descriptor

    async def _patiently(self, request: Callable[[], Awaitable[Response]]) -> Response:
        response = await retry_until_reachable(request, self._silent, ASK_AGAIN_S)
        self._health.waiting(None)
        return response

    def _silent(self, reason: str) -> None:
        self._health.waiting("waiting for the log")
        log.info("the log doesn't answer", reason=reason)


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


def host_shares(reserve_bytes: int) -> tuple[int, int]:
    """Gives what of the host's memory is for others, and what for tasks: never less than half."""
    total = read_host().memory_bytes
    kept = min(reserve_bytes, total // 2)
    return kept, total - kept


def _environment(places: list[Place]) -> dict[str, str]:
    """Gives the forkserver's environment; numeric libraries get a slot's share of the cores, not all."""
    slots = max(1, sum(place.device.kind == "cpu" for place in places))
    share = str(max(1, (os.cpu_count() or 1) // slots))
    return {"OMP_NUM_THREADS": share, **allowed_environment(os.environ)}
