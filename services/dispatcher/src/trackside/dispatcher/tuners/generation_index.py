"""Completed trials by the generation that a sampler wrote beside them, so that an ask needn't look at all.

Optuna's CMA-ES and genetic samplers go through every trial at every ask. A rebuild asks for every trial
again, so that would take time that grows with the square of their number.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

OptunaTrial = Any
OptunaSampler = Any


class GenerationIndex:
    """The completed trials of a study in the order of their numbers, all of them and by generation."""

    def __init__(self) -> None:
        self.completed: list[OptunaTrial] = []
        self._by_number: dict[int, list[OptunaTrial]] = defaultdict(list)

    def add(self, trial: OptunaTrial) -> None:
        """Takes in a trial that is complete; none is changed after that."""
        insort(self.completed, trial, key=_number)
        for name, value in trial.system_attrs.items():
            if name.endswith(":generation"):
                insort(self._by_number[value], trial, key=_number)

    def of(self, generation: int) -> list[OptunaTrial]:
        """Gives the trials of a generation."""
        return list(self._by_number.get(generation, ()))

    def next_of(self, size: int) -> int:
        """Gives the generation of a new trial: the newest there is, or the one after it if that is full."""
        newest = max(self._by_number, default=0)
        return newest if len(self._by_number.get(newest, ())) < size else newest + 1


def attach_to_cma_es(sampler: OptunaSampler, generations: GenerationIndex) -> None:
    """Has a CMA-ES sampler take what it looks for from the index; the same trials in the same order."""
    sampler._get_trials = lambda study: generations.completed
    sampler._get_solution_trials = lambda trials, generation: generations.of(generation)


def attach_to_genetic(sampler: OptunaSampler, generations: GenerationIndex) -> None:
    """Has a genetic sampler take what it looks for from the index; the same trials in the same order."""

    def trial_generation(study: Any, trial: OptunaTrial) -> int:
        key = sampler._get_generation_key()
        found: int | None = trial.system_attrs.get(key)
        if found is None:
            found = generations.next_of(sampler.population_size)
            study._storage.set_trial_system_attr(trial._trial_id, key, found)
        return found

    parents: Callable[[Any, int], Sequence[OptunaTrial]] = sampler.get_parent_population

    def parent_population(study: Any, generation: int) -> Sequence[OptunaTrial]:
        attributes = study._storage._studies[study._study_id].system_attrs
        known = attributes.get(f"{sampler._get_parent_cache_key_prefix()}{generation}")
        if known is None:
            return parents(study, generation)
        return sorted((study._storage.get_trial(trial_id) for trial_id in known), key=_number)

    sampler.get_trial_generation = trial_generation
    sampler.get_population = lambda study, generation: generations.of(generation)
    sampler.get_parent_population = parent_population


def _number(trial: OptunaTrial) -> int:
    number: int = trial.number
    return number
