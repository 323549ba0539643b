"""Advice: what tuners and assessors say, or fail to say, besides parameters and verdicts."""

from typing import ClassVar

from pydantic import Field

from trackside.contracts.message import Event
from trackside.contracts.searches import DISPATCHER

MESSAGE_MAX = 2_000
TRACEBACK_MAX = 8_000
"""So many characters of an error's message and of its traceback are kept: the end of it."""
FAILURES_MAX = 20
"""So many failures of a search's assessor are told; after them nobody asks it any more."""


class SuggestionFailed(Event):
    """A tuner gave no parameters that a trial could have: it raised, was silent too long, ended or erred.

    `failure` counts its failures for this trial from 1; what follows is the search's `tuner.on_failure`.
    `seen` is the offset that it was asked at, `traceback` the last of what it said of its error.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    trial: int
    failure: int = Field(ge=1)
    code: str
    message: str = Field(max_length=MESSAGE_MAX)
    traceback: str = Field(default="", max_length=TRACEBACK_MAX)
    seen: int


class SuggestionDeferred(Event):
    """A tuner wants to know more before it suggests a trial: it is asked again when one has ended.

    `seen` is the offset that it was asked at. If more was known already when it said so, it is asked at once.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    trial: int
    seen: int


class AssessmentFailed(Event):
    """An assessor gave no verdict: it raised, was silent too long, ended or said neither yes nor no.

    Up to row `rows` of what it is told of the search it had gone; `trial` is the one it was asked about, if
    that is known: the trial goes on. `failure` counts failures in a row from 1; what follows is the search's
    `assessor.on_failure`. `seen` is the offset that it was asked at.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    rows: int = Field(ge=0)
    failure: int = Field(ge=1)
    trial: int | None = None
    code: str
    message: str = Field(max_length=MESSAGE_MAX)
    traceback: str = Field(default="", max_length=TRACEBACK_MAX)
    seen: int


class LaneBacklogged(Event):
    """So many requests wait for the tuners or the assessors of a dispatcher; not said again until it clears.

    `incarnation` is the dispatcher's process.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    instance: str
    incarnation: str
    lane: str
    waiting: int
    limit: int


class LaneCleared(Event):
    """A lane that was backlogged is so no more, or its dispatcher's process has ended."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    instance: str
    incarnation: str
    lane: str
    waiting: int
