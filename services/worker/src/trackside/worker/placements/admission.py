"""Whether a placement fits now, which warm processes end to make room for it, and who waits in vain."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import structlog

from trackside.eventlog.clock import monotonic_s
from trackside.worker.host.devices import HostDevice, cuda_visible_devices
from trackside.worker.placements.fencing import Refusal
from trackside.worker.placements.ledger import HAS_DEVICES, HAS_PROCESS, IDLE, Claim, Ledger, Stage
from trackside.worker.placements.local_placement import LocalPlacement
from trackside.worker.placements.warm_processes import ProcessKind, WarmProcess, WarmProcessPool

log = structlog.get_logger("trackside.worker")

FOREIGN_MEMORY_WAIT_S = 60.0
"""Seconds a placement waits for memory that processes of others use, before it is given back."""


class AdmissionControl:
    """Decides what fits on one worker, by its ledger; ends warm processes when their memory is needed."""

    def __init__(self, ledger: Ledger, warm: WarmProcessPool, host_devices: Mapping[str, HostDevice]) -> None:
        self._ledger = ledger
        self._warm = warm
        self._host_devices = host_devices

    def can_train(self, placement: LocalPlacement) -> bool:
        """Returns whether a placement may train now; if only warm processes are in the way, they end."""
        claim = self._ledger.limit_raised(placement.claim)
        if self._refusal(placement, claim) is not None:
            return False
        return self._fits_with_warm(placement, claim, claim.device_ids, _has_memory(placement, claim))

    def can_load(self, placement: LocalPlacement) -> bool:
        """Returns whether a placement may load now, without its devices; warm processes end for it too."""
        return self._on_host(placement.claim, placement.key) and self._fits_with_warm(
            placement, placement.claim, (), False
        )

    def fits_alone(self, placement: LocalPlacement) -> bool:
        """Returns whether a placement could train if nothing else were on the host."""
        claim = self._ledger.limit_raised(placement.claim)
        on_devices = self._ledger.check_devices(claim, HAS_DEVICES, {placement.key})
        return on_devices is None and self._ledger.check_host(claim, ()) is None

    def waits_for_neighbours(self, placement: LocalPlacement) -> Refusal | None:
        """Returns why neighbours keep a placement waiting that would fit next to this worker's tasks."""
        ledger, claim = self._ledger, self._ledger.limit_raised(placement.claim)
        neighbours, ledger.neighbours = ledger.neighbours, ()
        try:
            fits = self._refusal(placement, claim) is None
        finally:
            ledger.neighbours = neighbours
        return self._refusal(placement, claim) if fits else None

    def _refusal(self, placement: LocalPlacement, claim: Claim) -> Refusal | None:
        on_devices = self._ledger.check_devices(claim, HAS_DEVICES, {placement.key})
        if on_devices is not None or _has_memory(placement, claim):
            return on_devices
        return self._ledger.check_host(claim, HAS_PROCESS, {placement.key})

    def waiting_in_vain(self, placements: Iterable[LocalPlacement]) -> list[LocalPlacement]:
        """Returns placements that wait for each other, or for memory that processes of others use.

        Of several that have loaded and fill the host, it is the last one.
        """
        waiting = [placement for placement in placements if placement.waits]
        in_use = any(each.stage in HAS_DEVICES for each in self._ledger.allocations.values())
        if in_use or any(task.stage == "runs" for each in self._ledger.neighbours for task in each.tasks):
            for placement in waiting:
                placement.blocked_s = None
            return []
        loaded = [placement for placement in waiting if placement.allocation.stage is Stage.LOADED]
        if len(loaded) > 1 and any(self.fits_alone(placement) for placement in waiting):
            log.warning(
                "tasks wait for each other's memory: the last one goes back to the queue", task=loaded[-1].key
            )
            return loaded[-1:]
        for placement in waiting:
            placement.blocked_s = placement.blocked_s or monotonic_s()
        over_s = monotonic_s() - FOREIGN_MEMORY_WAIT_S
        found = [placement for placement in waiting if (placement.blocked_s or 0.0) < over_s]
        for placement in found:
            log.warning("given back: the task waits for memory that other processes use", task=placement.key)
        return found

    def make_room_for_neighbours(self) -> None:
        """Ends warm processes that tasks of neighbours wait for."""
        ledger = self._ledger
        for neighbour in ledger.neighbours:
            for task in neighbour.tasks:
                if task.stage != "waits":
                    continue
                uuids = {device_id for device_id, each in ledger.devices.items() if each.uuid in task.uuids}
                self._warm.end_on(uuids)
                claim = Claim((), task.memory_bytes)
                if (
                    ledger.shares_memory(neighbour)
                    and ledger.check_memory(claim, HAS_PROCESS | IDLE) is not None
                ):
                    self._warm.make_room((), "")

    def assign_warm_process(self, placement: LocalPlacement) -> None:
        """Assigns a matching warm process, and its memory, to a placement that begins."""
        matching = self._matching_process(placement)
        if matching is not None:
            placement.allocation.record_usage(
                matching.allocation.memory_bytes, matching.allocation.cuda_memory_bytes
            )
            placement.process = self._warm.remove_for_task(matching)

    def kind(self, placement: LocalPlacement) -> ProcessKind:
        """Returns the kind of warm process that can run this placement."""
        host_devices = [self._host_devices[device_id] for device_id in placement.entry.device_ids]
        return placement.task_type, cuda_visible_devices(host_devices)

    def _on_host(self, claim: Claim, *excluded: str) -> bool:
        return self._ledger.check_host(claim, HAS_PROCESS, excluded) is None

    def _fits_with_warm(
        self, placement: LocalPlacement, claim: Claim, device_ids: tuple[str, ...], has_memory: bool
    ) -> bool:
        """Returns whether a claim fits next to the warm processes; if not, ends some of them."""
        matching = self._matching_process(placement)
        excluded = (placement.key, matching.key if matching is not None else "")
        if matching is not None:  # it brings its memory with it
            claim = replace(claim, memory_bytes=max(claim.memory_bytes, matching.allocation.memory_bytes))
        wanted = replace(claim, device_ids=device_ids)
        stages = HAS_PROCESS | IDLE
        on_devices = self._ledger.check_devices(wanted, HAS_DEVICES | IDLE, excluded) is None
        on_host = has_memory or self._ledger.check_host(wanted, stages, excluded) is None
        if on_devices and on_host:
            return True
        others = self._warm.make_room(device_ids if not on_devices else (), excluded[1])
        if not others and matching is not None:  # it is the only one, and has grown too large to be used
            self._warm.make_room((), "")
        return False

    def _matching_process(self, placement: LocalPlacement) -> WarmProcess | None:
        if placement.task_type.runner != "warm" or placement.begun or placement.entry.secrets:
            return None  # code of other tasks has run in a warm process: it gets no secrets
        return self._warm.matching(self.kind(placement), placement.entry.device_ids)


def _has_memory(placement: LocalPlacement, claim: Claim) -> bool:
    """Returns whether a placement has loaded, and needs no more host memory than it has."""
    current = placement.allocation
    return current.stage is Stage.LOADED and claim.memory_bytes <= current.claim.memory_bytes
