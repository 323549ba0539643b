"""Whether a placement fits now, and which warm processes end to make room for it."""

from collections.abc import Mapping
from dataclasses import replace

from trackside.worker.host.devices import HostDevice, cuda_visible_devices
from trackside.worker.placements.ledger import HAS_DEVICES, HAS_PROCESS, IDLE, Claim, Ledger, Stage
from trackside.worker.placements.local_placement import LocalPlacement
from trackside.worker.placements.warm_processes import ProcessKind, WarmProcess, WarmProcessPool


class AdmissionControl:
    """Decides what fits on one worker, by its ledger; ends warm processes when their memory is needed."""

    def __init__(self, ledger: Ledger, warm: WarmProcessPool, host_devices: Mapping[str, HostDevice]) -> None:
        self._ledger = ledger
        self._warm = warm
        self._host_devices = host_devices

    def can_train(self, placement: LocalPlacement) -> bool:
        """Returns whether a placement may train now; if only warm processes are in the way, they end."""
        claim = self._ledger.limit_raised(placement.claim)
        current = placement.allocation
        on_devices = self._ledger.check_devices(claim, HAS_DEVICES, {placement.key}) is None
        has_memory = current.stage is Stage.LOADED and claim.memory_bytes <= current.claim.memory_bytes
        if not on_devices or not (has_memory or self._on_host(claim, placement.key)):
            return False
        return self._fits_with_warm(placement, claim, claim.device_ids, has_memory)

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
        return placement.task_type.name, cuda_visible_devices(host_devices)

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
        if placement.task_type.runner != "warm" or placement.begun:
            return None
        return self._warm.matching(self.kind(placement), placement.entry.device_ids)
