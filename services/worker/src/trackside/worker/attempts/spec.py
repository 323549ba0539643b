"""What an attempt is made of: its task and devices, what it shares with others, and whom it informs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.instructions import Instruction
from trackside.worker.artifacts.checkpoints import ASKED_FILE, Checkpoints
from trackside.worker.artifacts.inputs import InputCache
from trackside.worker.artifacts.store_client import StoreProcess
from trackside.worker.artifacts.uploads import Uploads
from trackside.worker.attempts.device_locks import DeviceLocks
from trackside.worker.attempts.forkservers.forkserver_client import ForkserverClient, allowed_environment
from trackside.worker.attempts.forkservers.forkserver_connection import TaskProcess
from trackside.worker.attempts.memory.cgroups import Cgroups
from trackside.worker.attempts.memory.memory_cap import MemoryCap
from trackside.worker.attempts.memory.memory_pressure import MemoryPressure
from trackside.worker.attempts.secret_source import SecretSource
from trackside.worker.catalogue.task_catalogue import TaskType
from trackside.worker.host.devices import HostDevice, cuda_visible_devices
from trackside.worker.host.neighbours import Neighbourhood
from trackside.worker.messages.assignment import Assignment
from trackside.worker.messages.process_messages import ProcessFree, TrainingInterrupted
from trackside.worker.messages.report_messages import ArtifactReady
from trackside.worker.reporting.journal import INPUTS, OUTPUTS, Journal, JournalEntry
from trackside.worker.temporary_folders import temporary_folder


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What all attempts of a worker share."""

    journal: Journal
    locks: DeviceLocks
    forkserver: ForkserverClient
    host: Mapping[str, str]
    """The environment variables of the worker."""
    stop_grace_s: float
    """Seconds between SIGTERM and SIGKILL, unless a stop has its own."""
    pressure: MemoryPressure
    cgroups: Cgroups
    neighbourhood: Neighbourhood
    """The other workers of the host."""
    store: StoreProcess
    spool_bytes: int
    """How much the spools of all attempts may hold."""
    upload_timeout_s: float
    """Seconds that the store may take for the last artifacts of an attempt."""
    inputs: InputCache
    secrets: SecretSource


@dataclass(frozen=True, slots=True)
class AttemptSpec:
    """What one attempt runs, and where."""

    entry: JournalEntry
    host_devices: Sequence[HostDevice]
    task_type: TaskType
    parameters: Json
    interrupts: int = 0
    """How often training may run out of memory without ending the attempt."""
    interrupted: int = 0
    """How often it has, in earlier placements of the attempt."""
    inputs: Mapping[str, ArtifactReference] = field(default_factory=dict)
    """What its task is given, by name."""
    shared: bool = False
    """Whether other tasks may use its devices, too."""
    saved: Mapping[str, int] = field(default_factory=dict)
    """The newest version of each artifact that its task has saved in earlier placements, by name."""
    service: bool = False
    """Whether it serves until it is stopped."""
    unresponsive_s: float | None = None
    """After how long without a sign of life a service that was ready is ended; None for never."""
    instruction: Instruction | None = None
    """The newest instruction when it was placed."""
    step_limit: int | None = None
    """It is over when it has reported the step before this one; None without a limit."""
    checkpoints: Checkpoints | None = None
    """What it may continue from; None without a store."""
    process: TaskProcess | None = None
    """The warm process to run in; None for a new one."""
    keep_s: float = 0.0
    """How long its process outlives the worker; 0 if it ends with it."""
    silent_s: float = 0.0
    """How long it may be without contact to the log then; 0 for as long as it is kept."""

    @property
    def torch_device(self) -> str:
        """Torch's name of the first device."""
        return self.host_devices[0].torch_name if self.host_devices else "cpu"


@dataclass(frozen=True, slots=True)
class AttemptListener:
    """Is called when training was interrupted, an artifact is in the spool, the process is gone, or it
    is free for another task.

    `peak_bytes` returns the highest measured host memory of the attempt until now, 0 if there is none;
    `memory_cap` the most that it may use.
    """

    interrupted: Callable[[TrainingInterrupted], None]
    saved: Callable[[ArtifactReady], None]
    gone: Callable[[], None]
    free: Callable[[TaskProcess, ProcessFree], None]
    peak_bytes: Callable[[], int]
    memory_cap: Callable[[], MemoryCap | None]


def checkpoints_of(
    context: AttemptContext, entry: JournalEntry, command: RunTask, uploads: Uploads
) -> Checkpoints | None:
    """Returns the checkpoints of a placement; None without a store."""
    if not context.store.has_store and not command.checkpoints:
        return None
    return Checkpoints(uploads, context.journal.workdir(entry), command.checkpoints, context.upload_timeout_s)


def assignment_of(context: AttemptContext, spec: AttemptSpec, traceparent: str, outputs: int) -> Assignment:
    """Returns the assignment of an attempt for its task process; `outputs` are 0 or 2 new descriptors."""
    journal, entry, task_type = context.journal, spec.entry, spec.task_type
    workdir = str(journal.workdir(entry))
    environment = {
        "HOME": str(journal.home),
        **allowed_environment(context.host, task_type.environment),
        "TMPDIR": str(temporary_folder(journal.workdir(entry))),
        "TRACKSIDE_TASK_ID": entry.task_id,
        "TRACKSIDE_ATTEMPT": str(entry.attempt),
        "TRACKSIDE_WORKDIR": workdir,
        "TRACKSIDE_INPUTS": str(journal.workdir(entry) / INPUTS),
        "TRACEPARENT": traceparent,
        "CUDA_VISIBLE_DEVICES": cuda_visible_devices(spec.host_devices),
    }
    spool = ""
    if context.store.has_store:
        spool = str(journal.spool(entry))
        environment["TRACKSIDE_CHECKPOINT_ASKED"] = str(journal.workdir(entry) / ASKED_FILE)
        environment["TRACKSIDE_OUTPUTS"] = str(journal.workdir(entry) / OUTPUTS)
    if spec.step_limit is not None:
        environment["TRACKSIDE_STEP_LIMIT"] = str(spec.step_limit)
    return Assignment(
        entry=task_type.entry,
        program=list(task_type.program),
        path=task_type.path,
        parameters=dict(spec.parameters),
        environment=environment,
        workdir=workdir,
        ending=str(journal.ending_file(entry)),
        interrupts=spec.interrupts,
        interrupted=spec.interrupted,
        outputs=outputs,
        max_tasks=task_type.max_tasks,
        max_growth_bytes=task_type.max_growth_bytes or 0,
        spool=spool,
        spool_bytes=context.spool_bytes,
        saved=dict(spec.saved),
        service=spec.service,
        unresponsive_s=spec.unresponsive_s or 0.0,
        progress=str(journal.progress_file(entry)) if spec.keep_s else "",
    )
