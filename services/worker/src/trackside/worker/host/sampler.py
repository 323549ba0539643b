"""Samples the devices, the host and the tasks, and reports failed devices."""

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future as Promise
from dataclasses import dataclass, field, replace
from typing import TypeVar

import structlog

from trackside.contracts.fleet.fleet import DeviceReading
from trackside.worker.host.devices import HostDevice
from trackside.worker.host.neighbours import Neighbour
from trackside.worker.host.nvml import GpuError, GpuReading, Nvml
from trackside.worker.host.usage import (
    CpuTime,
    HostMemory,
    SessionUsage,
    Usage,
    cpu_percent,
    foreign_bytes,
    foreign_on_host,
    highest_usage,
    host_cpu_percent,
    read_cpu,
    read_host,
    read_sessions,
    usage_of,
)

log = structlog.get_logger("trackside.worker")

FAILURES_ALLOWED = 2
"""Consecutive failed readings before a device counts as failed; a fatal error counts at once."""
DRIVER_TIMEOUT_S = 15.0
"""Seconds a driver may take to answer; to wake an idle GPU takes seconds."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class OwnedSession:
    """The processes of a task, or a warm process: `pid` leads their session, `key` is that of the allocation.

    `cuda_memory_bytes` is what it reserves on each of its devices. `idle_bytes` is the host memory of a warm
    process: it runs nothing that could change it, and is not measured, as that takes the kernel ms.
    """

    key: str
    pid: int
    device_ids: tuple[str, ...] = ()
    cuda_memory_bytes: int = 0
    idle_bytes: int | None = None

    def usage(self, measured: Mapping[int, SessionUsage]) -> SessionUsage:
        """Returns what its processes use, nothing if they have ended; `measured` is by `pid`."""
        if self.idle_bytes is None:
            return measured.get(self.pid, SessionUsage())
        return SessionUsage(frozenset((self.pid,)), self.idle_bytes, self.idle_bytes)


@dataclass(frozen=True, slots=True)
class TaskUse:
    """The usage of a task now, and the highest one measured."""

    usage: Usage
    peak: Usage


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Host, GPUs that answer (by device id) and tasks (by key) at one moment.

    `cpu_percent` is 100 if all cores are busy; `foreign_bytes` is host memory that others use.
    """

    host: HostMemory
    cpu_percent: float
    foreign_bytes: int
    devices: Mapping[str, DeviceReading]
    tasks: Mapping[str, TaskUse]


@dataclass(frozen=True, slots=True)
class HostSample:
    """One reading of the host at a monotonic time in seconds; sessions by the pid of their leader."""

    at_s: float
    host: HostMemory
    cpu: CpuTime
    sessions: Mapping[int, SessionUsage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """The health of a device: consecutive failed readings, and why it has failed for good (empty if not)."""

    failures: int = 0
    reason: str = ""


def next_health(before: DeviceHealth, answer: GpuReading | GpuError) -> DeviceHealth:
    """Returns the health of a device after another answer; a failed device stays failed."""
    if before.reason:
        return before
    if isinstance(answer, GpuReading):
        return DeviceHealth()
    failures = before.failures + 1
    return DeviceHealth(failures, answer.reason if answer.gone or failures > FAILURES_ALLOWED else "")


def task_uses(
    before: HostSample | None,
    now: HostSample,
    owned: Iterable[OwnedSession],
    readings: Mapping[str, GpuReading],
    peaks: Mapping[str, Usage],
) -> dict[str, TaskUse]:
    """Returns the usage of each task; one whose processes have ended uses nothing and keeps its peak."""
    uses = {}
    for task in owned:
        session = task.usage(now.sessions)
        earlier = before.sessions.get(task.pid) if before is not None else None
        percent = cpu_percent(earlier, session, now.at_s - before.at_s) if before is not None else 0.0
        usage = usage_of(session, percent, readings)
        most = highest_usage(peaks.get(task.key), usage)
        highest = Usage(session.peak_bytes, most.cuda_memory_bytes_by_device, most.cpu_percent)
        uses[task.key] = TaskUse(usage, highest_usage(most, highest))
    return uses


def device_readings(
    readings: Mapping[str, GpuReading],
    sessions: Mapping[int, SessionUsage],
    owned: Collection[OwnedSession],
    neighbours: Mapping[str, Collection[tuple[int, int]]] | None = None,
) -> dict[str, DeviceReading]:
    """Returns the devices as heartbeats report them.

    `neighbours` are (used, reserved) bytes of tasks of other workers on the host, by device.
    """
    own_pids = frozenset(pid for task in owned for pid in task.usage(sessions).pids)
    return {
        device_id: DeviceReading(
            device_id=device_id,
            used_bytes=reading.used_bytes,
            foreign_bytes=foreign_bytes(
                reading,
                own_pids,
                sum(task.cuda_memory_bytes for task in owned if device_id in task.device_ids),
                (neighbours or {}).get(device_id, ()),
            ),
            utilisation=reading.utilisation_percent,
        )
        for device_id, reading in readings.items()
    }


class HostSampler:
    """Samples the devices and tasks of one worker.

    `owned` returns the sessions that exist now, `neighbours` the other workers on the host. `failed` is
    called once for a failed device, with the reason.
    `cgroup_bytes` returns what the kernel has counted for the cgroup of a session; None without one.
    A driver that doesn't answer delays no sample: its devices fail at the second sample after
    `driver_timeout_s`.
    """

    def __init__(
        self,
        host_devices: Iterable[HostDevice],
        nvml: Nvml,
        owned: Callable[[], Collection[OwnedSession]],
        failed: Callable[[str, str], None],
        interval_s: float = 1.0,
        driver_timeout_s: float = DRIVER_TIMEOUT_S,
        neighbours: Callable[[], Collection[Neighbour]] = tuple,
    ) -> None:
        self.snapshot: Snapshot | None = None
        self._neighbours = neighbours
        self._uuids = {
            host_device.id: host_device.device.uuid for host_device in host_devices if host_device.device.uuid
        }
        self._nvml = nvml
        self._owned = owned
        self._failed = failed
        self._interval_s = interval_s
        self._driver_timeout_s = driver_timeout_s
        self.cgroup_bytes: Callable[[int], int | None] = lambda _: None
        self._sample: HostSample | None = None
        self._peaks: dict[str, Usage] = {}
        self._health = dict.fromkeys(self._uuids, DeviceHealth())
        self._pending: asyncio.Future[dict[str, GpuReading | GpuError]] | None = None
        self._asked_at_s = 0.0
        self._overdue = False
        self._answers: dict[str, GpuReading | GpuError] = {}

    async def run(self) -> None:
        """Takes samples until it is cancelled."""
        while True:
            await self.sample()
            await asyncio.sleep(self._interval_s)

    async def sample(self) -> Snapshot:
        """Takes one sample now."""
        owned = list(self._owned())
        pids = [task.pid for task in owned if task.idle_bytes is None]
        sample = await asyncio.to_thread(_sampled, pids, self.cgroup_bytes)
        answers = await self._driver_answers()
        readings = {device_id: found for device_id, found in answers.items() if isinstance(found, GpuReading)}
        tasks = task_uses(self._sample, sample, owned, readings, self._peaks)
        self._sample, before = sample, self._sample
        self._peaks = {key: use.peak for key, use in tasks.items()}
        self.snapshot = Snapshot(
            host=sample.host,
            cpu_percent=host_cpu_percent(before.cpu, sample.cpu) if before is not None else 0.0,
            foreign_bytes=foreign_on_host(sample.host, (use.usage for use in tasks.values())),
            devices=device_readings(readings, sample.sessions, owned, self._used_by_neighbours()),
            tasks=tasks,
        )
        return self.snapshot

    def _used_by_neighbours(self) -> dict[str, list[tuple[int, int]]]:
        neighbours = self._neighbours()
        return {
            device_id: [
                (each.used_bytes_by_uuid.get(uuid, 0), each.reserved_bytes(uuid)) for each in neighbours
            ]
            for device_id, uuid in self._uuids.items()
        }

    def peak(self, key: str) -> Usage:
        """Returns the highest measured usage of a task, until the first sample without it."""
        return self._peaks.get(key, Usage())

    def _update_health(self, answers: dict[str, GpuReading | GpuError]) -> None:
        self._answers = answers
        for device_id, answer in answers.items():
            before = self._health[device_id]
            now = self._health[device_id] = next_health(before, answer)
            if now.reason and not before.reason:
                log.error("a device has failed", device=device_id, reason=now.reason)
                self._failed(device_id, now.reason)

    async def _driver_answers(self) -> dict[str, GpuReading | GpuError]:
        """Returns the driver's answers, the last ones while it is slow, and updates the health of devices."""
        if not self._uuids:
            return {}
        if self._pending is None:
            self._asked_at_s = time.monotonic()
            self._pending = _in_thread(lambda: self._nvml.readings(self._uuids.values()))
        asked = self._pending
        await asyncio.wait({asked}, timeout=self._interval_s)
        if asked.done():
            self._pending = None if self._pending is asked else self._pending
            self._overdue = False
            by_uuid = asked.result()
            self._update_health({device_id: by_uuid[uuid] for device_id, uuid in self._uuids.items()})
        elif (waited_s := time.monotonic() - self._asked_at_s) > self._driver_timeout_s:
            if self._overdue:  # again: at the first time it may be this process that was suspended
                silent = GpuError(f"the driver has not answered for {waited_s:.0f} s", gone=True)
                self._update_health(dict.fromkeys(self._uuids, silent))
            self._overdue = True
        return self._answers


def _sampled(pids: Collection[int], cgroup_bytes: Callable[[int], int | None]) -> HostSample:
    found = read_sessions(pids)
    sessions = {pid: as_counted(session, cgroup_bytes(pid)) for pid, session in found.items()}
    return HostSample(time.monotonic(), read_host(), read_cpu(), sessions)


def as_counted(session: SessionUsage, counted_bytes: int | None) -> SessionUsage:
    """Returns a session's usage with what the kernel has counted for its cgroup, if it has one."""
    if counted_bytes is None:
        return session
    return replace(session, memory_bytes=counted_bytes, peak_bytes=max(session.peak_bytes, counted_bytes))


def _in_thread(call: Callable[[], _T]) -> asyncio.Future[_T]:
    """Calls a function in a daemon thread, so that the worker can exit even if the call never returns."""
    promise: Promise[_T] = Promise()
    promise.set_running_or_notify_cancel()  # from now on it can't be cancelled

    def work() -> None:
        try:
            promise.set_result(call())
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
            promise.set_exception(error)

    threading.Thread(target=work, name="nvml", daemon=True).start()
    return asyncio.wrap_future(promise)
