"""One placement on a worker: what it requests, its stage, and what is decided about it."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from trackside.contracts.envelope.memory import shown
from trackside.contracts.envelope.message import Envelope
from trackside.contracts.envelope.secret_references import references_in
from trackside.contracts.envelope.topics import command_target
from trackside.contracts.fleet.fleet import RunningPlacement
from trackside.contracts.tasks.device_commands import RecallTask, RunTask, StopTask
from trackside.contracts.tasks.tasks import AttemptEnd, Reservation
from trackside.domain.tasks.retries import raised
from trackside.worker.artifacts.checkpoints import Checkpoints
from trackside.worker.artifacts.uploads import Uploads
from trackside.worker.attempts.attempt import AttemptRun
from trackside.worker.attempts.forkservers.forkserver_connection import TaskProcess
from trackside.worker.attempts.memory.memory_cap import MemoryCap, memory_cap
from trackside.worker.attempts.spec import AttemptSpec
from trackside.worker.catalogue.task_catalogue import TaskType
from trackside.worker.child.process.out_of_memory import Resource
from trackside.worker.host.devices import HostDevice
from trackside.worker.host.sampler import OwnedSession
from trackside.worker.messages.process_messages import AnswerTaken, FromTask
from trackside.worker.placements.fencing import Refusal
from trackside.worker.placements.ledger import Allocation, Claim, Ledger, Stage
from trackside.worker.reporting.attempt_spans import AttemptSpans
from trackside.worker.reporting.journal import JournalEntry
from trackside.worker.reporting.reporter import Publisher, Reporter

LEASE_MARGIN_S = 3.0
"""Seconds before the end of its lease at which a worker without contact to the log ends exclusive tasks."""
SEVERAL = 3
"""With so many placements that wait for it, a device has work for longer than an event may linger."""


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """How many placements may load before their devices are free; whether working directories are kept."""

    load_early: int = 0
    keep_workdirs: bool = False


@dataclass(frozen=True, slots=True)
class Begin:
    """The placement begins: it trains, or only loads if `trains` is false."""

    trains: bool


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The placement, which has not begun, is given back."""


PlacementDecision = Begin | GiveBack | AttemptEnd
"""What is decided about a held placement; an AttemptEnd is a requested one, such as by a StopTask."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """What has outlived the worker that began a placement.

    `progress` is what its task had said; `trains` whether it had its devices.
    """

    process: TaskProcess
    progress: list[FromTask | AnswerTaken]
    trains: bool


@dataclass(slots=True)
class LocalPlacement:
    """One placement on this worker, from its RunTask until its process is gone."""

    entry: JournalEntry
    key: str
    """That of the entry, and of the allocation in the ledger."""
    command: RunTask
    task_type: TaskType
    allocation: Allocation
    """What it has; `claim` is what it requests."""
    reporter: Reporter
    decision: asyncio.Future[PlacementDecision]
    """Is set once: when it begins, is given back, or ends without having begun."""
    reserved: Reservation
    """That of the command, raised each time the training has run out of memory."""
    interrupts: int = 0
    """How often its training has run out of memory, earlier placements of the attempt included."""
    process: TaskProcess | None = None
    """The warm process that was assigned to it; None if it gets a new one."""
    adopted: "Adopted | None" = None
    """What it has had from an earlier worker; None if this one has begun it."""
    run: AttemptRun | None = None
    """None until it begins."""
    uploads: Uploads | None = None
    """None until it begins."""
    requested_end: tuple[AttemptEnd, float | None] | None = None
    """The first end that was requested after it began, with the time before SIGKILL in seconds."""
    cause_of_end: str = ""
    """The cause of the command that requested that end."""
    blocked_s: float | None = None
    """Since when, in monotonic seconds, it waits although no task here uses devices; None if one does."""
    exceeded_bytes: int = 0
    """The host memory that it used when it was killed for that; 0 if it wasn't."""

    @property
    def claim(self) -> Claim:
        """What it requests now."""
        return claim_of(self.command, self.reserved)

    @property
    def memory_cap(self) -> MemoryCap | None:
        """The most host memory that it may use; None for any amount."""
        return memory_cap(self.task_type, self.allocation.claim.memory_bytes, self.exceeded_bytes)

    @property
    def begun(self) -> bool:
        """Whether it has been decided what becomes of it: it can't be given back any more."""
        return self.decision.done()

    @property
    def waits(self) -> bool:
        """Whether it waits for its devices."""
        if self.allocation.stage is Stage.LOADED:
            return self.requested_end is None
        return self.allocation.stage in (Stage.HELD, Stage.STARTING) and not self.begun

    def decide(self, decision: PlacementDecision) -> None:
        """Decides what becomes of it; only the first decision has an effect."""
        if not self.decision.done():
            self.decision.set_result(decision)

    def recall(self, cause: str) -> None:
        """Hands it back, unless it has begun; `cause` is that of the command."""
        if not self.begun:
            self.reporter.cause = cause or self.reporter.cause
            self.decide(GiveBack())

    def stop(
        self, end: AttemptEnd, grace_s: float | None = None, cause: str = "", checkpoint_s: float = 0
    ) -> None:
        """Ends it, at once or with its process; `grace_s` is the time before SIGKILL in seconds.

        `cause` is that of the command, if one requests the end; `checkpoint_s` the time that its task has to
        save a checkpoint before.
        """
        if not self.begun:
            self.reporter.cause = cause or self.reporter.cause
            self.decide(end)
            return
        if self.requested_end is None:
            self.requested_end, self.cause_of_end = (end, grace_s), cause
        if self.run is not None and checkpoint_s:
            self.run.stop_after_checkpoint(end, checkpoint_s)
        elif self.run is not None:
            self.run.stop(end, grace_s)

    def check_memory(self, used_bytes: int) -> None:
        """Kills it if it uses more host memory than it may, unless the kernel has done that at the limit."""
        cap = self.memory_cap
        if cap is None or not cap.is_exceeded_by(used_bytes) or self.exceeded_bytes:
            return
        if self.run is None or self.run.pid is None:
            return
        self.exceeded_bytes = used_bytes
        self.run.kill(f"trackside: killed at {cap.described}: it used {shown(used_bytes)}")

    def leave(self, grace_s: float) -> None:
        """Ends it because the worker leaves, which gives its processes and its uploads so many seconds."""
        self.stop(AttemptEnd.LOST, grace_s)
        if self.uploads is not None:
            self.uploads.deadline.leave(grace_s)
        if self.run is not None:
            self.run.summaries.deadline.leave(grace_s)

    def follow_end(self, end: AttemptEnd) -> None:
        """Names the cause of an end, if it is the one that a command requested."""
        if self.cause_of_end and self.requested_end is not None and end == self.requested_end[0]:
            self.reporter.cause = self.cause_of_end

    def raise_reservation(self, resource: Resource, most: int, ledger: Ledger) -> Claim:
        """Raises its reservation after it has used `most` bytes; returns what it requests then."""
        grown = claim_of(self.command, raised(self.reserved, resource, most))
        limited = limit_to_type(ledger.limit_raised(grown), self.task_type)
        amounts = {"memory_bytes": limited.memory_bytes, "cuda_memory_bytes": limited.cuda_memory_bytes}
        self.reserved = self.reserved.model_copy(update=amounts | {"estimated_by": "raised"})
        return limited

    def record_peaks(self, memory_bytes: int, cuda_memory_bytes: int) -> dict[str, int]:
        """Adds what was measured or reported; returns the peaks as fields of an ending."""
        self.allocation.record_usage(memory_bytes, cuda_memory_bytes)
        return {
            "peak_memory_bytes": self.allocation.peak_memory_bytes,
            "peak_cuda_memory_bytes": self.allocation.peak_cuda_memory_bytes,
        }

    def note_in_log(self) -> None:
        """Tells what outlives this worker how much of the task's progress is in the log."""
        if self.run is not None:
            self.run.note_in_log()

    def running_placement(self) -> RunningPlacement:
        """Returns what heartbeats report of it."""
        return RunningPlacement(
            stream=self.entry.stream,
            task_id=self.entry.task_id,
            attempt=self.entry.attempt,
            placement=self.entry.placement,
            device_ids=list(self.entry.device_ids),
            peak_memory_bytes=self.allocation.peak_memory_bytes,
            peak_cuda_memory_bytes=self.allocation.peak_cuda_memory_bytes,
        )

    def owned(self) -> OwnedSession | None:
        """Returns its session of processes; None before there is a process."""
        if self.run is None or self.run.pid is None:
            return None
        claimed = self.allocation.claim.cuda_memory_bytes
        return OwnedSession(self.key, self.run.pid, self.entry.device_ids, claimed)

    def spans(self, publisher: Publisher, began_ns: int = 0) -> AttemptSpans:
        """Returns its spans; it begins now, unless it has begun before."""
        entry, worker_id, command = self.entry, publisher.writer.instance, self.command
        topic = publisher.topics.device(worker_id, command_target(entry.device_ids))
        return AttemptSpans(entry, worker_id, command.part, command.task_type, topic.name, began_ns)


def claim_of(command: RunTask, reserved: Reservation) -> Claim:
    """Returns what a placement requests with a reservation that may have been raised."""
    return Claim(
        tuple(command.device_ids),
        reserved.memory_bytes,
        reserved.cuda_memory_bytes,
        command.whole_device,
        reserved.estimated_by == "raised",
    )


def limit_to_type(claim: Claim, task_type: TaskType) -> Claim:
    """Lowers a claim to the most that the catalogue allows its type."""
    memory, cuda = task_type.max_memory_bytes, task_type.max_cuda_memory_bytes
    return replace(
        claim,
        memory_bytes=claim.memory_bytes if memory is None else min(claim.memory_bytes, memory),
        cuda_memory_bytes=claim.cuda_memory_bytes if cuda is None else min(claim.cuda_memory_bytes, cuda),
    )


def check_type_limits(claim: Claim, task_type: TaskType) -> Refusal | None:
    """Returns a refusal if a placement requests more than the catalogue allows its type, else None."""
    limits = (
        ("memory", claim.memory_bytes, task_type.max_memory_bytes),
        ("CUDA memory", claim.cuda_memory_bytes, task_type.max_cuda_memory_bytes),
    )
    for what, wanted, limit in limits:
        if limit is not None and wanted > limit:
            sentence = (
                f"{task_type.name} may have {shown(limit)} of {what} here, and requests {shown(wanted)}"
            )
            return Refusal("out_of_memory", sentence)
    return None


def journal_entry_of(
    command: RunTask | StopTask | RecallTask,
    envelope: Envelope,
    device_ids: tuple[str, ...] = (),
    held: bool = False,
) -> JournalEntry:
    """Returns the journal entry of the placement that a command is about."""
    return JournalEntry(
        stream=command.stream,
        task_id=command.task_id,
        attempt=command.attempt,
        placement=command.placement,
        incarnation=command.incarnation,
        device_ids=device_ids,
        traceparent=envelope.traceparent,
        held=held,
        cause=envelope.causation_id,
        public_key=command.public_key,
    )


def needs_secrets(command: RunTask, task_type: TaskType) -> bool:
    """Returns whether a task is given secrets."""
    return bool(task_type.secret_environment) or any(references_in(command.parameters))


def silence_allowed_s(lease_s: float) -> float:
    """Returns for how long a worker may run an exclusive task without contact to the log."""
    return max(lease_s - LEASE_MARGIN_S, lease_s / 2)


def keep_s_of(command: RunTask, start_s: float) -> float:
    """Returns how long a task runs on without its worker: its lease, or what a start needs if that is longer.

    An exclusive one has its lease only: it may run elsewhere after that.
    """
    return command.lease_s if command.exclusive else max(command.lease_s, start_s)


def spec_of(
    placement: LocalPlacement,
    host_devices: Sequence[HostDevice],
    checkpoints: Checkpoints | None,
    keep_s: float,
) -> AttemptSpec:
    """Returns what the attempt of a placement runs, on these devices, and how long it outlives the worker."""
    command = placement.command
    return AttemptSpec(
        entry=placement.entry,
        host_devices=host_devices,
        task_type=placement.task_type,
        parameters=command.parameters,
        inputs=command.inputs,
        interrupts=command.interrupts,
        interrupted=command.interrupted,
        saved=command.saved,
        service=command.service,
        unresponsive_s=command.unresponsive_s,
        instruction=command.instruction,
        step_limit=command.step_limit,
        checkpoints=checkpoints,
        process=placement.process,
        shared=not command.whole_device and all(each.device.kind == "gpu" for each in host_devices),
        keep_s=keep_s,
        silent_s=silence_allowed_s(command.lease_s) if command.exclusive else 0.0,
    )


def have_work(device_ids: Collection[str], placements: Iterable[LocalPlacement]) -> bool:
    """Returns whether several placements wait for one of these devices: then it is busy for a while."""
    wanted, waiting = set(device_ids), 0
    for placement in placements:
        if placement.waits and not wanted.isdisjoint(placement.entry.device_ids):
            waiting += 1
            if waiting >= SEVERAL:
                return True
    return False
