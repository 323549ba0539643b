"""Whether a placement has room to begin, and which waiting processes make some for it."""

from collections.abc import Mapping
from dataclasses import replace

from trackside.worker.host.devices import Place, cuda_visible_devices
from trackside.worker.placements.ledger import HAS_DEVICES, HAS_PROCESS, IDLE, Claim, Ledger, Stage
from trackside.worker.placements.placement import Held
from trackside.worker.placements.warm_processes import Kind, Waiting, WarmProcesses


class Room:
    """The room of one worker: its ledger, and the processes in it that end when others need room."""

    def __init__(self, ledger: Ledger, warm: WarmProcesses, places: Mapping[str, Place]) -> None:
        self._ledger = ledger
        self._warm = warm
        self._places = places

    def to_train(self, held: Held) -> bool:
        """Says whether a placement may train now; if only waiting processes keep it from it, they end."""
        claim = self._ledger.cut(held.claim)
        has = held.holding
        on_devices = self._ledger.on_devices(claim, HAS_DEVICES, {held.key}) is None
        has_memory = has.stage is Stage.LOADED and claim.memory_bytes <= has.claim.memory_bytes
        if not on_devices or not (has_memory or self._on_host(claim, held.key)):
            return False
        return self._without_idle(held, claim, claim.device_ids, has_memory)

    def to_load(self, held: Held) -> bool:
        """Says whether a placement may load now, without its devices; waiting processes end for it too."""
        return self._on_host(held.claim, held.key) and self._without_idle(held, held.claim, (), False)

    def alone(self, held: Held) -> bool:
        """Says whether a placement could train if nothing else were on the host."""
        claim = self._ledger.cut(held.claim)
        on_devices = self._ledger.on_devices(claim, HAS_DEVICES, {held.key})
        return on_devices is None and self._ledger.on_host(claim, ()) is None

    def take_process(self, held: Held) -> None:
        """Gives a placement that begins the process that waits for it, with the memory that it has."""
        fitting = self._fitting(held)
        if fitting is not None:
            held.holding.saw(fitting.holding.memory_bytes, fitting.holding.cuda_memory_bytes)
            held.process = self._warm.take(fitting)

    def kind(self, held: Held) -> Kind:
        """Gives what a process must have run before to run this placement."""
        places = [self._places[device_id] for device_id in held.placement.device_ids]
        return held.task_type.name, cuda_visible_devices(places)

    def _on_host(self, claim: Claim, *but: str) -> bool:
        return self._ledger.on_host(claim, HAS_PROCESS, but) is None

    def _without_idle(self, held: Held, claim: Claim, device_ids: tuple[str, ...], has_memory: bool) -> bool:
        """Says whether a claim has room beside waiting processes too; else ends some of them."""
        fitting = self._fitting(held)
        but = (held.key, fitting.key if fitting is not None else "")
        if fitting is not None:  # with it comes what it has
            claim = replace(claim, memory_bytes=max(claim.memory_bytes, fitting.holding.memory_bytes))
        wanted = replace(claim, device_ids=device_ids)
        stages = HAS_PROCESS | IDLE
        on_devices = self._ledger.on_devices(wanted, HAS_DEVICES | IDLE, but) is None
        on_host = has_memory or self._ledger.on_host(wanted, stages, but) is None
        if on_devices and on_host:
            return True
        others = self._warm.make_room(device_ids if not on_devices else (), but[1])
        if not others and fitting is not None:  # no other is there: it has grown too large to be used
            self._warm.make_room((), "")
        return False

    def _fitting(self, held: Held) -> Waiting | None:
        if held.task_type.stays is None or held.begun:
            return None
        return self._warm.fitting(self.kind(held), held.placement.device_ids)
