"""Looks at the devices, the host and the tasks again and again, and says when a device has failed."""

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future as Promise
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from trackside.contracts.fleet import DeviceReading
from trackside.worker.host.devices import Place
from trackside.worker.host.nvml import GpuError, Nvml, Reading
from trackside.worker.host.usage import (
    CpuTime,
    Group,
    HostMemory,
    Usage,
    cpu_percent,
    foreign,
    foreign_on_host,
    host_cpu_percent,
    peak,
    read_cpu,
    read_groups,
    read_host,
    usage_of,
)

log = structlog.get_logger("trackside.worker")

FAILURES_ALLOWED = 2
"""Failed readings in a row that a device is forgiven; what is gone is gone at once."""
PATIENCE_S = 15.0
"""How long a driver may take to answer; it takes seconds to wake a GPU that nobody uses."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Owned:
    """A task's session of processes, led by `pid`, under the name that its caller knows it by.

    `cuda_memory_bytes` is what it was promised on each of its devices.
    """

    key: str
    pid: int
    device_ids: tuple[str, ...] = ()
    cuda_memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class TaskUse:
    """What a task uses now, and the most that it was seen to use."""

    usage: Usage
    peak: Usage


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All of it at one moment: GPUs that answer by device id, tasks by key.

    `cpu_percent` is 100 if all cores are busy; `foreign_bytes` of the host is used by no task of ours.
    """

    host: HostMemory
    cpu_percent: float
    foreign_bytes: int
    devices: Mapping[str, DeviceReading]
    tasks: Mapping[str, TaskUse]


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read of the host at a moment of the monotonic clock, s; groups by the pid of their leader."""

    at_s: float
    host: HostMemory
    cpu: CpuTime
    groups: Mapping[int, Group] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a device is doing: readings that failed in a row; why it counts as failed, and it does for good."""

    failures: int = 0
    reason: str = ""


def standing(before: Standing, answer: Reading | GpuError) -> Standing:
    """Judges a device by its latest answer. One that has failed stays so, or tasks would come and go."""
    if before.reason:
        return before
    if isinstance(answer, Reading):
        return Standing()
    failures = before.failures + 1
    return Standing(failures, answer.reason if answer.gone or failures > FAILURES_ALLOWED else "")


def task_uses(
    before: Sample | None,
    now: Sample,
    owned: Iterable[Owned],
    readings: Mapping[str, Reading],
    peaks: Mapping[str, Usage],
) -> dict[str, TaskUse]:
    """Gives what each task uses; one whose processes have all ended uses nothing, and keeps its peak."""
    uses = {}
    for task in owned:
        group = now.groups.get(task.pid, Group())
        earlier = before.groups.get(task.pid) if before is not None else None
        percent = cpu_percent(earlier, group, now.at_s - before.at_s) if before is not None else 0.0
        usage = usage_of(group, percent, readings)
        most = peak(peaks.get(task.key), usage)
        highest = Usage(group.peak_bytes, most.cuda_memory_bytes_by_device, most.cpu_percent)
        uses[task.key] = TaskUse(usage, peak(most, highest))
    return uses


def device_readings(
    readings: Mapping[str, Reading], groups: Iterable[Group], owned: Collection[Owned]
) -> dict[str, DeviceReading]:
    """Gives the devices as heartbeats tell of them."""
    own_pids = frozenset(pid for group in groups for pid in group.pids)
    return {
        device_id: DeviceReading(
            device_id=device_id,
            used_bytes=reading.used_bytes,
            foreign_bytes=foreign(
                reading,
                own_pids,
                sum(task.cuda_memory_bytes for task in owned if device_id in task.device_ids),
            ),
            utilisation=reading.utilisation_percent,
        )
        for device_id, reading in readings.items()
    }


class Watch:
    """Watches over one worker's devices and tasks from its join on.

    `owned` gives the tasks that have processes now. `failed` is called once for a device, with the reason.
    A driver that never answers keeps nobody waiting: its devices fail at the second look after `patience_s`.
    """

    def __init__(
        self,
        places: Iterable[Place],
        nvml: Nvml,
        owned: Callable[[], Collection[Owned]],
        failed: Callable[[str, str], None],
        interval_s: float = 1.0,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.snapshot: Snapshot | None = None
        self._uuids = {place.id: place.device.uuid for place in places if place.device.uuid}
        self._nvml = nvml
        self._owned = owned
        self._failed = failed
        self._interval_s = interval_s
        self._patience_s = patience_s
        self._sample: Sample | None = None
        self._peaks: dict[str, Usage] = {}
        self._standings = dict.fromkeys(self._uuids, Standing())
        self._asked: asyncio.Future[dict[str, Reading | GpuError]] | None = None
        self._asked_at_s = 0.0
        self._overdue = False
        self._answers: dict[str, Reading | GpuError] = {}

    async def run(self) -> None:
        """Looks again and again, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self._interval_s)

    async def look(self) -> Snapshot:
        """Looks once, now."""
        owned = list(self._owned())
        sample = await asyncio.to_thread(_sampled, [task.pid for task in owned])
        answers = await self._driver_answers()
        readings = {device_id: found for device_id, found in answers.items() if isinstance(found, Reading)}
        tasks = task_uses(self._sample, sample, owned, readings, self._peaks)
        self._sample, before = sample, self._sample
        self._peaks = {key: use.peak for key, use in tasks.items()}
        self.snapshot = Snapshot(
            host=sample.host,
            cpu_percent=host_cpu_percent(before.cpu, sample.cpu) if before is not None else 0.0,
            foreign_bytes=foreign_on_host(sample.host, (use.usage for use in tasks.values())),
            devices=device_readings(readings, sample.groups.values(), owned),
            tasks=tasks,
        )
        return self.snapshot

    def peak(self, key: str) -> Usage:
        """Gives the most that a task was seen to use, until the first look after it is owned no more."""
        return self._peaks.get(key, Usage())

    def _judge(self, answers: dict[str, Reading | GpuError]) -> None:
        self._answers = answers
        for device_id, answer in answers.items():
            before = self._standings[device_id]
            now = self._standings[device_id] = standing(before, answer)
            if now.reason and not before.reason:
                log.error("a device has failed", device=device_id, reason=now.reason)
                self._failed(device_id, now.reason)

    async def _driver_answers(self) -> dict[str, Reading | GpuError]:
        """Asks the driver, judges the devices by its answers; gives the last ones while it takes its time."""
        if not self._uuids:
            return {}
        if self._asked is None:
            self._asked_at_s = time.monotonic()
            self._asked = _in_thread(lambda: self._nvml.readings(self._uuids.values()))
        asked = self._asked
        await asyncio.wait({asked}, timeout=self._interval_s)
        if asked.done():
            self._asked = None if self._asked is asked else self._asked
            self._overdue = False
            by_uuid = asked.result()
            self._judge({device_id: by_uuid[uuid] for device_id, uuid in self._uuids.items()})
        elif (waited_s := time.monotonic() - self._asked_at_s) > self._patience_s:
            if self._overdue:  # still: the first time it may be this process that slept
                silent = GpuError(f"the driver has not answered for {waited_s:.0f} s", gone=True)
                self._judge(dict.fromkeys(self._uuids, silent))
            self._overdue = True
        return self._answers


def _sampled(pids: Collection[int]) -> Sample:
    return Sample(time.monotonic(), read_host(), read_cpu(), read_groups(pids))


def _in_thread(call: Callable[[], Answer]) -> asyncio.Future[Answer]:
    """Calls in a thread of its own, which keeps nobody from leaving if the call never returns."""
    promise: Promise[Answer] = Promise()
    promise.set_running_or_notify_cancel()  # from now on it can't be cancelled

    def work() -> None:
        try:
            promise.set_result(call())
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
            promise.set_exception(error)

    threading.Thread(target=work, name="nvml", daemon=True).start()
    return asyncio.wrap_future(promise)
