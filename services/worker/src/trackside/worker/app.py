"""Wires a worker together and lives its incarnations, one after another."""

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from trackside.contracts.fleet import WorkerJoined, WorkerLeft
from trackside.contracts.ids import new_id
from trackside.contracts.topics import Topics
from trackside.eventlog.author import Author
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Appended, Log, TopicPartition
from trackside.eventlog.serving import Service, run_service, until_fit
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.telemetry.health import Health
from trackside.worker import catalogue as catalogues
from trackside.worker.catalogue import Catalogue, CatalogueError
from trackside.worker.devices import Place, discover
from trackside.worker.incarnation import Incarnation
from trackside.worker.journal import Journal
from trackside.worker.locks import RETRY_S, Locks, try_lock
from trackside.worker.outbox import Outbox
from trackside.worker.processes import Forkserver, allowed_environment
from trackside.worker.recovery import settle_debts
from trackside.worker.reporter import Voice
from trackside.worker.runner import Workshop
from trackside.worker.settings import WorkerSettings

log = structlog.get_logger("trackside.worker")

LEAVE_S = 2.0
"""How long a worker that was told to leave waits for the log to take its last words."""
ASK_AGAIN_S = 0.5
Answer = TypeVar("Answer")


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
        places = discover(settings.cpu_slots)
        alone = await self._alone(data_dir / "worker.lock")
        forkserver = Forkserver(self._modules(), _environment(places))
        try:
            shop = Workshop(
                journal=Journal(data_dir),
                locks=Locks(data_dir / "locks"),
                forkserver=forkserver,
                host=dict(os.environ),
                stop_grace_s=settings.stop_grace_s,
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(forkserver.start())  # torch takes seconds to import: meanwhile, debts
                await self._lives(places, shop, group, leaving)
        finally:
            forkserver.close()
            os.close(alone)

    async def _lives(
        self, places: list[Place], shop: Workshop, group: asyncio.TaskGroup, leaving: asyncio.Event
    ) -> None:
        outbox = Outbox(self._log, self._health, group)
        voice = Voice(outbox, Author("worker", self.id), self._topics)
        while not leaving.is_set():
            await self._live_once(places, shop, voice, group, leaving)
        outbox.close()

    async def _live_once(
        self,
        places: list[Place],
        shop: Workshop,
        voice: Voice,
        group: asyncio.TaskGroup,
        leaving: asyncio.Event,
    ) -> None:
        """Settles what is owed, joins, works until it shall leave or is lost, and ends its tasks."""
        after = await settle_debts(shop.journal, shop.locks, voice, self._settings.keep_workdirs)
        devices = [self._topics.device(self.id, place.id) for place in places]
        await self._patiently(partial(self._log.ensure, devices))
        starts: dict[TopicPartition, int] = {}
        for topic in devices:
            starts[topic.name, 0] = (await self._patiently(partial(self._log.beginnings, topic.name)))[0]
        fleet_end = (await self._patiently(partial(self._log.ends, self._topics.fleet.name)))[0]
        keep = self._settings.keep_workdirs
        incarnation = Incarnation(new_id(), places, self._catalogue, shop, voice, group, keep)
        obeying = [
            group.create_task(incarnation.obey(self._log, starts), name="obey"),
            group.create_task(incarnation.watch_fleet(self._log, fleet_end), name="watch-fleet"),
        ]
        await shop.forkserver.start()
        await self._join(incarnation, places, voice, after)
        obeying.append(
            group.create_task(incarnation.beat(self._log, self._settings.heartbeat_interval_s), name="beat")
        )
        self.joined = self._health.ready = True
        await _first(leaving, incarnation.lost)
        self._health.ready = False
        for task in obeying[:2]:
            task.cancel()
        await self._end(incarnation, voice, leaving)
        obeying[2].cancel()
        await asyncio.gather(*obeying, return_exceptions=True)
        self.joined = False

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
        )
        in_log: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        voice.outbox.event(self._topics.fleet, voice.author.single(self.id, joined), in_log.set_result)
        await in_log
        log.info("joined", worker=self.id, incarnation=incarnation.id, devices=len(places))

    async def _end(self, incarnation: Incarnation, voice: Voice, leaving: asyncio.Event) -> None:
        if not leaving.is_set():
            log.warning("the log says this worker was lost: its tasks end here", worker=self.id)
            await incarnation.end_all(grace_s=0)
            return
        grace_s = self._settings.stop_grace_s
        await incarnation.end_all(max(grace_s - 1, grace_s / 2))
        left = WorkerLeft(worker_id=self.id, incarnation=incarnation.id)
        voice.outbox.event(self._topics.fleet, voice.author.single(self.id, left))
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

    async def _patiently(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Asks the log until it answers."""
        while True:
            try:
                answer = await ask()
            except TransientError as error:
                self._health.waiting("waiting for the log")
                log.info("the log doesn't answer", reason=str(error))
                await asyncio.sleep(ASK_AGAIN_S)
            else:
                self._health.waiting(None)
                return answer


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


def _environment(places: list[Place]) -> dict[str, str]:
    """Gives the forkserver's environment; numeric libraries get a slot's share of the cores, not all."""
    slots = max(1, sum(place.device.kind == "cpu" for place in places))
    share = str(max(1, (os.cpu_count() or 1) // slots))
    return {"OMP_NUM_THREADS": share, **allowed_environment(os.environ)}
