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
from trackside.dispatcher.assessors.stopping_rules import LearningCurve
from trackside.dispatcher.plugins.entry_points import find_entry_point, installed_names
from trackside.dispatcher.plugins.user_errors import NonsenseError

GROUP = "trackside.assessors"

TrialReports = dict[str, Any]


class AssessorPlugin(Protocol):
    """What a class of the entry-point group is asked."""

    def hopeless(self, trial: TrialReports, ended: Sequence[TrialReports]) -> bool:
        """Says whether a trial is to be stopped upon its newest report."""
        ...


def installed_assessors() -> frozenset[str]:
    """Gives the names of all assessors that were installed when this was first asked."""
    return installed_names(GROUP)


class PluginStoppingRule:
    """A user's assessor as the rule of one search."""

    def __init__(self, assessor: Mapping[str, Any], direction: Direction, seed: int) -> None:
        self._name = assessor["name"]
        kind = find_entry_point(GROUP, "assessor", self._name).load()
        options = dict(assessor.get("options") or {})
        self._assessor: AssessorPlugin = kind(options=options, direction=direction, seed=seed)
        self._ended: list[TrialReports] = []

    def should_stop(self, curve: LearningCurve) -> bool:
        """Asks the user's assessor; raises NonsenseError unless it says yes or no, and what that raises."""
        trial = {**_told(curve), "newest": curve.newest}
        said = self._assessor.hopeless(trial, list(self._ended))
        if not isinstance(said, bool):
            raise NonsenseError(f"assessor {self._name} said {said!r:.200} of a trial, not True or False")
        return said

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Remembers a trial that succeeded."""
        self._ended.append({**_told(curve), "status": TrialStatus.SUCCEEDED.value, "value": value})

    def on_ended(self, curve: LearningCurve, state: str) -> None:
        """Remembers a trial that ended in another way."""
        self._ended.append({**_told(curve), "status": str(state), "value": None})

    def on_restarted(self, curve: LearningCurve) -> None:
        """Forgets an attempt with its curve."""


def _told(curve: LearningCurve) -> TrialReports:
    return {"number": curve.number, "steps": list(curve.steps), "values": list(curve.values)}
