"""Advice: what tuners and assessors say, or fail to say, besides parameters and verdicts."""

from typing import ClassVar

from pydantic import Field

from trackside.contracts.message import Event
from trackside.contracts.searches import DISPATCHER

MESSAGE_MAX = 2_000
TRACEBACK_MAX = 8_000
"""So many characters of an error's message and of its traceback are kept: the end of it."""


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
