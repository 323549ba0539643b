"""Tuners by Optuna's samplers: which parameters come next, as a pure function of seed and history.

The suggestion for trial n depends on (search seed, n), on the parameters of all trials before n, and on the
ends told so far; on nothing else. Optuna is imported only where a search is really asked.
"""

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trackside.contracts.searches import Direction
from trackside.dispatcher.tuners.axes import NAME, Axes, Axis, SpaceJson, axes_of, branch_prefix, flat
from trackside.dispatcher.tuners.generation_index import GenerationIndex
from trackside.dispatcher.tuners.optuna_samplers import Distributions, SamplerContext, make_sampler, random
from trackside.dispatcher.tuners.tuner import EndState, TrialValue, TriedParameters, suggestion_seed

REDRAWS = 16
"""How often a point that is known already is drawn again; from the second half on by chance alone."""
GENETIC = frozenset({"nsga2", "nsga3", "evolution"})
STATEFUL = GENETIC | {"cma-es"}
"""Tuners whose samplers write beside the trials what they need later: these are asked again on a rebuild."""
_LEARN_FROM_PRUNED = frozenset({"tpe", "tpe-multivariate"})


def distribution(axis: Axis) -> Any:
    """Gives the distribution that Optuna draws an axis from."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    match axis.scale:
        case "places":
            return CategoricalDistribution(range(int(axis.high) + 1))
        case "whole":
            return IntDistribution(int(axis.low), int(axis.high))
        case scale:
            return FloatDistribution(axis.low, axis.high, log=scale == "log")


def _values(value: TrialValue) -> list[float]:
    """Gives the numbers that a complete trial is judged by; none if one of them is no number."""
    found = [float(each) for each in (value if isinstance(value, Sequence) else [value]) if each is not None]
    return [] if any(math.isnan(each) for each in found) else found


class OptunaTuner:
    """What a sampler of Optuna knows about one search, held in a study.

    Parameters are drawn in the order of their names, those of a sub-space right after their choice.
    """

    def __init__(
        self, space: SpaceJson, tuner: Mapping[str, Any], seed: int, directions: Sequence[Direction]
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._axes = axes_of(space)
        self._distributions: Distributions = {path: distribution(axis) for path, axis in flat(self._axes)}
        self._seed = seed
        self._name, self._options = tuner["name"], tuner.get("options") or {}
        self._storage = optuna.storages.InMemoryStorage()
        self._study = optuna.create_study(
            storage=self._storage, directions=list(directions), pruner=optuna.pruners.NopPruner()
        )
        self._known = TriedParameters(self._axes)
        self._ids: list[int] = []
        self._ended: set[int] = set()
        self._taught = False
        self._generations = GenerationIndex()

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests the parameters of trial `number`, or None when every point has been suggested.

        The trial is part of the history from then on. Raises ValueError if a trial before it is unknown.
        """
        self._known.check_asked(number)
        parameters = self._drawn(number)
        if parameters is not None:
            self._put(number, parameters)
        return parameters

    def recall(self, number: int, parameters: Mapping[str, Any]) -> None:
        """Takes in a trial that the log says was suggested, exactly as if it had been asked here.

        Parameters that won over the ones asked here replace them; those that are none of the space are no
        lesson for the tuner. Raises ValueError for a gap in the numbers.
        """
        self._known.check_recalled(number)
        if number == len(self._known):
            if self._name in STATEFUL:
                self._drawn(number)
            self._begin(number)
        self._put(number, parameters)

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Takes in the end of a trial; a second end of it, or of an unknown trial, changes nothing.

        A complete trial without a number as its value counts as failed, since there is nothing to learn from.
        """
        from optuna.trial import TrialState

        if number in self._ended or number >= len(self._known):
            return
        self._ended.add(number)
        trial = self._ids[number]
        if self._known.inner[number] is None:
            state = "failed"
        values = _values(value)
        if state == "complete" and values:
            self._storage.set_trial_state_values(trial, TrialState.COMPLETE, values)
            if self._name in STATEFUL:
                self._generations.add(self._storage.get_trial(trial))
            self._taught = True
        elif state == "pruned":
            # Samplers rank pruned trials by their last step alone, so the others needn't be kept.
            for step, reported in sorted(intermediates)[-1:]:
                self._storage.set_trial_intermediate_value(trial, step, float(reported))
            self._storage.set_trial_state_values(trial, TrialState.PRUNED)
            self._taught = self._taught or self._name in _LEARN_FROM_PRUNED
        else:
            self._storage.set_trial_state_values(trial, TrialState.FAIL)

    def learn(self, parameters: Mapping[str, Any], value: float) -> None:
        """Takes in a result from elsewhere, as one more complete trial; genetic tuners breed from it."""
        from optuna.samplers import NSGAIIISampler, NSGAIISampler
        from optuna.trial import TrialState

        found = self._known.learn(parameters)
        if found is None:
            return
        trial = self._storage.create_new_trial(self._study._study_id)
        self._write_to(trial, found)
        if self._name in GENETIC:
            kind = NSGAIIISampler if self._name == "nsga3" else NSGAIISampler
            self._storage.set_trial_system_attr(trial, kind._get_generation_key(), 0)
        self._storage.set_trial_state_values(trial, TrialState.COMPLETE, [float(value)])
        if self._name in STATEFUL:
            self._generations.add(self._storage.get_trial(trial))
        self._taught = True

    def learnt(self) -> Distributions:
        """Gives the distributions of the top level, by name; none as long as no trial taught anything.

        Told, a sampler needn't compare all trials to find them: measured at 1,000 trials, 16 ms an ask
        instead of 24.
        """
        return self._group(self._axes, "") if self._taught else {}

    def grouped(self) -> list[Distributions]:
        """Gives the distributions of the top level and those of each sub-space, each for itself."""
        return list(self._groups(self._axes, "")) if self._taught else []

    def whole(self) -> Distributions:
        """Gives the distributions of the top level and of all sub-spaces, by their paths."""
        return {path: found for group in self._groups(self._axes, "") for path, found in group.items()}

    def _groups(self, axes: Axes, prefix: str) -> Iterator[Distributions]:
        if group := self._group(axes, prefix):
            yield group
        for name, axis in axes.items():
            for place, branch in (axis.branches or {}).items():
                yield from self._groups(branch, prefix + branch_prefix(name, place))

    def _group(self, axes: Axes, prefix: str) -> Distributions:
        return {prefix + name: self._distributions[prefix + name] for name in axes if not axes[name].single}

    def _drawn(self, number: int) -> dict[str, Any] | None:
        """Draws until there is a point that no trial has; None if there is none."""
        import optuna

        for redraw in range(REDRAWS + 1):
            self._begin(number)
            self._study.sampler = self._sampler(number, redraw)
            # Optuna reads all trials once an ask; this is what its own `ask` does before it makes a trial.
            self._study._thread_local.cached_all_trials = None
            found = self._walk(optuna.Trial(self._study, self._ids[number]), self._axes)
            if not self._known.has(found):
                return found
        return self._known.unseen(suggestion_seed(self._seed, number))

    def _sampler(self, number: int, redraw: int) -> Any:
        seed = suggestion_seed(self._seed, number, redraw)
        # Another point of a sequence would be another trial's.
        if redraw > REDRAWS // 2 or (redraw and self._name == "qmc"):
            return random(seed)
        several = len(self._study.directions) > 1
        draw = SamplerContext(number, seed, self._seed, self, self._generations, several)
        return make_sampler(self._name, self._options, draw)

    def _walk(self, trial: Any, axes: Axes, prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, axis in axes.items():
            path = prefix + name
            place = 0 if axis.constant else trial._suggest(path, self._distributions[path])
            branch = (axis.branches or {}).get(place)
            found[name] = axis.outward(place)
            if branch is not None:
                members = self._walk(trial, branch, prefix + branch_prefix(name, place))
                found[name] = {NAME: found[name], **members}
        return found

    def _begin(self, number: int) -> None:
        """Makes the study's trial for a number, or takes the parameters off the one there is."""
        if number == len(self._ids):
            self._ids.append(self._storage.create_new_trial(self._study._study_id))
        else:
            self._write(number, {})

    def _put(self, number: int, parameters: Mapping[str, Any]) -> None:
        self._write(number, self._known.put(number, parameters) or {})

    def _write(self, number: int, inner: Mapping[str, Any]) -> None:
        """Gives a trial these parameters and no others, nor what TPE left there for other processes.

        Optuna has no way to take a parameter back; a copy replaces the trial, as its own setters do.
        """
        self._write_to(self._ids[number], inner)

    def _write_to(self, trial_id: int, inner: Mapping[str, Any]) -> None:
        trial = copy.copy(self._storage._get_trial(trial_id))
        trial.distributions = {path: self._distributions[path] for path in inner}
        trial.params = {
            path: found.to_external_repr(found.to_internal_repr(inner[path]))
            for path, found in trial.distributions.items()
        }
        trial.system_attrs = {
            name: kept for name, kept in trial.system_attrs.items() if "relative_params" not in name
        }
        self._storage._set_trial(trial._trial_id, trial)
