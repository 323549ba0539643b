"""Tuners of users: classes that an installed package offers under the entry-point group `trackside.tuners`.

A class is made once for a search, with keyword arguments, and asked for each trial:

    class Mine:
        def __init__(self, space, options, direction): ...     # ValueError: these options won't do
        def suggest(self, history, number, seed): ...           # parameters, None or "wait"

None says that nothing is left to try, "wait" that it has to know the end of another trial first.

`space` is the search's in our form. `history` lists the trials before this one, oldest first, each
{"number", "parameters", "state": running|complete|pruned|failed, "value"}, and imported results, whose number
is None; those whose parameters are none of the space are left out. It is the same after any restart, and
`seed` is made of the search's seed and the number. A tuner that uses nothing else suggests the same again
after a restart. It runs in the advisor process: it may be slow, raise or hang, and is ended if it does.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from trackside.contracts.searches import Direction
from trackside.dispatcher.plugins.entry_points import find_entry_point, installed_names
from trackside.dispatcher.plugins.user_errors import NonsenseError
from trackside.dispatcher.tuners.axes import SpaceJson, axes_of, unfit
from trackside.dispatcher.tuners.tuner import (
    EndState,
    TrialValue,
    TriedParameters,
    TunerWaits,
    suggestion_seed,
)

GROUP = "trackside.tuners"
REPEATS_MAX = 8
"""How often a tuner that repeats itself is asked for one trial, each time with another seed."""

TrialJson = dict[str, Any]


class TunerPlugin(Protocol):
    """What a class of the entry-point group is asked."""

    def suggest(
        self, history: Sequence[TrialJson], number: int, seed: int
    ) -> Mapping[str, Any] | Literal["wait"] | None:
        """Gives the parameters of trial `number`, None when nothing is left, or "wait"."""
        ...


def installed_tuners() -> frozenset[str]:
    """Gives the names of all tuners that were installed when this was first asked."""
    return installed_names(GROUP)


class PluginTuner:
    """One search of a user's tuner: its history, and the checks on what it suggests."""

    def __init__(self, space: SpaceJson, tuner: Mapping[str, Any], seed: int, direction: Direction) -> None:
        self._name = tuner["name"]
        kind = find_entry_point(GROUP, "tuner", self._name).load()
        options = dict(tuner.get("options") or {})
        self._tuner: TunerPlugin = kind(space=dict(space), options=options, direction=direction)
        self._seed = seed
        self._axes = axes_of(space)
        self._known = TriedParameters(self._axes)
        self._history: list[TrialJson] = []
        self._of_trial: list[TrialJson] = []

    def ask(self, number: int) -> dict[str, Any] | None:
        """Asks the tuner for trial `number`; None when it has nothing left.

        Raises NonsenseError for parameters outside of the space or repeated again and again,
        TunerWaits, and whatever the tuner raises.
        """
        self._known.check_asked(number)
        for redraw in range(REPEATS_MAX):
            seed = suggestion_seed(self._seed, number, redraw)
            suggested = self._tuner.suggest(list(self._history), number, seed)
            if suggested is None:
                return None
            if suggested == "wait":
                raise TunerWaits
            fault = unfit(self._axes, suggested)
            if fault is not None:
                raise NonsenseError(
                    f"tuner {self._name} suggested for trial {number} at {fault[0]}: {fault[1]}"
                )
            if not self._known.has(suggested):
                parameters: dict[str, Any] = json.loads(json.dumps(suggested))
                self._put(number, parameters)
                return parameters
        raise NonsenseError(
            f"tuner {self._name} suggested for trial {number} what another trial has, {REPEATS_MAX} times"
        )

    def recall(self, number: int, parameters: Mapping[str, Any]) -> None:
        """Takes in a trial that the log says was suggested; raises ValueError for a gap in the numbers."""
        self._known.check_recalled(number)
        self._put(number, parameters)

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Takes in the end of a trial; that of a pruned one comes with its last report as value."""
        if number >= len(self._of_trial) or self._of_trial[number]["state"] != "running":
            return
        last = [reported for _, reported in sorted(intermediates)][-1:]
        self._of_trial[number] |= {"state": state, "value": last[0] if state == "pruned" and last else value}

    def learn(self, parameters: Mapping[str, Any], value: float) -> None:
        """Takes in a result from elsewhere, if its parameters are of the space."""
        if self._known.learn(parameters) is not None:
            past = {"number": None, "parameters": dict(parameters), "state": "complete", "value": value}
            self._history.append(past)

    def _put(self, number: int, parameters: Mapping[str, Any]) -> None:
        fits = self._known.put(number, parameters) is not None
        past = {"number": number, "parameters": dict(parameters), "state": "running", "value": None}
        if number < len(self._of_trial):
            replaced = self._of_trial[number]
            self._history = [other for other in self._history if other is not replaced]
            self._of_trial[number] = past
        else:
            self._of_trial.append(past)
        if fits:
            self._history.append(past)
