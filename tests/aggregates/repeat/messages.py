"""Repeats: one task, run several times."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json
from trackside.contracts.tasks.resources import Needs


class RepeatStatus(StrEnum):
    """The states of a repeat; it is DONE however its runs ended."""

    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    DONE = "DONE"
    STOPPED = "STOPPED"


class RepeatSpec(Needs):
    """Everything that defines a repeat: the task, how often it runs, and how many runs are open at once.

    After its end it can be extended for `keep_s`; then it is archived. When it is done it extends the repeat
    `extends` by a run.
    """

    name: str = Field(default="", max_length=200)
    task_type: str = Field(min_length=1, max_length=200)
    parameters: Json = Field(default={})
    times: int = Field(ge=1, le=1_000)
    at_once: int = Field(default=1, ge=1, le=1_000)
    keep_s: float = Field(default=3_600.0, ge=0, le=86_400)
    extends: str = Field(default="", max_length=200)


class StartRepeat(Command, RepeatSpec):
    """Asks for a task to be run several times, under the stream id of the command."""


class ExtendRepeat(Command):
    """Asks for more runs of a repeat, also after it is done."""

    more: int = Field(ge=1, le=1_000)


class StopRepeat(Command):
    """Asks a repeat to start no more runs and to end those that run."""

    reason: str = Field(default="", max_length=1_000)


class RepeatStarted(Event):
    """A repeat has begun."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    repeat: RepeatSpec


class RepeatExtended(Event):
    """A repeat has so many runs in all now; one that was done goes on."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    times: int


class RepeatStopRequested(Event):
    """A repeat starts no more runs and ends those that run."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    reason: str


class RepeatEnded(Event):
    """A repeat is over, until it is extended; `finished` counts the runs that finished."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    status: RepeatStatus
    finished: int


class RepeatExtensionAnswered(Event):
    """The repeat that this one extends has answered what the end at `asked_at` asks for.

    `refused` is the code of its refusal; empty if it was accepted.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    asked_at: int
    refused: str


class RepeatArchived(Event):
    """A repeat can be extended no more; void if written before `due_ms`."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    due_ms: int
