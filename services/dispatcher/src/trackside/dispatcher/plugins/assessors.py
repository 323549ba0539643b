"""Assessors of users: classes that an installed package offers under the group `trackside.assessors`.

A class is made once for a search, with keyword arguments, and asked upon each report of a running trial:

    class Mine:
        def __init__(self, options, direction, seed): ...     # ValueError: these options won't do
        def hopeless(self, trial, ended): ...                 # True: stop it; False: it goes on

`trial` is {"number", "steps", "values", "newest"}: what its attempt has reported, finite values only;
`newest` is the value that it is asked upon, finite or not. `ended` lists the trials that are over, in the
order of their ends: {"number", "status", "value", "steps", "values"}. It runs in the advisor process of
users' assessors; told again from the start, as after a restart, it is asked the same again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trackside.contracts.searches import Direction, TrialStatus
from trackside.dispatcher.assessors.stopping_rules import Course
from trackside.dispatcher.plugins import entry_points as installed
from trackside.dispatcher.plugins.user_errors import NonsenseError

GROUP = "trackside.assessors"

Told = dict[str, Any]


class OwnAssessor(Protocol):
    """What a class of the entry-point group is asked."""

    def hopeless(self, trial: Told, ended: Sequence[Told]) -> bool:
        """Says whether a trial is to be stopped upon its newest report."""
        ...


def names() -> frozenset[str]:
    """Gives the names of all assessors that were installed when this was first asked."""
    return installed.names(GROUP)


class OwnRule:
    """A user's assessor as the rule of one search."""

    def __init__(self, assessor: Mapping[str, Any], direction: Direction, seed: int) -> None:
        self._name = assessor["name"]
        kind = installed.found(GROUP, "assessor", self._name).load()
        options = dict(assessor.get("options") or {})
        self._assessor: OwnAssessor = kind(options=options, direction=direction, seed=seed)
        self._ended: list[Told] = []

    def hopeless(self, course: Course) -> bool:
        """Asks the user's assessor; raises NonsenseError unless it says yes or no, and what that raises."""
        trial = {**_told(course), "newest": course.newest}
        said = self._assessor.hopeless(trial, list(self._ended))
        if not isinstance(said, bool):
            raise NonsenseError(f"assessor {self._name} said {said!r:.200} of a trial, not True or False")
        return said

    def completed(self, course: Course, value: float) -> None:
        """Remembers a trial that succeeded."""
        self._ended.append({**_told(course), "status": TrialStatus.SUCCEEDED.value, "value": value})

    def over(self, course: Course, state: str) -> None:
        """Remembers a trial that ended in another way."""
        self._ended.append({**_told(course), "status": str(state), "value": None})

    def restarted(self, course: Course) -> None:
        """Forgets an attempt with its course."""


def _told(course: Course) -> Told:
    return {"number": course.number, "steps": list(course.steps), "values": list(course.values)}
