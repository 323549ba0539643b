"""Tuners by Optuna's samplers: a suggestion is a pure function of seed and history.

The suggestion for trial n depends on (search seed, n), on the parameters of all trials before n, and on the
ends so far; on nothing else. Optuna is imported when the first tuner is created.
"""

import copy
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from trackside.aggregates.search.messages import Direction
from trackside.aggregates.search.space.axes import Axes, Axis, SpaceJson, axes_of, branch_prefix, flat_axes
from trackside.aggregates.search.space.space import NAME
from trackside.dispatcher.tuners.bounded_history import BoundedHistory, rank_of_complete, rank_of_pruned
from trackside.dispatcher.tuners.generation_index import GenerationIndex
from trackside.dispatcher.tuners.optuna_samplers import (
    Distributions,
    SamplerContext,
    make_sampler,
    random_sampler,
)
from trackside.dispatcher.tuners.tuner import EndState, TrialValue, TriedParameters, suggestion_seed

REDRAWS = 16
"""How often parameters that another trial has are drawn again; the second half at random."""
GENETIC = frozenset({"nsga2", "nsga3", "evolution"})
STATEFUL = GENETIC | {"cma-es"}
"""Tuners whose samplers keep state in the trials' attributes: on a rebuild they are asked again."""
_LEARN_FROM_PRUNED = frozenset({"tpe", "tpe-multivariate"})


def distribution(axis: Axis) -> Any:
    """Returns the distribution that Optuna draws an axis from."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    match axis.scale:
        case "index":
            return CategoricalDistribution(range(int(axis.high) + 1))
        case "integer":
            return IntDistribution(int(axis.low), int(axis.high))
        case scale:
            return FloatDistribution(axis.low, axis.high, log=scale == "log")


def _values(value: TrialValue) -> list[float]:
    """Returns the objective values of a complete trial; none if one of them is NaN."""
    values = value if isinstance(value, Sequence) else [value]
    numbers = [float(each) for each in values if each is not None]
    return [] if any(math.isnan(each) for each in numbers) else numbers


class OptunaTuner:
    """A tuner by one of Optuna's samplers, with the trials of a search in a study.

    Parameters are drawn in the order of their names, those of a sub-space right after their choice.
    """

    def __init__(
        self,
        space: SpaceJson,
        tuner: Mapping[str, Any],
        seed: int,
        directions: Sequence[Direction],
        tried: TriedParameters | None = None,
    ) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._axes = axes_of(space)
        self._distributions: Distributions = {
            path: distribution(axis) for path, axis in flat_axes(self._axes)
        }
        self._seed = seed
        self._name, self._options = tuner["name"], dict(tuner.get("options") or {})
        history = self._options.pop("history", None)
        self._bounded = None if history is None else BoundedHistory(history)
        self._storage = optuna.storages.InMemoryStorage()
        self._study = optuna.create_study(
            storage=self._storage, directions=list(directions), pruner=optuna.pruners.NopPruner()
        )
        if self._bounded is not None:
            self._study._get_trials = self._bounded_trials
        self._maximizes = directions[0] == "maximize"
        self._tried = TriedParameters(self._axes) if tried is None else tried
        self._ids: list[int] = []
        self._open: dict[int, None] = {}
        """The study's ids of the trials that have not ended."""
        self._ended: set[int] = set()
        self._has_learned = False
        self._generations = GenerationIndex()

    def ask(self, number: int) -> dict[str, Any] | None:
        """Suggests the parameters of trial `number`, or None when every point has been suggested.

        The trial is part of the history from then on. Raises ValueError if a trial before it is unknown.
        """
        self._tried.check_asked(number)
        parameters = self._draw(number)
        if parameters is not None:
            self._put(number, parameters)
        return parameters

    def draw(self, number: int) -> dict[str, Any] | None:
        """Draws parameters with the seed of trial `number` that nobody has tried; adds no trial.

        For a tuner that has imported results only. Returns None when every point was tried.
        """
        return self._draw(0, number)

    def restore(self, number: int, parameters: Mapping[str, Any]) -> None:
        """Adds a trial from the log, exactly as if it had been asked here.

        Its parameters replace those of a trial of the same number that was asked here. Parameters that are
        not in the space teach the tuner nothing. Raises ValueError for a gap in the numbers.
        """
        self._tried.check_restored(number)
        if number == len(self._tried):
            if self._name in STATEFUL:
                self._draw(number)
            self._begin(number)
        self._put(number, parameters)

    def tell(
        self,
        number: int,
        state: EndState,
        value: TrialValue = None,
        intermediates: Iterable[tuple[int, float]] = (),
    ) -> None:
        """Records the end of a trial; a second end of it, or of an unknown trial, changes nothing.

        A complete trial whose value is not a number counts as failed, since it teaches nothing.
        """
        from optuna.trial import TrialState

        if number in self._ended or number >= len(self._tried):
            return
        self._ended.add(number)
        trial = self._ids[number]
        self._open.pop(trial, None)
        if self._tried.encoded[number] is None:
            state = "failed"
        values = _values(value)
        if state == "complete" and values:
            self._storage.set_trial_state_values(trial, TrialState.COMPLETE, values)
            if self._name in STATEFUL:
                self._generations.add(self._storage.get_trial(trial))
            self._add_complete(trial, values[0])
        elif state == "pruned":
            # Samplers rank pruned trials by their last step alone, so the others are not kept.
            last = [(step, float(reported)) for step, reported in sorted(intermediates)[-1:]]
            for step, reported in last:
                self._storage.set_trial_intermediate_value(trial, step, reported)
            self._storage.set_trial_state_values(trial, TrialState.PRUNED)
            if self._bounded is not None:
                self._bounded.add(rank_of_pruned(trial, last[0] if last else None, self._maximizes))
            self._has_learned = self._has_learned or self._name in _LEARN_FROM_PRUNED
        else:
            self._storage.set_trial_state_values(trial, TrialState.FAIL)

    def add_result(self, parameters: Mapping[str, Any], value: float) -> None:
        """Adds an imported result as another complete trial; genetic tuners can select it as a parent."""
        from optuna.samplers import NSGAIIISampler, NSGAIISampler
        from optuna.trial import TrialState

        encoded = self._tried.add(parameters)
        if encoded is None:
            return
        trial = self._storage.create_new_trial(self._study._study_id)
        self._write_to(trial, encoded)
        if self._name in GENETIC:
            kind = NSGAIIISampler if self._name == "nsga3" else NSGAIISampler
            self._storage.set_trial_system_attr(trial, kind._get_generation_key(), 0)
        self._storage.set_trial_state_values(trial, TrialState.COMPLETE, [float(value)])
        if self._name in STATEFUL:
            self._generations.add(self._storage.get_trial(trial))
        self._add_complete(trial, float(value))

    def _add_complete(self, trial: int, value: float) -> None:
        self._has_learned = True
        if self._bounded is not None:
            self._bounded.add(rank_of_complete(trial, value, self._maximizes))

    def _bounded_trials(
        self, deepcopy: bool = True, states: Container[Any] | None = None, use_cache: bool = False
    ) -> list[Any]:
        """Takes the place of the study's method: returns the ended trials that count, and the open ones.

        As there, trials are read once an ask if they may come from the cache.
        """
        assert self._bounded is not None
        local = self._study._thread_local
        trials = local.cached_all_trials if use_cache else None
        if trials is None:
            ids = sorted((*self._bounded.trials(), *self._open))
            trials = [self._storage._get_trial(each) for each in ids]
            if use_cache:
                local.cached_all_trials = trials
        return [trial for trial in trials if states is None or trial.state in states]

    def top_level_space(self) -> Distributions:
        """Returns the distributions of the top level, by name; none before a trial to learn from.

        With them a sampler does not compare all trials: measured at 1,000 trials, 16 ms an ask instead of 24.
        """
        return self._group(self._axes, "") if self._has_learned else {}

    def space_groups(self) -> list[Distributions]:
        """Returns the distributions of the top level and those of each sub-space, as separate groups."""
        return list(self._groups(self._axes, "")) if self._has_learned else []

    def full_space(self) -> Distributions:
        """Returns the distributions of the top level and of all sub-spaces, by their paths."""
        return {path: space for group in self._groups(self._axes, "") for path, space in group.items()}

    def _groups(self, axes: Axes, prefix: str) -> Iterator[Distributions]:
        if group := self._group(axes, prefix):
            yield group
        for name, axis in axes.items():
            for index, branch in (axis.branches or {}).items():
                yield from self._groups(branch, prefix + branch_prefix(name, index))

    def _group(self, axes: Axes, prefix: str) -> Distributions:
        return {
            prefix + name: self._distributions[prefix + name] for name in axes if not axes[name].is_single
        }

    def _draw(self, number: int, seeded_by: int | None = None) -> dict[str, Any] | None:
        """Draws until no other trial has the parameters; returns None if there are none left."""
        import optuna

        seeded_by = number if seeded_by is None else seeded_by
        for redraw in range(REDRAWS + 1):
            self._begin(number)
            self._study.sampler = self._sampler(seeded_by, redraw)
            # Optuna reads all trials once an ask; its own `ask` does the same before it creates a trial.
            self._study._thread_local.cached_all_trials = None
            parameters = self._walk(optuna.Trial(self._study, self._ids[number]), self._axes)
            if not self._tried.has(parameters):
                return parameters
        return self._tried.first_untried(suggestion_seed(self._seed, seeded_by))

    def _sampler(self, number: int, redraw: int) -> Any:
        seed = suggestion_seed(self._seed, number, redraw)
        # Another point of the sequence would be that of another trial.
        if redraw > REDRAWS // 2 or (redraw and self._name == "qmc"):
            return random_sampler(seed)
        multi_objective = len(self._study.directions) > 1
        context = SamplerContext(number, seed, self._seed, self, self._generations, multi_objective)
        return make_sampler(self._name, self._options, context)

    def _walk(self, trial: Any, axes: Axes, prefix: str = "") -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, axis in axes.items():
            path = prefix + name
            code = 0 if axis.constant else trial._suggest(path, self._distributions[path])
            branch = (axis.branches or {}).get(code)
            values[name] = axis.decode(code)
            if branch is not None:
                members = self._walk(trial, branch, prefix + branch_prefix(name, code))
                values[name] = {NAME: values[name], **members}
        return values

    def _begin(self, number: int) -> None:
        """Creates the study's trial for a number, or removes the parameters of an existing one."""
        if number == len(self._ids):
            self._ids.append(self._storage.create_new_trial(self._study._study_id))
            self._open[self._ids[-1]] = None
        else:
            self._write(number, {})

    def _put(self, number: int, parameters: Mapping[str, Any]) -> None:
        self._write(number, self._tried.put(number, parameters) or {})

    def _write(self, number: int, encoded: Mapping[str, Any]) -> None:
        """Sets the parameters of a trial, and removes what TPE has left there for other processes.

        Optuna cannot remove a parameter; a copy replaces the trial, as in its own setters.
        """
        self._write_to(self._ids[number], encoded)

    def _write_to(self, trial_id: int, encoded: Mapping[str, Any]) -> None:
        trial = copy.copy(self._storage._get_trial(trial_id))
        trial.distributions = {path: self._distributions[path] for path in encoded}
        trial.params = {
            path: space.to_external_repr(space.to_internal_repr(encoded[path]))
            for path, space in trial.distributions.items()
        }
        trial.system_attrs = {
            name: value for name, value in trial.system_attrs.items() if "relative_params" not in name
        }
        self._storage._set_trial(trial._trial_id, trial)
