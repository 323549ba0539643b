"""The state of a job of incremental learning: its samples, round and live model. Drawn in ARCHITECTURE.md."""

from dataclasses import dataclass, field

from trackside.aggregates.rounds.job.deploy_messages import DatasetPlace, RoundModel
from trackside.aggregates.rounds.job.job_spec import InferenceSpec, JobSpec, StageName
from trackside.aggregates.rounds.job.service_counts import ProcessCounts, ServiceCounts
from trackside.aggregates.rounds.job.split import SplitRule, count
from trackside.aggregates.rounds.job.version_bitset import largest
from trackside.aggregates.rounds.messages import JobStatus, ModelVersionSummary, Range, StageState
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.tasks import Figure
from trackside.domain.streams.stream import Stream

SHOWN_VERSIONS = 20
"""How many versions that were live are listed where people read them."""
REMOVAL_TASKS = "delete.folder"
"""What the ids of the tasks have that remove the folder below `config`, between job and number."""


@dataclass(slots=True)
class TaskOutcome:
    """How a task or a child of a round or update has ended, until an event says what follows from it."""

    succeeded: bool
    """Whether it has done what it was for."""
    ended_at: int
    """Offset of the event that ended it."""
    result: Json = field(default_factory=dict)
    """What it returned; empty without a result."""
    reason: str = ""
    """Why it has not succeeded, as a code; empty if it has."""
    message: str = ""
    """Why it has not succeeded, as a sentence; empty if it has."""
    models: list[ModelVersionSummary] = field(default_factory=list)
    """The models that it has saved, the newest version of each name."""


@dataclass(slots=True)
class SamplePool:
    """The samples of a job: each is in one place, by its number."""

    segments: list[SplitRule] = field(default_factory=list)
    """How they are divided; the newest one counts for those to come."""
    first: int = 0
    """The first sample that is in no round yet: those from here to `end` are for the next one."""
    end: int = 0
    """The first sample that is not assigned yet."""
    size_bytes: int = 0
    """Where it begins in the dataset: the size of all samples before."""
    sha256: str = ""
    """The digest of the bytes before that; empty before the first samples."""
    metrics: dict[str, Figure] = field(default_factory=dict)
    """Numbers that the watcher of the dataset has computed of the newest samples, such as `drift`."""
    versions: list[Range] = field(default_factory=list)
    """The versions of samples for evaluation, the oldest first: what has come before each round."""
    version_begin: int = 0
    """Where the version begins that is still being filled."""

    @property
    def training(self) -> int:
        """How many samples wait for the next round."""
        return count(self.segments, self.first, self.end, "train")

    @property
    def new(self) -> int:
        """How many samples for training have come since the last round began."""
        return count(self.segments, self.version_begin, self.end, "train")

    @property
    def evaluation(self) -> int:
        """How many samples the versions for evaluation have."""
        return sum(count(self.segments, *version, "eval") for version in self.versions)

    @property
    def newest(self) -> int:
        """How many samples for evaluation have come since the last round began."""
        return count(self.segments, self.version_begin, self.end, "eval")


@dataclass(slots=True)
class SampleManifest:
    """The samples of a stage of a round, as a file."""

    reference: ArtifactReference
    """Where it is, and its digest."""
    lines: int
    """How many samples it has."""


@dataclass(slots=True)
class TriggerState:
    """What is known of the trigger of a stage."""

    result: bool = False
    """Its result when it was evaluated last."""
    evaluated_ms: int = 0
    """When that was, in ms since 1970; 0 before the first time."""
    fired_ms: int = 0
    """When its stage began last, or a model was to be deployed, in ms since 1970; 0 before the first time."""


@dataclass(slots=True)
class Round:
    """The current round, from the beginning of its first stage."""

    number: int
    """Counts the rounds of the job from 1."""
    spec: JobSpec
    """The definition that it has begun with."""
    dataset: DatasetPlace
    """Where its samples are."""
    train: Range
    """The samples of its training: those between these numbers that are for it."""
    evaluation: list[Range] = field(default_factory=list)
    """The versions of samples of its evaluation, the oldest first."""
    segments: list[SplitRule] = field(default_factory=list)
    """How its samples are divided."""
    size_bytes: int = 0
    """The size of the part of the dataset that its samples are in."""
    sha256: str = ""
    """The digest of that part."""
    fired_ms: int = 0
    """When its first stage began, in ms since 1970."""
    started_ms: int = 0
    """When its samples were written: append time of RoundStarted, in ms since 1970; 0 before that."""
    base: RoundModel | None = None
    """The model that training begins with; None before RoundStarted."""
    tasks: dict[str, int] = field(default_factory=dict)
    """How many tasks were submitted for each of its purposes, such as `train-samples`."""
    outcomes: dict[str, TaskOutcome] = field(default_factory=dict)
    """How the last task or child for each purpose has ended, until that is decided upon."""
    manifests: dict[StageName, SampleManifest] = field(default_factory=dict)
    """The samples of its stages that are written."""
    found: ModelVersionSummary | None = None
    """What its training has found; None before that."""
    found_at: int = -1
    """Offset of ModelTrained; -1 before that."""
    trained: RoundModel | None = None
    """What it has trained, as a version of the job's model; None before that is one."""
    metrics: dict[str, Json] = field(default_factory=dict)
    """The metrics of the `trained` and of the `deployed` model; empty before the evaluation."""
    decided: bool | None = None
    """Whether its model is deployed; None before that is decided."""
    approval_due_ms: int | None = None
    """When the approval of its deployment expires, in ms since 1970; None if it never does."""
    waits_for_approval: bool = False
    """Whether a person has to decide about its deployment."""
    deployed: bool = False
    """Whether its model was deployed."""


@dataclass(slots=True)
class ModelUpdate:
    """An update of what is live: targets that are to have a model."""

    number: int
    """Counts the updates of the job from 1."""
    cause: str
    """Why: `round`, `rollback` or `withdrawal`."""
    model: RoundModel
    """What they are to have."""
    open: dict[str, None] = field(default_factory=dict)
    """The targets that have not confirmed it."""
    failures: dict[str, int] = field(default_factory=dict)
    """How often each target has failed."""
    again_ms: dict[str, int] = field(default_factory=dict)
    """When a target that has failed is tried again, in ms since 1970."""
    tasks: dict[str, int] = field(default_factory=dict)
    """How many tasks were submitted for each target that is a file."""
    outcomes: dict[str, TaskOutcome] = field(default_factory=dict)
    """How the last task for such a target has ended, until that is decided upon."""
    published_ms: int = 0
    """When it was published: append time of ModelUpdatePublished, in ms since 1970."""
    timed_out: bool = False
    """Whether targets have not confirmed it in time."""
    due_ms: int = 0
    """When the targets that have not confirmed it have timed out, in ms since 1970."""
    failed: bool = False
    """Whether it was given up: a target has failed too often, or in time."""


@dataclass(slots=True)
class ConfigRemoval:
    """The removal of the folder below `config` of a job that was deleted."""

    time_ms: int
    """When the job was deleted, in ms since 1970."""
    tasks: int = 0
    """How many tasks were submitted for it."""
    outcome: TaskOutcome | None = None
    """How the last one has ended; None while one is open, and before the first."""
    again_ms: int = 0
    """When it is tried again after a failure, in ms since 1970."""
    due_ms: int = 0
    """When it is given up, in ms since 1970; 0 before the first task."""
    ended: bool = False
    """Whether the folder was removed, or stays."""


@dataclass(slots=True)
class ServiceState:
    """An inference service of a job: what it serves, and what it has counted."""

    spec: InferenceSpec
    """Its definition."""
    tasks: int = 0
    """How many tasks it has had: the number of the newest one, from 1."""
    running: bool = False
    """Whether the newest one has not ended."""
    retired: bool = False
    """Whether the newest one is to end: it has another definition now, or none."""
    told: tuple[int, int] = (0, 0)
    """The newest update that its newest task was told of, and how often; zeros for none."""

    refused: int = 0
    """The newest instruction that its newest task could not carry out; 0 for none."""
    failures: int = 0
    """How often it could not load again the model that it had confirmed, in a row."""
    again_ms: int = 0
    """When it is asked for that again, in ms since 1970; 0 unless it could not."""
    serves: int = 0
    """The update whose model it has, as it began or has confirmed; 0 for the one that the job began with."""
    sha256: str = ""
    """The digest of that model; empty before its first task."""
    counts: ServiceCounts = field(default_factory=ServiceCounts)
    """What it has counted in all."""
    counted: tuple[int, int] = (0, 0)
    """What its newest placement has counted, inferences and hard examples, as of the last window."""
    counted_by: tuple[int, int] = (0, 0)
    """The attempt and placement that this is of."""
    left: ProcessCounts | None = None
    """What its last process had counted when its task ended, until that is reported; None without more."""


@dataclass(slots=True)
class IncrementalJob:
    """A job of incremental learning as folded from the log."""

    job_id: str
    """Its id, which is also the id of its stream."""
    spec: JobSpec
    """Its definition, for the next round."""
    created_ms: int
    """When it began: append time of IncrementalJobCreated, in ms since 1970."""
    dataset: DatasetPlace
    """Where its samples are, for the next round."""
    initial: RoundModel
    """The model that it begins with."""
    initial_eval: RoundModel
    """The model that evaluations compare with until one of a round is deployed."""
    live: RoundModel
    """The model that is live."""
    live_update: int = 0
    """The update that made it live; 0 for the model that the job began with."""
    last_trained: RoundModel | None = None
    """What the last round has trained that got so far; None before the first."""
    status: JobStatus = JobStatus.ACTIVE
    """Its state."""
    reason: str = ""
    """Why it is paused or deleted; empty otherwise."""
    changes: int = 0
    """How often people have changed it."""
    pool: SamplePool = field(default_factory=SamplePool)
    """Its samples."""
    rounds: int = 0
    """How many rounds have begun: the number of the newest one."""
    ended_rounds: int = 0
    """How many rounds have ended in any way."""
    last_round_ms: int = 0
    """When the last round ended, or the job began, in ms since 1970."""
    round: Round | None = None
    """The current round; None between two."""
    stage: StageName = "train"
    """The stage that it is in."""
    stage_state: StageState = StageState.WAITING
    """How far that is."""
    stage_since_ms: int = 0
    """When it came to this stage, in ms since 1970."""
    triggers: dict[StageName, TriggerState] = field(default_factory=dict)
    """What is known of the triggers of its stages."""
    evaluations: int = 0
    """How many evaluations of triggers were written."""
    blocked: str = ""
    """Why its stage can't continue; empty if it can."""
    blocked_message: str = ""
    """The same as a sentence."""
    again_ms: int = 0
    """When a task of ours that has failed is tried again, in ms since 1970; 0 without one."""
    failed_rounds: int = 0
    """How many of the last rounds have failed in a row."""
    open_tasks: dict[str, str] = field(default_factory=dict)
    """The ids of its tasks and children that have not ended, by purpose: of its round and its update."""
    updates: int = 0
    """How many updates it has had."""
    update: ModelUpdate | None = None
    """The current update; None without one."""
    was_live: dict[str, str] = field(default_factory=dict)
    """The versions that were live, by model, as a set of `version_bitset` each: 250 bytes for 1,000."""
    rollback_to: RoundModel | None = None
    """The model of a rollback whose update is not published yet; None without one."""
    failed_update: RoundModel | None = None
    """The model to return to after an update that failed, until that is published; None without one."""
    deployed_at: int = -1
    """Offset of the newest ModelDeployed; -1 before the first."""
    services: dict[str, ServiceState] = field(default_factory=dict)
    """Its inference services by their targets, `serve.NAME.REPLICA`; also those that it has no more."""
    foreign: dict[str, ServiceCounts] = field(default_factory=dict)
    """What services outside of Trackside have reported, by their names."""
    hard_examples: int = 0
    """How many hard examples its services have counted since the last round began."""
    clock_ms: int = 0
    """Append time of the newest event that has changed it, in ms since 1970."""
    changed_at: int = -1
    """Offset of the last event that changed it."""
    removal: ConfigRemoval | None = None
    """The removal of its folder below `config`; None unless it was deleted and may have one."""
    settled: list[str] = field(default_factory=list)
    """The ids of the tasks that have ended and are still kept."""

    @property
    def over(self) -> bool:
        """Returns whether it was deleted, and nothing of it runs any more."""
        serving = any(service.running for service in self.services.values())
        removed = self.removal is None or self.removal.ended
        return self.status is JobStatus.DELETED and not self.open_tasks and not serving and removed

    @property
    def base(self) -> RoundModel:
        """The model that the next round begins with."""
        if self.spec.start_from == "deployed" or self.last_trained is None:
            return self.live
        return self.last_trained

    @property
    def compared(self) -> RoundModel:
        """The model that a trained one is compared with."""
        return self.initial_eval if self.deployed_at < 0 else self.live

    @property
    def newest_live(self) -> list[int]:
        """The newest versions of its model that were live, in ascending order; there may be older ones."""
        return largest(self.was_live.get(self.spec.model, ""), SHOWN_VERSIONS)

    @property
    def deploying(self) -> bool:
        """Returns whether the model of a round is brought to its targets now."""
        return self.update is not None and self.update.cause == "round"

    @property
    def closed(self) -> bool:
        """Returns False: commands to it are still decided, by what it is."""
        return False

    def has_settled(self, task_id: str) -> bool:
        """Returns whether a task or child that is not kept has ended."""
        if task_id in self.open_tasks.values():
            return False
        name, _, number = task_id.removeprefix(f"{self.job_id}.").rpartition(".")
        counted = int(number) if number.isdecimal() and len(number) < 16 else 0
        if (service := self.services.get(name)) is not None:
            return 1 <= counted <= service.tasks - service.running
        if name == REMOVAL_TASKS:
            return self.removal is not None and 1 <= counted <= self.removal.tasks
        part, _, purpose = name.partition(".")
        if part[:1] not in ("r", "u") or not part[1:].isdecimal() or len(part) > 16:
            return False
        owner, newest = (self.round, self.rounds) if part[0] == "r" else (self.update, self.updates)
        if int(part[1:]) != newest or owner is None:
            return 1 <= int(part[1:]) <= newest
        return 1 <= counted <= owner.tasks.get(purpose, 0)

    def trim(self) -> None:
        """Keeps all: it does not grow with its rounds."""

    def release(self) -> None:
        """Keeps all: it is never closed."""


def job_of(stream: Stream) -> IncrementalJob | None:
    """Returns the job of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, IncrementalJob) else None
