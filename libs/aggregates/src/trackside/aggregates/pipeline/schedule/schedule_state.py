"""The state of a schedule of a pipeline."""

from dataclasses import dataclass
from enum import StrEnum

from trackside.aggregates.pipeline.schedule.schedule_messages import ScheduleSpec


class ScheduleStatus(StrEnum):
    """The states of a schedule; one that is paused is only fired by commands."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"


@dataclass(slots=True)
class Schedule:
    """A schedule of a pipeline as folded from the log."""

    name: str
    """Its name, which no other schedule of the pipeline has."""
    spec: ScheduleSpec
    """When it begins runs, and which ones."""
    created_ms: int
    """When it was created: append time of ScheduleCreated, in ms since 1970."""
    after_ms: int
    """Its next time follows this one: when it was created, changed or resumed, or its time before."""
    status: ScheduleStatus = ScheduleStatus.ACTIVE
    """Its state."""
    due_ms: int | None = None
    """Its next time in ms since 1970, once that is in the log."""
    seen: str | None = None
    """What was there, or what fired it last, of what it waits for: a key. None until that is in the log."""
    fires: int = 0
    """How often it was fired: the number of the last time."""
    skips: int = 0
    """How often of these it has begun no run."""
    fired_ms: int = 0
    """When it was fired last: append time of ScheduleFired, in ms since 1970; 0 before that."""
    last_run: str = ""
    """The id of the run that it asked for last; empty before that."""
    skipped: str = ""
    """Why it began no run when it was fired last, as a code; empty if it did."""
    message: str = ""
    """The same as a sentence; empty if it began a run."""
    reason: str = ""
    """Why it is paused; empty while it is not."""

    def is_new(self, key: str) -> bool:
        """Returns whether a key is not what was seen; where keys are offsets, whether it is a later one."""
        if self.spec.on is None or self.spec.on.watch is None:
            return key != self.seen
        return _offset(key) > _offset(self.seen or "")

    @property
    def needs_time(self) -> bool:
        """Returns whether the log lacks its next time."""
        return self.status is ScheduleStatus.ACTIVE and self.due_ms is None and self.spec.cron is not None


def _offset(key: str) -> int:
    return int(key) if key.isascii() and key.isdecimal() else -1
