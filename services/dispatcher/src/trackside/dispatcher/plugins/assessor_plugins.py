"""Assessors of users: classes that an installed package offers under the group `trackside.assessors`.

A class is instantiated once for a search, with keyword arguments, and called on each report of a trial:

    class Mine:
        def __init__(self, options, direction, seed): ...     # ValueError: options not valid
        def hopeless(self, trial, ended): ...                 # True: stop it; False: let it run

`trial` is {"number", "steps", "values", "newest"}: the reports of its running attempt, finite values only;
`newest` is the value of the report in question, finite or not. `ended` lists the trials that are over, in the
order of their ends: {"number", "status", "value", "steps", "values"}. The class runs in the advisor process
of users' assessors. After a restart a new instance gets the same calls again, from the start.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trackside.aggregates.search.messages import Direction, TrialStatus
from trackside.contracts.fleet.plugins import find_entry_point
from trackside.dispatcher.assessors.stopping_rules import LearningCurve
from trackside.dispatcher.plugins.entry_points import installed_names
from trackside.dispatcher.plugins.user_errors import NonsenseError

GROUP = "trackside.assessors"

TrialReports = dict[str, Any]


class AssessorPlugin(Protocol):
    """The interface of a class of the entry-point group."""

    def hopeless(self, trial: TrialReports, ended: Sequence[TrialReports]) -> bool:
        """Returns whether a trial is to be stopped at its newest report."""
        ...


def installed_assessors() -> frozenset[str]:
    """Returns the names of all assessors that were installed at the first call."""
    return installed_names(GROUP)


class PluginStoppingRule:
    """A user's assessor as the stopping rule of one search."""

    def __init__(self, assessor: Mapping[str, Any], direction: Direction, seed: int) -> None:
        self._name = assessor["name"]
        kind = find_entry_point(GROUP, "assessor", self._name).load()
        options = dict(assessor.get("options") or {})
        self._assessor: AssessorPlugin = kind(options=options, direction=direction, seed=seed)
        self._ended: list[TrialReports] = []

    def should_stop(self, curve: LearningCurve) -> bool:
        """Calls the user's assessor; raises what it raises, and NonsenseError unless it returns a bool."""
        trial = {**_reports(curve), "newest": curve.newest}
        answer = self._assessor.hopeless(trial, list(self._ended))
        if not isinstance(answer, bool):
            raise NonsenseError(f"assessor {self._name} said {answer!r:.200} of a trial, not True or False")
        return answer

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Adds a trial that succeeded to those that are over."""
        self._ended.append({**_reports(curve), "status": TrialStatus.SUCCEEDED.value, "value": value})

    def on_ended(self, curve: LearningCurve, state: str) -> None:
        """Adds a trial that ended in another way."""
        self._ended.append({**_reports(curve), "status": str(state), "value": None})

    def on_restarted(self, curve: LearningCurve) -> None:
        """Keeps nothing: the reports of an attempt are in its curve."""

    def on_resumed(self, curve: LearningCurve) -> None:
        """Keeps nothing: the reports that count again are in its curve."""


def _reports(curve: LearningCurve) -> TrialReports:
    return {"number": curve.number, "steps": list(curve.steps), "values": list(curve.values)}
