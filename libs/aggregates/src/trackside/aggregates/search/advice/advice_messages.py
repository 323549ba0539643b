"""Advice: what tuners and assessors are asked, and what they say besides parameters and verdicts."""

from typing import ClassVar, Literal

from pydantic import Field

from trackside.aggregates.search.messages import Parameters
from trackside.aggregates.search.space.space import Space
from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json

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
    """An assessor failed: it raised, timed out, exited, or returned neither true nor false.

    `rows` is the number of rows of the search that it had processed. `trial` is the one it was asked about,
    if that is known; the trial continues. `failure` counts failures in a row from 1; `assessor.on_failure` of
    the search determines what follows. `seen` is the offset that it was asked at.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    rows: int = Field(ge=0)
    failure: int = Field(ge=1)
    trial: int | None = None
    code: str
    message: str = Field(max_length=MESSAGE_MAX)
    traceback: str = Field(default="", max_length=TRACEBACK_MAX)
    seen: int


class SuggestionRequested(Event):
    """Asks a tuner that is a process of its own for the parameters of a trial; asked again after a crash.

    `seed` is of the search's seed and the trial's number. `past` lists the trials before this one whose
    parameters the log had when the slot opened (at offset `seen`), oldest first: number (None: imported),
    parameters, state (running, complete, pruned, failed) and value; `omitted` so many older ones for which
    there was no room. An answer counts within `time_limit_s`, and the first one only.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    request_id: str
    search_id: str
    tuner: str
    options: Json
    trial: int
    seed: int
    search_seed: int
    direction: str
    space: Space
    space_version: int
    seen: int
    time_limit_s: float
    past: list[Json]
    omitted: int = 0


class AnswerSuggestion(Command):
    """Answers a request for a suggestion: with parameters, or with what it says instead.

    `wait`: until another trial has ended; `exhausted`: nothing is left to try; `failed`: for the reason in
    `message`.
    """

    request_id: str = Field(min_length=1, max_length=1_000)
    parameters: Parameters | None = None
    says: Literal["wait", "exhausted", "failed"] | None = None
    message: str = Field(default="", max_length=MESSAGE_MAX)


class AssessmentRequested(Event):
    """Asks an assessor in a separate process which running trials of a search to stop.

    `rows` counts the reports, restarts and ends in the search so far; it identifies the request, which is
    repeated after a crash. `running` are the running trials, those with the newest report first, each with
    number, steps and values; `ended` those that have ended, the newest end first, also with status and value
    (none without a finite one). A value that isn't finite is a name. `omitted` counts trials left out to
    limit the size, within a trial its oldest reports. The first answer within `time_limit_s` is used.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    request_id: str
    search_id: str
    assessor: str
    options: Json
    direction: str
    search_seed: int
    rows: int
    time_limit_s: float
    running: list[Json]
    ended: list[Json]
    omitted: int = 0


class AnswerAssessment(Command):
    """Answers a request for an assessment: with the running trials to stop, or `failed`."""

    request_id: str = Field(min_length=1, max_length=1_000)
    hopeless: list[int] | None = Field(default=None, max_length=10_000)
    says: Literal["failed"] | None = None
    message: str = Field(default="", max_length=MESSAGE_MAX)
