"""One placement that a worker has: what it wants, how far it is, and what becomes of it."""

import asyncio
from dataclasses import dataclass

from trackside.contracts.fleet import RunningPlacement
from trackside.contracts.tasks import AttemptEnd, RecallTask, Reservation, RunTask, StopTask
from trackside.worker.attempts.attempt import Run
from trackside.worker.attempts.forkserver_client import Process
from trackside.worker.catalogue.catalogue import TaskType
from trackside.worker.host.sampler import Owned
from trackside.worker.placements.fencing import Refusal
from trackside.worker.placements.ledger import Claim, Holding, Stage
from trackside.worker.reporting.journal import Placement
from trackside.worker.reporting.reporter import Reporter


@dataclass(frozen=True, slots=True)
class Begin:
    """A placement's turn has come: to train, or only to load."""

    trains: bool


@dataclass(frozen=True, slots=True)
class GiveBack:
    """A placement that has not begun is given back."""


Turn = Begin | GiveBack | AttemptEnd
"""What becomes of a placement that is held; an end is one that somebody asked for."""


@dataclass(slots=True)
class Held:
    """One placement here; `claim` is what it wants, its holding in the ledger what it has.

    `process` is one that waited for it, `blocked_s` since when nothing of ours keeps it from its turn, by the
    monotonic clock.
    """

    placement: Placement
    key: str
    command: RunTask
    task_type: TaskType
    holding: Holding
    reporter: Reporter
    turn: asyncio.Future[Turn]
    reserved: Reservation
    interrupts: int = 0
    process: Process | None = None
    run: Run | None = None
    asked: tuple[AttemptEnd, float | None] | None = None
    blocked_s: float | None = None

    @property
    def claim(self) -> Claim:
        """What it wants now."""
        return claim_of(self.command, self.reserved)

    @property
    def begun(self) -> bool:
        """Says whether its turn has come: it can't be given back any more."""
        return self.turn.done()

    @property
    def waits(self) -> bool:
        """Says whether it waits for its devices."""
        if self.holding.stage is Stage.LOADED:
            return self.asked is None
        return self.holding.stage in (Stage.HELD, Stage.COMING) and not self.begun

    def decide(self, turn: Turn) -> None:
        """Says what becomes of it; the first word counts."""
        if not self.turn.done():
            self.turn.set_result(turn)

    def stop(self, end: AttemptEnd, grace_s: float | None = None) -> None:
        """Ends it: at once if it has not begun, else with its process."""
        if not self.begun:
            self.decide(end)
        elif self.run is not None:
            self.asked = self.asked or (end, grace_s)
            self.run.stop(end, grace_s)
        else:
            self.asked = self.asked or (end, grace_s)

    def told(self) -> RunningPlacement:
        """Gives what heartbeats say of it."""
        return RunningPlacement(
            stream=self.placement.stream,
            task_id=self.placement.task_id,
            attempt=self.placement.attempt,
            placement=self.placement.placement,
            device_ids=list(self.placement.device_ids),
            peak_memory_bytes=self.holding.peak_memory_bytes,
            peak_cuda_memory_bytes=self.holding.peak_cuda_memory_bytes,
        )

    def owned(self) -> Owned | None:
        """Gives its processes; None before they are there."""
        if self.run is None or self.run.pid is None:
            return None
        claimed = self.holding.claim.cuda_memory_bytes
        return Owned(self.key, self.run.pid, self.placement.device_ids, claimed)


def claim_of(command: RunTask, reserved: Reservation) -> Claim:
    """Gives what a placement wants with a reservation that may have been raised."""
    return Claim(
        tuple(command.device_ids),
        reserved.memory_bytes,
        reserved.cuda_memory_bytes,
        command.whole_device,
        reserved.estimated_by == "raised",
    )


def over_ceiling(claim: Claim, task_type: TaskType) -> Refusal | None:
    """Says that a placement wants more than the catalogue allows its type; None if it doesn't."""
    limits = (
        ("memory", claim.memory_bytes, task_type.max_memory_bytes),
        ("CUDA memory", claim.cuda_memory_bytes, task_type.max_cuda_memory_bytes),
    )
    for what, wanted, limit in limits:
        if limit is not None and wanted > limit:
            sentence = f"{task_type.name} may have {limit} bytes of {what} here, and wants {wanted}"
            return Refusal("out_of_memory", sentence)
    return None


def placement_of(
    command: RunTask | StopTask | RecallTask,
    traceparent: str,
    device_ids: tuple[str, ...] = (),
    held: bool = False,
) -> Placement:
    """Gives the placement that a command is about."""
    return Placement(
        stream=command.stream,
        task_id=command.task_id,
        attempt=command.attempt,
        placement=command.placement,
        incarnation=command.incarnation,
        device_ids=device_ids,
        traceparent=traceparent,
        held=held,
    )
