"""Schedules of pipelines: when runs begin by themselves."""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json, is_absent
from trackside.contracts.streams.watches import TaskWatch
from trackside.domain.pipelines.definition import MAX_STEPS, StepName

MAX_SCHEDULES = 100
"""How many schedules a pipeline may have."""
MAX_CATCH_UP = 100
"""How many of the times that were missed still have a run, at most: the newest ones."""
GRACE_MS = 60_000
"""How late a run may begin that is not to be caught up with."""

ScheduleName = Annotated[Identifier, Field(max_length=100)]
_Reason = Annotated[str, Field(max_length=1_000)]


class ScheduleTrigger(BaseModel):
    """What a schedule waits for in another stream, instead of times.

    That a search, batch or run has ended (`of`: with this status), a run of a defined pipeline has, a model
    has a version, or another one with a stage or tag (`of`: which), a dataset more samples that were
    observed, or a search another best trial. `above` and `below` are bounds of its value.

    Or that one `task` of the stream, or any, has ended (`of`: how), has saved an artifact (`of`: its name,
    `kind`: of this kind), or has reported a value of a metric (`of`: its name, without it the value that
    decides) within the bounds after one that was not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    stream: Identifier
    event: Literal[
        "ended",
        "run_ended",
        "version",
        "stage",
        "tag",
        "observed",
        "best",
        "task_ended",
        "artifact",
        "metric",
    ]
    task: Identifier | None = Field(default=None, exclude_if=is_absent)
    of: str = Field(default="", max_length=200, exclude_if=is_absent)
    kind: str = Field(default="", max_length=200, exclude_if=is_absent)
    above: float | None = Field(default=None, allow_inf_nan=False, exclude_if=is_absent)
    below: float | None = Field(default=None, allow_inf_nan=False, exclude_if=is_absent)

    @property
    def watch(self) -> TaskWatch | None:
        """What it waits for in the tasks of the stream; None if it is something else."""
        match self.event:
            case "task_ended" | "artifact" | "metric" as event:
                bounds = {"above": self.above, "below": self.below}
                return TaskWatch(event=event, task=self.task or "", of=self.of, kind=self.kind, **bounds)
            case _:
                return None


class ScheduleSpec(BaseModel):
    """When runs of a pipeline begin, and which ones.

    They begin at times, or when something happens (`on`); then `${trigger.NAME}` in `parameters` is what is
    known of it. `cron` has five fields, as Debian's, in the time zone. `overlap` says what follows if a run
    of this schedule has not ended: no run, a run that waits for that end, or one more. `catch_up` says which
    times have a run that passed while nothing could begin it: none, the latest one, or the newest hundred.
    Of several ends, artifacts or values of tasks at once, all have one with `all`, else the latest one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    cron: str | None = Field(default=None, min_length=1, max_length=200, exclude_if=is_absent)
    on: ScheduleTrigger | None = Field(default=None, exclude_if=is_absent)
    timezone: str = Field(default="UTC", min_length=1, max_length=100)
    overlap: Literal["skip", "queue", "allow"] = "skip"
    catch_up: Literal["none", "latest", "all"] = "latest"
    version: int | None = Field(default=None, ge=1, exclude_if=is_absent)
    parameters: Json = Field(default={}, exclude_if=is_absent)
    overrides: dict[StepName, Json] = Field(default={}, max_length=MAX_STEPS, exclude_if=is_absent)
    seed: int = Field(default=0, ge=0, le=2**53)
    use_cache: bool = Field(default=True)


class CreateSchedule(Command):
    """Asks for runs of a pipeline at certain times, from now on."""

    name: ScheduleName
    schedule: ScheduleSpec


class UpdateSchedule(Command):
    """Asks that a schedule of a pipeline is another one from now on."""

    name: ScheduleName
    schedule: ScheduleSpec


class PauseSchedule(Command):
    """Asks that a schedule begins no runs by itself; times that pass meanwhile are not caught up with."""

    name: ScheduleName
    reason: _Reason = ""


class ResumeSchedule(Command):
    """Asks that a schedule that is paused begins runs again."""

    name: ScheduleName


class DeleteSchedule(Command):
    """Asks that a pipeline no longer has a schedule; runs that it has begun continue."""

    name: ScheduleName


class FireSchedule(Command):
    """Asks for a run of a schedule now, also if it is paused."""

    name: ScheduleName


class ScheduleCreated(Event):
    """A pipeline has a schedule; `change` counts what was changed of a pipeline."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    name: str
    schedule: ScheduleSpec


class ScheduleUpdated(Event):
    """A schedule of a pipeline is another one."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    name: str
    schedule: ScheduleSpec


class SchedulePaused(Event):
    """A schedule begins no runs by itself."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    name: str
    reason: str = ""


class ScheduleResumed(Event):
    """A schedule that was paused begins runs again."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    name: str


class ScheduleDeleted(Event):
    """A pipeline no longer has a schedule."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    name: str


class ScheduleArmed(Event):
    """This is the next time of a schedule; `after_ms` is the time that it follows, such as the one before.

    Without `passed_ms` it had none. Else that one is not caught up with: void unless the new time is past
    too, or the old one is past by more than a minute.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    name: str
    after_ms: int
    due_ms: int
    passed_ms: int | None = Field(default=None, exclude_if=is_absent)


class ScheduleWatched(Event):
    """A schedule waits for something in another stream from here on: `key` is what was there before."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    name: str
    key: str


class ScheduleFired(Event):
    """A schedule asks for a run, which follows in this decision: at its time, or by a command.

    Or since something has happened: `key` is what, and `cause` the last event of its stream then,
    `STREAM@OFFSET`. `fire` counts from 1. Void if written before `due_ms`. There is no run if it is
    `skipped`: this is the code of the reason, `message` says more.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str = Field(default="", exclude_if=is_absent)
    name: str
    fire: int
    due_ms: int | None = Field(default=None, exclude_if=is_absent)
    cause: str = Field(default="", exclude_if=is_absent)
    key: str = Field(default="", exclude_if=is_absent)
    run: str = Field(default="", exclude_if=is_absent)
    skipped: str = Field(default="", exclude_if=is_absent)
    message: str = Field(default="", exclude_if=is_absent)


ScheduleChange = ScheduleCreated | ScheduleUpdated | SchedulePaused | ScheduleResumed | ScheduleDeleted
"""The events that commands change schedules by."""
ScheduleEvent = ScheduleChange | ScheduleArmed | ScheduleWatched | ScheduleFired
"""The events of schedules."""
