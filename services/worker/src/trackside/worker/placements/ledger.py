"""Who has what of this host: its memory, its devices and their memory. Pure.

What a placement has is the more of what it reserves and what it was seen to use. A reading that isn't known
counts as nothing. A CPU slot takes one task; a GPU takes all that fit, unless one wants it for itself.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from trackside.contracts.fleet import Device
from trackside.contracts.memory import shown
from trackside.worker.placements.fencing import Refusal


class Stage(Enum):
    """How far a placement is."""

    HELD = auto()
    """It has nothing, and waits for its devices."""
    COMING = auto()
    """It has nothing yet, and shall begin in a moment."""
    LOADED = auto()
    """It has a process, and no device: it loads early, or was interrupted."""
    TRAINING = auto()
    """It has its devices."""
    GOING = auto()
    """The log has its end; its process is still there."""
    IDLE = auto()
    """No placement but a process that waits for the next one of its kind: it ends when others need room."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a placement wants: memory of the host in all, CUDA memory on each of its devices, bytes.

    A `raised` one grew with each failure, maybe beyond what there is.
    """

    device_ids: tuple[str, ...]
    memory_bytes: int = 0
    cuda_memory_bytes: int = 0
    whole_device: bool = False
    raised: bool = False


@dataclass(slots=True)
class Holding:
    """What a placement has, and the most that it was seen to use."""

    task_id: str
    claim: Claim
    stage: Stage = Stage.HELD
    peak_memory_bytes: int = 0
    peak_cuda_memory_bytes: int = 0

    @property
    def memory_bytes(self) -> int:
        """What it takes of the host."""
        return max(self.claim.memory_bytes, self.peak_memory_bytes)

    @property
    def cuda_memory_bytes(self) -> int:
        """What it takes of each of its devices."""
        return max(self.claim.cuda_memory_bytes, self.peak_cuda_memory_bytes)

    def saw(self, memory_bytes: int, cuda_memory_bytes: int) -> None:
        """Notes what it was seen to use, of the host and of one device."""
        self.peak_memory_bytes = max(self.peak_memory_bytes, memory_bytes)
        self.peak_cuda_memory_bytes = max(self.peak_cuda_memory_bytes, cuda_memory_bytes)


HAS_PROCESS = frozenset({Stage.LOADED, Stage.TRAINING, Stage.GOING})
HAS_DEVICES = frozenset({Stage.TRAINING, Stage.GOING})
AHEAD_ON_DEVICES = frozenset({Stage.HELD, Stage.COMING, Stage.LOADED, Stage.TRAINING})
"""Those that a newcomer must leave room for: not those that will be gone in a moment."""
AHEAD_ON_HOST = frozenset({Stage.COMING, Stage.LOADED, Stage.TRAINING})
IDLE = frozenset({Stage.IDLE})


@dataclass(slots=True)
class Ledger:
    """The holdings on one host, by any key; `memory_bytes` is what the host gives to tasks, 0 for no limit.

    `reserve_bytes` of it were left for others already, who use `foreign_bytes` now; on devices they use
    `foreign`. `max_tasks` is how many processes there may be at once, 0 for no limit.
    """

    devices: Mapping[str, Device]
    memory_bytes: int = 0
    max_tasks: int = 0
    reserve_bytes: int = 0
    foreign_bytes: int = 0
    foreign: Mapping[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    holdings: dict[str, Holding] = field(default_factory=dict)
    _on: dict[str, dict[str, Holding]] = field(default_factory=dict)

    def put(self, key: str, holding: Holding) -> None:
        """Notes what a placement has; its devices stay the same."""
        self.holdings[key] = holding
        for device_id in holding.claim.device_ids:
            self._on.setdefault(device_id, {})[key] = holding

    def drop(self, key: str) -> None:
        """Forgets a placement that has nothing any more."""
        holding = self.holdings.pop(key, None)
        for device_id in holding.claim.device_ids if holding is not None else ():
            del self._on[device_id][key]

    def cut(self, claim: Claim) -> Claim:
        """Lowers a raised claim to what foreign processes leave: then nothing of ours runs beside it."""
        if not claim.raised:
            return claim
        memory, cuda = claim.memory_bytes, claim.cuda_memory_bytes
        if self.memory_bytes:
            memory = max(0, min(memory, self._for_us()))
        for device_id in claim.device_ids:
            if device_id in self.devices and self._is_gpu(device_id):
                left = self.devices[device_id].memory_bytes - self.foreign.get(device_id, 0)
                cuda = max(0, min(cuda, left))
        return replace(claim, memory_bytes=memory, cuda_memory_bytes=cuda)

    def impossible(self, claim: Claim) -> Refusal | None:
        """Says why a claim could not be met even if nothing else ran; None if it could."""
        claim = self.cut(claim)
        if not claim.device_ids or len(set(claim.device_ids)) < len(claim.device_ids):
            return Refusal("unknown_device", "a task needs one device or more, each of them once")
        for device_id in claim.device_ids:
            if device_id not in self.devices:
                known = ", ".join(sorted(self.devices))
                return Refusal("unknown_device", f"no device {device_id!r} here; there are: {known}")
            if device_id in self.failed:
                return Refusal("unknown_device", f"{device_id} has failed: {self.failed[device_id]}")
            total = self.devices[device_id].memory_bytes
            if self._is_gpu(device_id) and claim.cuda_memory_bytes > total:
                return _shortage(device_id, claim.cuda_memory_bytes, total)
        return _shortage("the host", claim.memory_bytes, self.memory_bytes) if self.memory_bytes else None

    def on_devices(
        self, claim: Claim, stages: Collection[Stage], but: Collection[str] = ()
    ) -> Refusal | None:
        """Says why a claim has no room on its devices beside holdings in those stages; None if it has."""
        for device_id in claim.device_ids:
            there = self._on.get(device_id, {})
            others = [each for key, each in there.items() if key not in but and each.stage in stages]
            refusal = self._on_device(device_id, claim, others)
            if refusal is not None:
                return refusal
        return None

    def _on_device(self, device_id: str, claim: Claim, others: list[Holding]) -> Refusal | None:
        alone = claim.whole_device or not self._is_gpu(device_id)
        blocking = [each for each in others if alone or each.claim.whole_device]
        if blocking:
            return Refusal("device_busy", f"{device_id} runs task {blocking[0].task_id}")
        if not self._is_gpu(device_id):
            return None
        taken = sum(each.cuda_memory_bytes for each in others) + self.foreign.get(device_id, 0)
        left = self.devices[device_id].memory_bytes - taken
        return _shortage(device_id, claim.cuda_memory_bytes, left)

    def on_host(self, claim: Claim, stages: Collection[Stage], but: Collection[str] = ()) -> Refusal | None:
        """Says why a claim has no room on the host beside holdings in those stages; None if it has."""
        others = [each for key, each in self.holdings.items() if key not in but and each.stage in stages]
        if self.max_tasks and len(others) >= self.max_tasks:
            return Refusal("too_many_tasks", f"{len(others)} tasks run here, and no more may")
        if not self.memory_bytes:
            return None
        left = self._for_us() - sum(each.memory_bytes for each in others)
        return _shortage("the host", claim.memory_bytes, left)

    def _for_us(self) -> int:
        """Gives what others leave of the host, who may take as much as is reserved for them."""
        return self.memory_bytes - max(0, self.foreign_bytes - self.reserve_bytes)

    def _is_gpu(self, device_id: str) -> bool:
        return self.devices[device_id].kind == "gpu"


def _shortage(where: str, wanted: int, left: int) -> Refusal | None:
    """Says that there is not enough; nothing is asked of who doesn't know what he needs."""
    if wanted == 0 or wanted <= left:
        return None
    return Refusal("out_of_memory", f"needs {shown(wanted)} of {where}, which has {shown(max(0, left))} left")
