"""Tuners of users: classes that an installed package offers under the entry-point group `trackside.tuners`.

A class is instantiated once for a search, with keyword arguments, and called for each trial:

    class Mine:
        def __init__(self, space, options, direction): ...     # ValueError: options not valid
        def suggest(self, history, number, seed): ...           # parameters, None or "wait"

None means that nothing is left to try, "wait" that it needs the end of another trial first.

`space` is the search's space in Trackside's form. `history` lists the trials before this one, oldest first,
each {"number", "parameters", "state": running|complete|pruned|failed, "value"}, and imported results, whose
number is None; those whose parameters are not in the space are left out. It is the same after any restart,
and `seed` is a function of the search's seed and the number. A tuner that uses nothing else suggests the same
again after a restart. It runs in an advisor process: it may be slow or raise, and is killed if it hangs.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from trackside.aggregates.search.messages import Direction
from trackside.aggregates.search.space.axes import SpaceJson, axes_of, parameters_faults
from trackside.contracts.fleet.plugins import find_entry_point
from trackside.dispatcher.plugins.entry_points import installed_names
from trackside.dispatcher.plugins.user_errors import NonsenseError
from trackside.dispatcher.tuners.tuner import (
    EndState,
    TrialValue,
    TriedParameters,
    TunerWaits,
    suggestion_seed,
)

GROUP = "trackside.tuners"
REPEATS_MAX = 8
"""How often a tuner that suggests known parameters is called for one trial, each time with another seed."""

TrialJson = dict[str, Any]


class TunerPlugin(Protocol):
    """The interface of a class of the entry-point group."""

    def suggest(
        self, history: Sequence[TrialJson], number: int, seed: int
    ) -> Mapping[str, Any] | Literal["wait"] | None:
        """Returns the parameters of trial `number`, None when nothing is left, or "wait"."""
        ...


def installed_tuners() -> frozenset[str]:
    """Returns the names of all tuners that were installed at the first call."""
    return installed_names(GROUP)


class PluginTuner:
    """A user's tuner for one search: its history, and the checks of its suggestions."""

    def __init__(self, space: SpaceJson, tuner: Mapping[str, Any], seed: int, direction: Direction) -> None:
        self._name = tuner["name"]
        kind = find_entry_point(GROUP, "tuner", self._name).load()
        options = dict(tuner.get("options") or {})
        self._tuner: TunerPlugin = kind(space=dict(space), options=options, direction=direction)
        self._seed = seed
        self._axes = axes_of(space)
        self._tried = TriedParameters(self._axes)
        self._history: list[TrialJson] = []
        self._by_number: list[TrialJson] = []

    def ask(self, number: int) -> dict[str, Any] | None:
        """Calls the tuner for trial `number`; returns None when nothing is left to try.

        Raises NonsenseError for parameters outside of the space, or that another trial has each time;
        TunerWaits; and any exception of the tuner.
        """
        self._tried.check_asked(number)
        for redraw in range(REPEATS_MAX):
            seed = suggestion_seed(self._seed, number, redraw)
            suggested = self._tuner.suggest(list(self._history), number, seed)
            if suggested is None:
                return None
            if suggested == "wait":
                raise TunerWaits
            faults = parameters_faults(self._axes, suggested)
            if faults:
                path, message = faults[0]
                raise NonsenseError(f"tuner {self._name} suggested for trial {number} at {path}: {message}")
            if not self._tried.has(suggested):
                parameters: dict[str, Any] = json.loads(json.dumps(suggested))
                self._put(number, parameters)
                return parameters
        raise NonsenseError(
            f"tuner {self._name} suggested for trial {number} what another trial has, {REPEATS_MAX} times"
        )

    def restore(self, number: int, parameters: Mapping[str, Any]) -> None:
        """Adds a trial from the log; raises ValueError for a gap in the numbers."""
        self._tried.check_restored(number)
        self._put(number, parameters)

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Records the end of a trial; a pruned one has its last report as value."""
        if number >= len(self._by_number) or self._by_number[number]["state"] != "running":
            return
        last = [reported for _, reported in sorted(intermediates)][-1:]
        self._by_number[number] |= {"state": state, "value": last[0] if state == "pruned" and last else value}

    def add_result(self, parameters: Mapping[str, Any], value: float) -> None:
        """Adds an imported result, if its parameters are in the space."""
        if self._tried.add(parameters) is not None:
            imported = {"number": None, "parameters": dict(parameters), "state": "complete", "value": value}
            self._history.append(imported)

    def _put(self, number: int, parameters: Mapping[str, Any]) -> None:
        fits = self._tried.put(number, parameters) is not None
        trial = {"number": number, "parameters": dict(parameters), "state": "running", "value": None}
        if number < len(self._by_number):
            replaced = self._by_number[number]
            self._history = [other for other in self._history if other is not replaced]
            self._by_number[number] = trial
        else:
            self._by_number.append(trial)
        if fits:
            self._history.append(trial)
