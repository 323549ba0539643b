"""The state of a pipeline: its versions, and its runs that wait or are open. Drawn in ARCHITECTURE.md."""

from dataclasses import dataclass, field

from trackside.aggregates.pipeline.messages import DEFAULT_MAX_RUNS, PipelineStatus, run_id, run_number
from trackside.aggregates.pipeline.schedule.schedule_state import Schedule
from trackside.contracts.envelope.message import Json
from trackside.domain.streams.stream import Stream

QUEUED, RUNNING, STOPPING, CANCELLED = "QUEUED", "RUNNING", "STOPPING", "CANCELLED"
"""The states of a run as its pipeline knows it; it is cancelled, or ends as its own stream says it."""


@dataclass(slots=True)
class PipelineVersion:
    """A version of a pipeline as folded from the log."""

    number: int
    """Counts the versions of the pipeline from 1."""
    sha256: str
    """The digest of the definition as canonical JSON."""
    definition: str
    """The definition as it was given, as JSON text: few versions of a pipeline are read later."""
    steps: int
    """How many steps it has."""
    defined_ms: int
    """When it was first defined: append time of PipelineDefined, in ms since 1970."""


@dataclass(slots=True)
class NumberedRun:
    """A run of a pipeline as the pipeline's own stream knows it."""

    number: int
    """Counts the runs of the pipeline from 1."""
    version: int
    """The number of the version that it runs."""
    parameters: Json
    """The values of its parameters, as they were given."""
    overrides: dict[str, Json]
    """Patches of single steps."""
    seed: int
    """What its tasks derive random numbers from."""
    use_cache: bool
    """Whether its steps may use results of earlier runs."""
    numbered_ms: int
    """When it was asked for: append time of RunNumbered, in ms since 1970."""
    size_bytes: int
    """How long its parameters and overrides are as JSON."""
    schedule: str = ""
    """The name of the schedule that asked for it; empty for a command."""
    alone: bool = False
    """Whether it waits until no other run of its schedule is open."""
    schedules: list[str] = field(default_factory=list)
    """All schedules that led to it, as PIPELINE/SCHEDULE: its own first."""
    status: str = QUEUED
    """QUEUED, RUNNING, STOPPING, CANCELLED, or how it ended, as its own stream says it."""
    requested_ms: int = 0
    """When its stream was asked for: append time of ChildRequested, in ms since 1970; 0 before that."""
    ended_ms: int = 0
    """When the pipeline had its end, or it was cancelled, in ms since 1970; 0 before that."""
    reason: str = ""
    """Why it was cancelled, is to stop or was refused; empty for none."""


@dataclass(slots=True)
class DefinedPipeline:
    """A pipeline as folded from the log."""

    pipeline_id: str
    """Its name, which is also the id of its stream."""
    defined_ms: int
    """When it was first defined: append time of its first PipelineDefined, in ms since 1970."""
    status: PipelineStatus = PipelineStatus.ACTIVE
    """Its state."""
    current: int = 0
    """The number of its current version, which runs have that don't ask for another one."""
    versions: list[PipelineVersion] = field(default_factory=list)
    """Its versions, oldest first: version N is at N - 1."""
    max_runs: int = DEFAULT_MAX_RUNS
    """How many of its runs may be open at once."""
    numbered: int = 0
    """How many runs it has had: the number of the newest one."""
    runs: dict[int, NumberedRun] = field(default_factory=dict)
    """Its runs that wait, are open, or have ended and are still kept, by number."""
    queued: list[int] = field(default_factory=list)
    """The numbers of the runs that wait for their turn, in their order."""
    open_runs: dict[int, None] = field(default_factory=dict)
    """The numbers of the runs that have been asked for and have not ended, as keys."""
    ended_runs: list[int] = field(default_factory=list)
    """The numbers of the runs that have ended and are still kept."""
    newest_ends: dict[str, int] = field(default_factory=dict)
    """The number of the run that ended last with each status; the one that ended last of all comes last."""
    schedules: dict[str, Schedule] = field(default_factory=dict)
    """Its schedules by name."""
    changes: int = 0
    """How many events have changed it, besides those of runs: the number of the newest one."""
    retired_ms: int = 0
    """When it was retired: append time of PipelineRetired, in ms since 1970; 0 while it is not."""
    reason: str = ""
    """Why it is retired; empty while it is not."""
    changed_at: int = -1
    """Offset of the last event that changed it."""
    settled: list[str] = field(default_factory=list)
    """The ids of the runs that have ended and whose streams are still kept as children."""

    @property
    def over(self) -> bool:
        """Returns whether no run of it waits or is open; it may be run again."""
        return not self.queued and not self.open_runs

    @property
    def closed(self) -> bool:
        """Returns False, for it may still change: a pipeline that is retired can be defined again."""
        return False

    def has_settled(self, task_id: str) -> bool:
        """Returns whether a child that is not kept was a run that has ended; a pipeline has no tasks."""
        number = run_number(self.pipeline_id, task_id)
        if number is None or number > self.numbered:
            return False
        return number not in self.open_runs and number not in self.queued

    def trim(self) -> None:
        """Drops the runs that have ended: their streams have all that is known of them."""
        for number in self.ended_runs:
            self.runs.pop(number, None)
        self.ended_runs.clear()

    def release(self) -> None:
        """Keeps all: it is never closed."""

    def version(self, number: int) -> PipelineVersion | None:
        """Returns the version of a number, or None if there is none."""
        return self.versions[number - 1] if 1 <= number <= len(self.versions) else None

    def with_digest(self, sha256: str) -> PipelineVersion | None:
        """Returns the version with this content, or None."""
        return next((version for version in self.versions if version.sha256 == sha256), None)

    @property
    def definition_bytes(self) -> int:
        """How long the definitions of all versions are together."""
        return sum(len(version.definition) for version in self.versions)

    @property
    def queued_bytes(self) -> int:
        """How long the parameters of all runs that wait are together."""
        return sum(self.runs[number].size_bytes for number in self.queued)

    @property
    def next_run(self) -> NumberedRun | None:
        """The run whose turn it is to begin, if there is room for it."""
        if not self.queued or len(self.open_runs) >= self.max_runs:
            return None
        busy = {self.runs[number].schedule for number in self.open_runs}
        waiting = (self.runs[number] for number in self.queued)
        return next((run for run in waiting if not (run.alone and run.schedule in busy)), None)

    def open_run_of(self, schedule: str) -> int | None:
        """Returns the number of a run of a schedule that waits or is open, or None."""
        numbers = (*self.open_runs, *self.queued)
        return next((number for number in numbers if self.runs[number].schedule == schedule), None)

    def run_id(self, number: int) -> str:
        """Returns the id of the stream of a run."""
        return run_id(self.pipeline_id, number)


def pipeline_of(stream: Stream) -> DefinedPipeline | None:
    """Returns the pipeline of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, DefinedPipeline) else None
