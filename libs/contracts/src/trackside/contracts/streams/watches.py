"""What schedules wait for in the tasks of a stream: an end, an artifact, or a value of a metric."""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.message import DISPATCHER, Event, is_absent


class TaskWatch(BaseModel):
    """What is waited for: of one `task`, or of any.

    Of `task_ended`, `of` is how the task ends; of `artifact`, it is the name, and `kind` the kind: without
    one any but `checkpoint`. Of `metric`, it is the name, empty for the value that decides; what counts is
    that a value is within the bounds and the last one of the same task was not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    event: Literal["task_ended", "artifact", "metric"]
    task: str = Field(default="", exclude_if=is_absent)
    of: str = Field(default="", exclude_if=is_absent)
    kind: str = Field(default="", exclude_if=is_absent)
    above: float | None = Field(default=None, allow_inf_nan=False, exclude_if=is_absent)
    below: float | None = Field(default=None, allow_inf_nan=False, exclude_if=is_absent)

    @property
    def key(self) -> str:
        """What it is known by: another one has the same key only if it is equal."""
        return self.model_dump_json()


class TasksWatched(Event):
    """Schedules wait for something that tasks of this stream do: the fold notes it from here on."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    watch: TaskWatch
