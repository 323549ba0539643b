"""Where a task fits: on free devices, or behind a task that runs. Pure."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from trackside.contracts.memory import MAX_BYTES
from trackside.contracts.tasks import Reservation
from trackside.scheduler.estimates import Amount, Want
from trackside.scheduler.occupancy import Booking, Gates, Host, Slot
from trackside.scheduler.requirements import Requirements

ORDERS = ("FIRST-FIT", "REMAIN-MEM", "TOTAL-MEM", "UTILISATION")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Devices of one host on which a task fits, and what is reserved for it there."""

    host: Host
    slots: tuple[Slot, ...]
    reserved: Reservation

    @property
    def device_ids(self) -> list[str]:
        """The ids of the devices."""
        return [slot.device.device_id for slot in self.slots]

    def booking(
        self, task_id: str, requirements: Requirements, *, behind: bool = False, nominated: bool = False
    ) -> Booking:
        """Gives the booking of a task that gets this place."""
        return Booking(
            task_id=task_id,
            device_ids=tuple(self.device_ids),
            memory=self.reserved.memory_bytes,
            cuda=self.reserved.cuda_memory_bytes,
            whole=requirements.whole,
            behind=behind,
            nominated=nominated,
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for every placement: the gates, and the order in which devices are tried."""

    gates: Gates = field(default_factory=Gates)
    order: str = "FIRST-FIT"

    def key(self, slot: Slot) -> float:
        """Gives what sorts a device: the smallest is tried first."""
        reverse = self.order.startswith("-")
        match self.order.removeprefix("-"):
            case "REMAIN-MEM":
                found = -float(slot.free if slot.is_gpu else slot.device.memory_bytes)
            case "TOTAL-MEM":
                found = -float(slot.device.memory_bytes)
            case "UTILISATION":
                found = slot.utilisation if slot.is_gpu else float(bool(slot.bookings)) * 100
            case _:
                found = float(slot.rank)
        return -found if reverse else found


def device_bytes(slot: Slot, requirements: Requirements, amount: Amount, gates: Gates) -> int | None:
    """Gives what a task gets on a GPU, bytes, or None if it doesn't fit beside those who are there."""
    others = slot.bookings
    if others and (requirements.whole or slot.is_whole):
        return None
    total = slot.device.memory_bytes
    if total == 0:
        return amount.size_bytes
    need = min(amount.size_bytes, total) if amount.by == "default" else amount.size_bytes
    kept = max(int(total * gates.device_share), gates.device_bytes) if others else 0
    free = slot.free
    if need <= free - kept:
        return None if slot.waiting is not None and delays(slot, need) else need
    if not others and not amount.is_said and need <= min(total, 2 * free):
        return free
    return None


def delays(slot: Slot, newcomer: int) -> bool:
    """Says whether the task that waits behind others would wait for one more end than without a newcomer."""
    assert slot.waiting is not None
    room = slot.device.memory_bytes - slot.foreign - slot.waiting.cuda
    running = sorted(booking.cuda for booking in slot.bookings.values() if booking is not slot.waiting)
    if slot.waiting.whole:
        return True
    left = sum(running)
    while running and left > room:
        left -= running.pop()
    return left + newcomer > room


def host_bytes(host: Host, slots: Iterable[Slot], amount: Amount, gates: Gates) -> int | None:
    """Gives what a task gets of the host's memory, bytes, or None if it doesn't fit.

    A default is no more than the CPU slots' share of their host, and never keeps a task off a slot.
    """
    share = sum(slot.device.memory_bytes for slot in slots if not slot.is_gpu)
    by_default = amount.by == "default"
    need = min(amount.size_bytes, share) if by_default and share else amount.size_bytes
    total = host.worker.memory_bytes
    if total == 0:
        return need
    need = min(need, total) if by_default else need
    kept = max(int(total * gates.host_share), gates.host_bytes) if host.bookings else 0
    free = host.free
    if need <= free - kept:
        return need
    if by_default and share:
        return max(0, min(need, free))
    if not host.bookings and not amount.is_said and need <= min(total, 2 * free):
        return free
    return None


def candidate_on(
    host: Host, slots: tuple[Slot, ...], requirements: Requirements, want: Want, gates: Gates
) -> Candidate | None:
    """Gives the place that a task has on these free devices, if it fits."""
    cuda = 0
    for slot in slots:
        if not slot.is_gpu:
            if slot.bookings:
                return None
            continue
        found = device_bytes(slot, requirements, want.cuda, gates)
        if found is None:
            return None
        cuda = max(cuda, found)
    memory = host_bytes(host, slots, want.memory, gates)
    if memory is None or not host.has_room(gates):
        return None
    return Candidate(host, slots, _reservation(memory, cuda, want, slots[0].is_gpu))


def _reservation(memory: int, cuda: int, want: Want, with_cuda: bool) -> Reservation:
    return Reservation(
        memory_bytes=memory, cuda_memory_bytes=cuda, estimated_by=want.estimated_by(with_cuda=with_cuda)
    )


def multi_device_candidate(
    host: Host, requirements: Requirements, want: Want, rules: Rules, usable: Callable[[Slot], bool]
) -> Candidate | None:
    """Gives n devices of one kind of a host on which a task fits: the first n in order."""
    for kind in ("gpu", "cpu"):
        fitting = [
            slot
            for slot in host.matching_devices(requirements)
            if slot.device.kind == kind
            and usable(slot)
            and _fits_alone(slot, requirements, want, rules.gates)
        ]
        if len(fitting) >= requirements.devices:
            fitting.sort(key=lambda slot: (rules.key(slot), slot.rank))
            candidate = candidate_on(
                host, tuple(fitting[: requirements.devices]), requirements, want, rules.gates
            )
            if candidate is not None:
                return candidate
    return None


def _fits_alone(slot: Slot, requirements: Requirements, want: Want, gates: Gates) -> bool:
    if slot.is_gpu:
        return device_bytes(slot, requirements, want.cuda, gates) is not None
    return not slot.bookings


def candidate_behind(host: Host, slot: Slot, want: Want, gates: Gates) -> Candidate | None:
    """Gives the place behind those who have a device now: one task may wait there, not more."""
    bookings = slot.bookings.values()
    if not bookings or slot.waiting is not None or any(other.nominated for other in bookings):
        return None
    if all(other.stopping for other in bookings) or not host.has_room(gates):
        return None
    cuda = 0
    if slot.is_gpu:
        alone = slot.device.memory_bytes - slot.foreign
        cuda = want.cuda.size_bytes
        if not want.cuda.is_said and slot.device.memory_bytes:
            cuda = min(cuda, alone)
        if slot.device.memory_bytes and cuda > alone:
            return None
    elif host.worker.memory_bytes and want.memory.by == "default" and host.free <= 0:
        return None
    memory = host_bytes(host, (slot,), want.memory, gates)
    if memory is None:
        return None
    return Candidate(host, (slot,), _reservation(memory, cuda, want, slot.is_gpu))


class CandidateScan:
    """The places for tasks that ask for the same, best first; what doesn't fit isn't looked at again.

    That is right as long as places only fill up while it is used. `key` orders devices, `fit` gives the
    place on one (or on its host, for several), or None.
    """

    def __init__(
        self,
        units: Iterable[tuple[Host, Slot]],
        key: Callable[[Slot], float],
        fit: Callable[[Host, Slot], Candidate | None],
    ) -> None:
        self._heap = [(key(slot), slot.rank, host, slot) for host, slot in units]
        heapq.heapify(self._heap)
        self._key = key
        self._fit = fit

    def best(self) -> Candidate | None:
        """Gives the best place that is there now, None if there is none."""
        heap = self._heap
        while heap:
            key, rank, host, slot = heap[0]
            now = self._key(slot)
            if now > key:
                heapq.heapreplace(heap, (now, rank, host, slot))
                continue
            candidate = self._fit(host, slot)
            if candidate is not None:
                return candidate
            heapq.heappop(heap)
        return None


class FirstFitScan:
    """The same, of devices that come in their order: no more of them are looked at than are needed."""

    def __init__(
        self, units: Iterable[tuple[Host, Slot]], fit: Callable[[Host, Slot], Candidate | None]
    ) -> None:
        self._units = iter(units)
        self._next = next(self._units, None)
        self._fit = fit

    def best(self) -> Candidate | None:
        """Gives the best place that is there now, None if there is none."""
        while self._next is not None:
            candidate = self._fit(*self._next)
            if candidate is not None:
                return candidate
            self._next = next(self._units, None)
        return None


def scan_free(
    hosts: Sequence[Host],
    requirements: Requirements,
    want: Want,
    rules: Rules,
    usable: Callable[[Slot], bool],
) -> CandidateScan | FirstFitScan:
    """Searches for places on devices that have room now; `usable` says which are not left alone."""
    gates = rules.gates

    def fit(host: Host, slot: Slot) -> Candidate | None:
        if requirements.devices > 1:
            return multi_device_candidate(host, requirements, want, rules, usable)
        return candidate_on(host, (slot,), requirements, want, gates)

    if rules.order == "FIRST-FIT":
        ranked = sorted(hosts, key=_rank)
        return FirstFitScan(_with_room(ranked, requirements, want, rules, usable), fit)
    return CandidateScan(_with_room(hosts, requirements, want, rules, usable), rules.key, fit)


def _rank(of: Host | Slot) -> int:
    return of.rank


def _with_room(
    hosts: Iterable[Host],
    requirements: Requirements,
    want: Want,
    rules: Rules,
    usable: Callable[[Slot], bool],
) -> Iterator[tuple[Host, Slot]]:
    least = least_on_gpu(requirements, want)
    for host in hosts:
        openings = host.openings
        if not (openings.idle or openings.gpus):
            continue
        free = openings.free(requirements, least)
        if not free or not host.serves(requirements) or not host.has_room(rules.gates):
            continue
        found = sorted([slot for slot in free if usable(slot)], key=_rank)
        if requirements.devices == 1:
            yield from ((host, slot) for slot in found)
        elif len(found) >= requirements.devices:
            yield host, min(found, key=rules.key)


def least_on_gpu(requirements: Requirements, want: Want) -> int:
    """Gives how much room (`Slot.room`) a GPU must have to be worth a closer look, bytes."""
    return MAX_BYTES if requirements.whole else want.cuda.size_bytes


def scan_behind(
    hosts: Iterable[Host],
    requirements: Requirements,
    want: Want,
    gates: Gates,
    usable: Callable[[Slot], bool],
) -> CandidateScan:
    """Searches for places behind running tasks: the one that runs for the longest first."""

    def key(slot: Slot) -> float:
        return float(min((booking.assigned_ms for booking in slot.bookings.values()), default=0))

    def fit(host: Host, slot: Slot) -> Candidate | None:
        return candidate_behind(host, slot, want, gates)

    units = (
        (host, slot)
        for host in hosts
        if host.openings.taken and host.serves(requirements) and host.has_room(gates)
        for slot in host.openings.behind(requirements)
        if usable(slot)
    )
    return CandidateScan(units, key, fit)
