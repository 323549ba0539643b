"""Completed trials by their generation, so that a sampler does not read all trials at every ask.

Optuna's CMA-ES and genetic samplers read every trial at every ask. A rebuild asks for every trial again, so
its time would grow with the square of their number.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

OptunaTrial = Any
OptunaSampler = Any


class GenerationIndex:
    """The completed trials of a study in the order of their numbers: all of them, and by generation."""

    def __init__(self) -> None:
        self.completed: list[OptunaTrial] = []
        self._by_number: dict[int, list[OptunaTrial]] = defaultdict(list)

    def add(self, trial: OptunaTrial) -> None:
        """Adds a completed trial, which must not change after that."""
        insort(self.completed, trial, key=_number)
        for name, value in trial.system_attrs.items():
            if name.endswith(":generation"):
                insort(self._by_number[value], trial, key=_number)

    def of(self, generation: int) -> list[OptunaTrial]:
        """Returns the trials of a generation."""
        return list(self._by_number.get(generation, ()))

    def next_generation(self, size: int) -> int:
        """Returns the generation of a new trial: the newest one, or the next if that has `size` trials."""
        newest = max(self._by_number, default=0)
        return newest if len(self._by_number.get(newest, ())) < size else newest + 1


def attach_to_cma_es(sampler: OptunaSampler, generations: GenerationIndex) -> None:
    """Makes a CMA-ES sampler read from the index, which has the same trials in the same order."""
    sampler._get_trials = lambda study: generations.completed
    sampler._get_solution_trials = lambda trials, generation: generations.of(generation)


def attach_to_genetic(sampler: OptunaSampler, generations: GenerationIndex) -> None:
    """Makes a genetic sampler read from the index, which has the same trials in the same order."""

    def trial_generation(study: Any, trial: OptunaTrial) -> int:
        key = sampler._get_generation_key()
        generation: int | None = trial.system_attrs.get(key)
        if generation is None:
            generation = generations.next_generation(sampler.population_size)
            study._storage.set_trial_system_attr(trial._trial_id, key, generation)
        return generation

    parents: Callable[[Any, int], Sequence[OptunaTrial]] = sampler.get_parent_population

    def parent_population(study: Any, generation: int) -> Sequence[OptunaTrial]:
        attributes = study._storage._studies[study._study_id].system_attrs
        cached = attributes.get(f"{sampler._get_parent_cache_key_prefix()}{generation}")
        if cached is None:
            return parents(study, generation)
        return sorted((study._storage.get_trial(trial_id) for trial_id in cached), key=_number)

    sampler.get_trial_generation = trial_generation
    sampler.get_population = lambda study, generation: generations.of(generation)
    sampler.get_parent_population = parent_population


def _number(trial: OptunaTrial) -> int:
    number: int = trial.number
    return number
