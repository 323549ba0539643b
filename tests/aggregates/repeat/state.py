"""The state of a repeat."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import PlainSerializer

from tests.aggregates.repeat.messages import RepeatSpec, RepeatStatus
from trackside.domain.streams.stream import Stream

OVER = frozenset({RepeatStatus.DONE, RepeatStatus.STOPPED})
GOES_ON = frozenset({RepeatStatus.RUNNING, RepeatStatus.DONE})  # it can be extended in these


@dataclass(slots=True)
class Repeat:
    """A repeat as folded from the log."""

    repeat_id: str
    """Its id, which is also the id of its stream."""
    spec: RepeatSpec
    """What the user asked for."""
    times: int
    """How many runs there are to be: those asked for at first, and later."""
    started_ms: int
    """When it started, in ms since 1970."""
    status: RepeatStatus = RepeatStatus.RUNNING
    """Its state: RUNNING, STOPPING, or how it ended."""
    submitted: int = 0
    """How many runs were submitted."""
    open: Annotated[set[str], PlainSerializer(sorted, return_type=list[str])] = field(default_factory=set)
    """The ids of the tasks of those that have not ended."""
    finished: int = 0
    """How many runs have finished."""
    stop_reason: str = ""
    """Why it was stopped; empty before that."""
    ended_ms: int = 0
    """When it ended last, in ms since 1970; 0 before its first end."""
    archived: bool = False
    """Whether it can be extended no more."""
    changed_at: int = -1
    """Offset of the last event that changed it."""
    settled: list[str] = field(default_factory=list)
    """The ids of the tasks that have ended and are still kept."""
    stopped_at: int = -1
    """Offset of the RepeatStopRequested that counts; -1: none."""
    ended_at: int = -1
    """Offset of RepeatEnded; -1 while it goes on."""
    extension: str | None = None
    """How the repeat that it extends has answered: the code of a refusal, or empty; None before that."""

    @property
    def over(self) -> bool:
        """Returns whether no run of it goes on, and none will."""
        return self.status in OVER

    @property
    def closed(self) -> bool:
        """Returns whether its end is final: only once it is archived."""
        return self.archived

    def has_settled(self, task_id: str) -> bool:
        """Returns whether a task that is not kept has settled: whether it was submitted."""
        return task_id in {self.task_of(number) for number in range(self.submitted)}

    def trim(self) -> None:
        """Keeps all: its rows are computed from counts."""

    def release(self) -> None:
        """Keeps all but what is about single tasks."""
        self.settled.clear()

    @property
    def ended(self) -> int:
        """How many runs have ended."""
        return self.submitted - len(self.open)

    @property
    def has_room(self) -> bool:
        """Returns whether another run may be submitted now."""
        more = self.submitted < self.times and len(self.open) < self.spec.at_once
        return more and self.status is RepeatStatus.RUNNING

    @property
    def asks(self) -> bool:
        """Returns whether it is done, and the repeat that it extends has not answered."""
        return bool(self.spec.extends) and self.status is RepeatStatus.DONE and self.extension is None

    @property
    def due_ms(self) -> int | None:
        """When it is archived, in ms since 1970; None while it goes on."""
        return self.ended_ms + int(self.spec.keep_s * 1000) if self.over and not self.archived else None

    def task_of(self, number: int) -> str:
        """Returns the id of the task of a run."""
        return f"{self.repeat_id}.{number}"


def repeat_of(stream: Stream) -> Repeat | None:
    """Returns the repeat of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, Repeat) else None
