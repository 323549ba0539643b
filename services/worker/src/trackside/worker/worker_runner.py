"""Runs the incarnations of a worker, one after another."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import structlog

from trackside.artifacts.cache import Cache
from trackside.artifacts.errors import CredentialMissing
from trackside.artifacts.opening import load_credentials
from trackside.artifacts.settings import StoreSettings
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import HOST, Topics
from trackside.contracts.fleet.fleet import WorkerJoined, WorkerLeft
from trackside.eventlog.background import CANCEL_AGAIN_S
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.kafka.client_lifecycle import cancel_tasks
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Appended, Log, TopicPartition
from trackside.eventlog.log_id import claim_folder, log_name
from trackside.eventlog.retry import Response, retry_until_reachable
from trackside.telemetry.disk_limits import DiskLimits
from trackside.telemetry.disk_space import DiskWatch
from trackside.telemetry.health import Health
from trackside.telemetry.process_start import leave_out
from trackside.worker.artifacts.inputs import InputCache
from trackside.worker.artifacts.store_client import StoreProcess
from trackside.worker.attempts.device_locks import RETRY_S, DeviceLocks, try_lock
from trackside.worker.attempts.forkservers.forkserver_client import ForkserverClient, environment_of
from trackside.worker.attempts.forkservers.held_forkservers import pids_of, private_folder, take_over
from trackside.worker.attempts.memory.cgroups import cgroups_of
from trackside.worker.attempts.memory.memory_pressure import MemoryPressure
from trackside.worker.attempts.secret_source import secret_source
from trackside.worker.attempts.spec import AttemptContext
from trackside.worker.catalogue.built_in import BUILT_IN, BUILT_IN_SERVICES, environment_for_tasks
from trackside.worker.catalogue.catalogue_watch import CatalogueWatch, known_types
from trackside.worker.catalogue.task_catalogue import TaskCatalogue
from trackside.worker.host.devices import HostDevice, discover
from trackside.worker.host.neighbours import Neighbourhood
from trackside.worker.host.nvml import Nvml
from trackside.worker.host.sampler import HostSampler
from trackside.worker.host.shared_folder import SharedFolder
from trackside.worker.host.usage import memory_pool, read_host
from trackside.worker.incarnation import Incarnation
from trackside.worker.monitor import HostMonitor
from trackside.worker.placements.adoption import Survivor, adopt, survivors_of
from trackside.worker.placements.controller import PlacementController
from trackside.worker.placements.fencing import FencingTable
from trackside.worker.placements.ledger import Ledger
from trackside.worker.placements.local_placement import PlacementPolicy
from trackside.worker.recovery import report_missing_ends
from trackside.worker.reporting.journal import Journal
from trackside.worker.reporting.outbox import WorkerOutbox, offsets_after
from trackside.worker.reporting.reporter import EventNumbers, Publisher
from trackside.worker.settings import WorkerSettings

log = structlog.get_logger("trackside.worker")

LEAVE_S = 2.0
"""Seconds a leaving worker waits until its last events are in the log."""
RETRY_LOG_S = 0.5


class HandedOver(Exception):
    """The worker has ended, and its tasks run on for the next one."""


class WorkerRunner:
    """A worker on a log; `joined` is whether its current incarnation has joined the fleet.

    With `hands_over` it ends nothing when it leaves, and says nothing of it in the log: its tasks run on.
    """

    def __init__(
        self,
        log: Log,
        topics: Topics,
        settings: WorkerSettings,
        catalogue: TaskCatalogue,
        health: Health,
        disk_limits: DiskLimits | None = None,
        writer: RecordWriter | None = None,
    ) -> None:
        self.id = settings.id
        self.joined = self.hands_over = False
        self._log, self._topics = log, topics
        self._settings = settings
        self._writer = writer or RecordWriter("worker", self.id)
        self._catalogue = CatalogueWatch(settings.catalogue, catalogue)
        self._health = health
        self._shared_folder = SharedFolder(settings.host_dir)
        self._disk = DiskWatch([settings.data_dir], disk_limits or DiskLimits())

    async def run(self, leaving: asyncio.Event) -> None:
        """Joins and works until `leaving` is set; joins again each time it was declared lost.

        Raises HandedOver, in a group.
        """
        settings = self._settings
        data_dir = settings.data_dir.resolve()
        data_dir.mkdir(parents=True, exist_ok=True)
        nvml = Nvml()
        host_devices = discover(settings.cpu_slots, nvml)
        data_dir_lock = await self._lock_data_dir(data_dir / "worker.lock")
        sockets = private_folder(data_dir / "forkservers") if settings.adopt else None
        forkserver = ForkserverClient(self._modules(), environment_of(settings.cpu_slots), sockets)
        forkserver.earlier, processes = await take_over(data_dir / "forkservers")
        spared = pids_of(processes)
        cgroups = cgroups_of(settings.id, data_dir, settings.max_processes, spared=spared)
        self._health.facts["memory_limits"] = cgroups.enforcement
        neighbourhood, store = Neighbourhood(self._shared_folder, data_dir), StoreProcess(os.environ)
        cache_dir = settings.cache_dir or data_dir / "cache"
        cache = Cache(cache_dir, settings.cache_bytes, settings.cache_entries)
        uuids = {each.id: each.device.uuid for each in host_devices if each.device.uuid}
        try:
            claim_folder(data_dir, await self._retry(partial(log_name, self._log, self._topics)))
            context = AttemptContext(
                journal=Journal(data_dir),
                locks=DeviceLocks(data_dir / "locks", self._shared_folder, uuids),
                forkserver=forkserver,
                host=environment_for_tasks(os.environ),
                stop_grace_s=settings.stop_grace_s,
                pressure=MemoryPressure(),
                cgroups=cgroups,
                neighbourhood=neighbourhood,
                store=store,
                spool_bytes=settings.spool_bytes,
                upload_timeout_s=settings.upload_timeout_s,
                inputs=InputCache(store, cache),
                secrets=secret_source(settings),
            )
            survivors = await survivors_of(context, processes, {each.id for each in host_devices})
            async with asyncio.TaskGroup() as group:
                group.create_task(forkserver.start())  # importing torch takes seconds: meanwhile recover
                await self._run_incarnations(host_devices, context, nvml, group, leaving, survivors)
            cgroups.close()
            context.journal.close()
        except BaseException as error:
            # After a failure the tasks run on, as after a kill; one that is cancelled hasn't joined yet.
            if not isinstance(error, asyncio.CancelledError):
                forkserver.disconnect()
            raise
        finally:
            forkserver.close()
            await store.close()
            neighbourhood.close()
            nvml.close()
            os.close(data_dir_lock)

    async def _run_incarnations(
        self,
        host_devices: list[HostDevice],
        context: AttemptContext,
        nvml: Nvml,
        group: asyncio.TaskGroup,
        leaving: asyncio.Event,
        survivors: list[Survivor],
    ) -> None:
        outbox = WorkerOutbox(self._log, self._health, group)
        publisher = Publisher(outbox, self._writer, self._topics)
        while not leaving.is_set():
            await self._run_incarnation(host_devices, context, nvml, publisher, group, leaving, survivors)
            survivors = []
        if self.hands_over:
            raise HandedOver
        outbox.close()

    async def _run_incarnation(
        self,
        host_devices: list[HostDevice],
        context: AttemptContext,
        nvml: Nvml,
        publisher: Publisher,
        group: asyncio.TaskGroup,
        leaving: asyncio.Event,
        survivors: list[Survivor],
    ) -> None:
        """Recovers, joins, works until `leaving` is set or it is lost, and ends its tasks.

        Tasks that are `survivors` of an earlier worker are adopted before it joins.
        """
        settings, name = self._settings, new_id()
        surviving = [survivor.entry for survivor in survivors]
        ended = await report_missing_ends(context, publisher, settings, name, surviving)
        publisher = replace(publisher, numbers=EventNumbers())
        starts = await self._device_topics(host_devices)
        fleet_start = (await self._retry(partial(self._log.beginnings, self._topics.fleet.name)))[0]
        incarnation, sampler = self._incarnation(name, host_devices, context, nvml, publisher, group)
        monitor = HostMonitor(
            sampler,
            incarnation.placements,
            context.pressure,
            settings.watch_interval_s,
            partial(self._check_disk, context.journal),
        )
        background = [
            group.create_task(incarnation.execute_commands(self._log, starts), name="execute-commands"),
            group.create_task(incarnation.watch_fleet(self._log, fleet_start), name="watch-fleet"),
            group.create_task(monitor.run(), name="monitor"),
        ]
        adopted = await adopt(survivors, name, incarnation.placements, context, publisher)
        if not survivors:  # their lease ends soon; new ones can wait for the forkserver
            await context.forkserver.start()
        keep_s = context.forkserver.keep_for_a_start(settings.keep_tasks_s)
        await self._join(incarnation, host_devices, publisher, offsets_after([*ended, *adopted]), keep_s)
        incarnation.placements.follow_adopted()
        send_heartbeats = incarnation.send_heartbeats(
            self._log, settings.heartbeat_interval_s, monitor.with_readings, context.forkserver.contact
        )
        heartbeats = group.create_task(send_heartbeats, name="heartbeats")
        background.append(group.create_task(incarnation.guard_exclusive(), name="guard"))
        watch = self._catalogue.run(incarnation.use_catalogue)
        background.append(group.create_task(watch, name="watch-catalogue"))
        self.joined = self._health.ready = True
        await _wait_for_first(leaving, incarnation.lost)
        self._health.ready = False
        for task in background:
            task.cancel()
        await self._end(incarnation, publisher, leaving)
        heartbeats.cancel()
        await cancel_tasks([*background, heartbeats], CANCEL_AGAIN_S)
        self.joined = False

    def _check_disk(self, journal: Journal) -> str:
        """Returns what keeps new tasks from being started, "" if nothing does."""
        sentence = self._disk.check() or journal.obstacle()
        self._health.set_disk_low(sentence)
        return sentence

    async def _device_topics(self, host_devices: list[HostDevice]) -> dict[TopicPartition, int]:
        """Creates the topics of the devices and the host; returns the offsets to read them from."""
        names = [*(host_device.id for host_device in host_devices), HOST]
        topics = [self._topics.device(self.id, name) for name in names]
        await self._retry(partial(self._log.ensure, topics))
        starts: dict[TopicPartition, int] = {}
        for topic in topics:
            starts[topic.name, 0] = (await self._retry(partial(self._log.beginnings, topic.name)))[0]
        return starts

    def _incarnation(
        self,
        name: str,
        host_devices: list[HostDevice],
        context: AttemptContext,
        nvml: Nvml,
        publisher: Publisher,
        group: asyncio.TaskGroup,
    ) -> tuple[Incarnation, HostSampler]:
        settings = self._settings
        reserve_bytes, memory_bytes = split_host_memory(settings.host_reserve)
        ledger = Ledger(
            devices={host_device.id: host_device.device for host_device in host_devices},
            memory_bytes=memory_bytes,
            max_tasks=settings.max_tasks,
            reserve_bytes=reserve_bytes,
            memory_pool=memory_pool(),
        )
        known = self._catalogue.current
        fencing = FencingTable(name, frozenset((*known.tasks, *BUILT_IN)), known.services | BUILT_IN_SERVICES)
        placements = PlacementController(
            {host_device.id: host_device for host_device in host_devices},
            ledger,
            fencing,
            context,
            publisher,
            group,
            PlacementPolicy(settings.load_early, settings.keep_workdirs),
        )
        incarnation = Incarnation(fencing, placements, known, publisher, _credential_names())
        sampler = HostSampler(
            host_devices,
            nvml,
            placements.owned,
            incarnation.device_failed,
            settings.watch_interval_s,
            neighbours=lambda: ledger.neighbours,
        )
        placements.peak = sampler.peak
        sampler.cgroup_bytes = context.cgroups.used_bytes
        return incarnation, sampler

    async def _join(
        self,
        incarnation: Incarnation,
        host_devices: list[HostDevice],
        publisher: Publisher,
        after: dict[str, int],
        keep_s: float,
    ) -> None:
        joined = WorkerJoined(
            worker_id=self.id,
            incarnation=incarnation.id,
            host=socket.gethostname(),
            devices=[host_device.device for host_device in host_devices],
            queues=self._settings.queue_names,
            after=after,
            memory_bytes=incarnation.placements.ledger.memory_bytes,
            max_tasks=self._settings.max_tasks,
            memory_pool=incarnation.placements.ledger.memory_pool,
            credentials=sorted(incarnation.credentials),
            built_in=sorted(BUILT_IN),
            keep_ms=int(keep_s * 1000),
            **known_types(self._catalogue.current),
        )
        in_log: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        fleet, writer = self._topics.fleet, publisher.writer
        record = writer.signed(fleet, writer.single(self.id, joined, sequence=publisher.draw_number()))
        publisher.outbox.event(fleet, record, in_log.set_result)
        incarnation.joined_at = (await in_log).offset
        log.info("joined", worker=self.id, incarnation=incarnation.id, devices=len(host_devices))

    async def _end(self, incarnation: Incarnation, publisher: Publisher, leaving: asyncio.Event) -> None:
        if self.hands_over and not incarnation.lost.is_set():
            log.info("hands its tasks over to the next worker", tasks=len(incarnation.placements.active))
            await self._drain(publisher)
            return
        if not leaving.is_set():
            log.warning("this worker was declared lost: its tasks end", worker=self.id)
            await incarnation.placements.end_all(grace_s=0)
            return
        grace_s = self._settings.stop_grace_s
        await incarnation.placements.end_all(max(grace_s - 1, grace_s / 2))
        incarnation.report(WorkerLeft(worker_id=self.id, incarnation=incarnation.id))
        await self._drain(publisher)

    async def _drain(self, publisher: Publisher) -> None:
        try:
            async with asyncio.timeout(LEAVE_S):
                await publisher.outbox.drained()
        except TimeoutError:
            log.warning("left without reporting it: the log is unreachable", worker=self.id)

    def _modules(self) -> list[str]:
        return list(dict.fromkeys([*self._settings.preload_modules, *self._catalogue.current.preload]))

    async def _lock_data_dir(self, path: Path) -> int:
        """Waits until no other worker uses the data directory; returns the descriptor of its lock."""
        waits_from_s = monotonic_s()
        waiting = False
        while (descriptor := try_lock(path)) is None:
            if not waiting:
                waiting = True
                self._health.waiting(f"another worker uses {path.parent}")
                log.warning(
                    "waiting until the other worker that uses this folder ends: each needs one of its own",
                    worker=self.id,
                    data_dir=str(path.parent),
                )
            await asyncio.sleep(RETRY_S)
        if waiting:
            log.info("the other worker that used this folder has ended", worker=self.id)
        self._health.waiting(None)
        leave_out(monotonic_s() - waits_from_s)
        return descriptor

    async def _retry(self, request: Callable[[], Awaitable[Response]]) -> Response:
        response = await retry_until_reachable(request, self._log_unreachable, RETRY_LOG_S)
        self._health.waiting(None)
        return response

    def _log_unreachable(self, reason: str) -> None:
        self._health.waiting("waiting for the log")
        log.info("the log is unreachable", reason=reason)


async def _wait_for_first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


def split_host_memory(reserve_bytes: int) -> tuple[int, int]:
    """Returns the bytes of host memory for others and for tasks: at least half is for tasks."""
    total = read_host().memory_bytes
    reserved = min(reserve_bytes, total // 2)
    return reserved, total - reserved


def _credential_names() -> list[str]:
    """Returns the names of the credentials of this host: none if their file can't be used."""
    try:
        return load_credentials(StoreSettings()).names
    except CredentialMissing as error:
        log.error("this host's credentials can't be used", reason=str(error))
        return []
