"""Population-based training: members train in turns and copy better ones (Jaderberg et al., 2017).

Each turn of a member is a trial that continues from a checkpoint with `interval` more steps. A member among
the worst of the population goes on from one of the best (truncation selection) with parameters that are
explored; any other one goes on from its own with its parameters. With `pb2` these are explored by a bandit
(Parker-Holder et al., 2020). Results are compared as they are: a member is not waited for, unless the
population is `synchronous`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.random import RandomState

from trackside.aggregates.search.space.axes import Axes, Axis, encode
from trackside.dispatcher.tuners.promotion.promoting_tuner import PromotableTrial
from trackside.dispatcher.tuners.tuner import EndState, TrialValue, TriedParameters, TunerWaits

Explore = Callable[[RandomState, PromotableTrial, Sequence[PromotableTrial]], dict[str, Any]]
"""Returns new parameters for one that goes on from a trial, given all trials so far."""


@dataclass(frozen=True, slots=True)
class PopulationOptions:
    """The options of a population: its size, the steps of a turn, and who copies whom."""

    interval: int
    population_size: int = 10
    quantile: float = 0.2
    synchronous: bool = False


@dataclass(slots=True)
class _Member:
    """A member of the population: its turns so far, and the last one."""

    index: int
    turns: int = 0
    now: PromotableTrial | None = None
    before: PromotableTrial | None = None
    """Its last turn that has ended; None before the first, and if that failed."""

    @property
    def rests(self) -> bool:
        return self.now is None or self.now.ended


class PopulationTuner:
    """A population; a suggestion is a pure function of seed and history.

    Trial n is of the member with the fewest turns that doesn't train, the first of equal ones. One whose
    turn failed copies another one; without any result so far it begins with new parameters.
    """

    def __init__(
        self,
        axes: Axes,
        options: PopulationOptions,
        sign: float,
        seeds: Callable[[int], int],
        explore: Explore,
    ) -> None:
        self._axes = axes
        self._options = options
        self._sign = sign
        self._seeds = seeds
        self._explore = explore
        self._tried = TriedParameters(axes)
        self._members = [_Member(index) for index in range(options.population_size)]
        self._trials: list[PromotableTrial] = []
        self._member_of: dict[int, tuple[_Member, PromotableTrial | None]] = {}

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests trial `number` as {parameters, from_trial, step_limit}.

        Raises ValueError if a trial before it is unknown, and TunerWaits while all members train.
        """
        self._tried.check_asked(number)
        member = self._next_member()
        if member is None:
            raise TunerWaits
        random = RandomState(self._seeds(number))
        parent, explores = self._parent(member, random)
        if parent is None:
            parameters, limit = drawn(self._axes, random), self._options.interval
        else:
            parameters = self._explore(random, parent, self._trials) if explores else dict(parent.parameters)
            limit = parent.step_limit + self._options.interval
        before = None if parent is None else parent.number
        suggestion = {"parameters": parameters, "from_trial": before, "step_limit": limit}
        self.restore(number, suggestion)
        return suggestion

    def restore(self, number: int, suggestion: Mapping[str, Any]) -> None:
        """Adds a trial from the log, in the form in which it is suggested; `own` is false for other sources.

        Raises ValueError for a gap in the numbers.
        """
        self._tried.check_restored(number)
        limit = suggestion.get("step_limit")
        trial = PromotableTrial(
            number,
            suggestion["parameters"],
            suggestion.get("from_trial"),
            self._options.interval if limit is None else limit,
            suggestion.get("own", True),
        )
        if number < len(self._trials):
            if self._trials[number] == trial:
                return
            self._take_back(number)
            self._trials[number] = trial
        else:
            self._trials.append(trial)
        self._tried.put(number, trial.parameters)
        member = self._next_member() if trial.own else None
        if member is not None:
            self._member_of[number] = (member, member.now)
            member.now, member.turns = trial, member.turns + 1

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Records the end of a turn; one that failed, or was stopped early, is not continued."""
        if number >= len(self._trials) or self._trials[number].ended:
            return
        trial = self._trials[number]
        trial.ended = True
        fits = self._tried.encoded[number] is not None
        if state == "complete" and isinstance(value, int | float) and fits:
            trial.value = self._sign * float(value)
        if number in self._member_of:
            self._member_of[number][0].before = None if trial.value is None else trial

    def add_result(self, parameters: Mapping[str, Any], value: float) -> None:
        """Does nothing: there is no checkpoint to continue from."""

    def _take_back(self, number: int) -> None:
        if number in self._member_of:
            member, now = self._member_of.pop(number)
            member.now, member.turns = now, member.turns - 1

    def _next_member(self) -> _Member | None:
        """Returns the member whose turn is next; None if it depends on members that train."""
        resting = [member for member in self._members if member.rests]
        if not resting:
            return None
        member = min(resting, key=lambda each: each.turns)
        fewest = min(each.turns if each.rests else each.turns - 1 for each in self._members)
        return None if self._options.synchronous and member.turns > fewest else member

    def _parent(self, member: _Member, random: RandomState) -> tuple[PromotableTrial | None, bool]:
        """Returns the trial that a member continues, and whether it explores other parameters."""
        ranked = sorted(
            (each.before for each in self._members if each.before is not None), key=lambda each: each.rank
        )
        if not ranked or member.turns == 0:
            return None, False
        selected = max(1, math.ceil(len(ranked) * self._options.quantile - 1e-9))
        is_bad = member.before in ranked[max(len(ranked) - selected, selected) :]
        if member.before is None or is_bad:
            return ranked[random.randint(selected)], True
        return member.before, False


@dataclass(slots=True)
class Perturbation:
    """Explores as in the paper: a parameter is drawn again, or changed by a factor.

    A number is multiplied by 1 + `factor` or 1 - `factor` and clipped to its interval, an integer changes by
    one at least. A choice takes the value beside it.
    """

    axes: Axes
    resample_probability: float = 0.25
    factor: float = 0.2
    only: frozenset[str] | None = None
    """The parameters that it changes; None: all."""

    def __call__(
        self, random: RandomState, parent: PromotableTrial, trials: Sequence[PromotableTrial]
    ) -> dict[str, Any]:
        """Returns the parameters of a trial, perturbed."""
        codes = encode(self.axes, parent.parameters)
        found = dict(parent.parameters)
        for name, axis in self.axes.items():
            if axis.constant or axis.is_single or (self.only is not None and name not in self.only):
                continue
            if random.uniform() < self.resample_probability:
                found[name] = drawn_value(axis, random)
                continue
            code, up = codes[name], random.uniform() < 0.5
            if axis.scale == "index":
                moved: float = code + (1 if up else -1)
            else:
                moved = code * (1 + self.factor if up else 1 - self.factor)
                if axis.scale == "integer":
                    moved = round(moved) if round(moved) != code else code + (1 if up else -1)
            clipped = min(max(moved, axis.low), axis.high)
            found[name] = axis.decode(int(clipped) if axis.scale in ("index", "integer") else float(clipped))
        return found


def drawn(axes: Axes, random: RandomState) -> dict[str, Any]:
    """Draws a value on each axis."""
    return {name: drawn_value(axis, random) for name, axis in axes.items()}


def drawn_value(axis: Axis, random: RandomState) -> Any:
    """Draws a value on an axis: uniformly, on a logarithmic one in its logarithm."""
    if axis.constant:
        return axis.decode(0)
    if axis.scale in ("index", "integer"):
        return axis.decode(int(random.randint(int(axis.low), int(axis.high) + 1)))
    if axis.scale == "log":
        share = math.exp(random.uniform(math.log(axis.low), math.log(axis.high)))
        return axis.decode(min(max(share, axis.low), axis.high))
    return axis.decode(float(random.uniform(axis.low, axis.high)))
