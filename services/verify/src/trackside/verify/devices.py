"""INV-4: nobody has a device, or memory, that others have. What each placement has, and for how long.

Placements on one device belong to streams of different partitions, so they are put in order by the log's
clock. Where two overlap by a little, the worker's own clock decides: what it said in one order may land in
another, in two partitions. Memory is what was reserved; what a task was seen to use is not in the log.
"""

import heapq
from dataclasses import dataclass, field

from trackside.verify.findings import Findings, Where
from trackside.verify.fleet import Life

GPU = "gpu-"
"""What ids of devices begin with that may be shared, where their worker has not said what they are."""


@dataclass(slots=True, eq=False)
class Use:
    """What a task has from a moment on, in ms of the log's clock; `until_ms` is None while it has it.

    `said_from` and `said_until` are the same moments by the worker's clock, RFC 3339, empty if it didn't say.
    `room_bytes` is all that there is (0: nobody knows), `most` how many uses at once (0: any number).
    """

    place: Where
    task_id: str
    since_ms: int
    said_from: str
    memory_bytes: int
    whole: bool = False
    room_bytes: int = 0
    most: int = 0
    until_ms: int | None = None
    said_until: str = ""

    def end(self, time_ms: int, said: str) -> None:
        """Notes when it ended, unless it has."""
        if self.until_ms is None or time_ms < self.until_ms:
            self.until_ms, self.said_until = time_ms, said

    def is_over(self, before: "Use") -> bool:
        """Says whether it had ended when another one began."""
        return self.until_ms is not None and self.until_ms <= before.since_ms

    def was_over(self, before: "Use") -> bool:
        """Says whether its worker says that it had ended when another one began."""
        return bool(self.said_until) and bool(before.said_from) and self.said_until < before.said_from


@dataclass(slots=True)
class Floor:
    """A device, or the memory of a host: the uses that are to be judged, and those that are going on."""

    name: str
    _waiting: list[tuple[int, int, Use]] = field(default_factory=list)
    _going: list[Use] = field(default_factory=list)

    def add(self, use: Use, number: int) -> None:
        """Takes in a use; `number` orders those of one moment."""
        heapq.heappush(self._waiting, (use.since_ms, number, use))

    def settle(self, before_ms: float, findings: Findings) -> bool:
        """Judges what began before a moment up to which everything is known; says whether that was all."""
        while self._waiting and self._waiting[0][0] < before_ms:
            use = heapq.heappop(self._waiting)[2]
            if use.is_over(use):
                continue
            self._going = [other for other in self._going if not other.is_over(use)]
            others = [other for other in self._going if not other.was_over(use)]
            self._going.append(use)
            findings.checked["INV-4"] += 1
            if message := self._offence(use, others):
                findings.add("INV-4", use.place, message)
        self._going = [use for use in self._going if use.until_ms is None or use.until_ms > before_ms]
        return not self._waiting and not self._going

    def _offence(self, use: Use, others: list[Use]) -> str:
        whole = next((other for other in others if other.whole or use.whole), None)
        if whole is not None:
            return f"{self.name} has task {use.task_id} while it has {whole.task_id}"
        if use.most and len(others) >= use.most:
            return f"{self.name} has {len(others) + 1} tasks, it takes {use.most}"
        taken = use.memory_bytes + sum(other.memory_bytes for other in others)
        if use.room_bytes and taken > use.room_bytes:
            names = ", ".join(sorted(other.task_id for other in others)) or "nothing"
            return (
                f"{self.name} has {use.room_bytes} bytes of memory, and {taken} are reserved: "
                f"task {use.task_id} beside {names}"
            )
        return ""


@dataclass(slots=True)
class Holding:
    """What one placement has now: its use of the host, and one of each device that it has."""

    task_id: str
    worker_id: str
    device_ids: tuple[str, ...]
    life: Life | None
    whole: bool
    host: Use | None = None
    devices: list[Use] = field(default_factory=list)


@dataclass(slots=True)
class Uses:
    """All floors. What an incarnation has ends with it at the latest."""

    findings: Findings
    _floors: dict[str, Floor] = field(default_factory=dict)
    _number: int = 0

    def host(self, holding: Holding, place: Where, time_ms: int, said: str, memory_bytes: int) -> None:
        """A placement has its process from now on, with so much memory of the host."""
        if holding.host is not None:
            holding.host.end(time_ms, said)
        holding.host = Use(place, holding.task_id, time_ms, said, memory_bytes)
        if holding.life is not None:
            holding.host.room_bytes, holding.host.most = holding.life.memory_bytes, holding.life.max_tasks
        self._add(holding, f"host {holding.worker_id}", holding.host)

    def devices(self, holding: Holding, place: Where, time_ms: int, said: str, cuda_bytes: int) -> None:
        """A placement has its devices from now on, if it hadn't, with so much memory of each."""
        if holding.devices:
            return
        for device_id in holding.device_ids:
            shared, room_bytes = _sharing(holding.life, device_id)
            use = Use(place, holding.task_id, time_ms, said, cuda_bytes)
            use.whole, use.room_bytes = holding.whole or not shared, room_bytes
            holding.devices.append(use)
            self._add(holding, f"device {holding.worker_id}/{device_id}", use)

    def leave_devices(self, holding: Holding, time_ms: int, said: str) -> None:
        """A placement has its devices no more."""
        for use in holding.devices:
            use.end(time_ms, said)
        holding.devices = []

    def leave(self, holding: Holding, time_ms: int, said: str) -> None:
        """A placement has nothing any more."""
        self.leave_devices(holding, time_ms, said)
        if holding.host is not None:
            holding.host.end(time_ms, said)
            holding.host = None

    def settle(self, before_ms: float) -> None:
        """Judges what began before a moment up to which all partitions were read."""
        for name, floor in list(self._floors.items()):
            if floor.settle(before_ms, self.findings):
                del self._floors[name]

    def _add(self, holding: Holding, name: str, use: Use) -> None:
        if holding.life is not None and holding.life.gone_ms is not None:
            use.until_ms = holding.life.gone_ms
        floor = self._floors.get(name)
        if floor is None:
            floor = self._floors[name] = Floor(name)
        self._number += 1
        floor.add(use, self._number)


def _sharing(life: Life | None, device_id: str) -> tuple[bool, int]:
    """Says whether several tasks may have a device, and how much memory it has."""
    device = None if life is None else life.devices.get(device_id)
    if device is None:
        return device_id.startswith(GPU), 0
    return (True, device.memory_bytes) if device.kind == "gpu" else (False, 0)
