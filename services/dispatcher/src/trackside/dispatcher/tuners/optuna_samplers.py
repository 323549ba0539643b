"""Optuna's sampler of each tuner, created for each trial from (search seed, trial number).

Optuna computes the space that trials have in common by comparing all of them at every ask. A search has one
space, so the samplers receive it instead; it equals the one that they would compute.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

from trackside.dispatcher.tuners.generation_index import (
    GenerationIndex,
    OptunaSampler,
    attach_to_cma_es,
    attach_to_genetic,
)
from trackside.dispatcher.tuners.tuner import suggestion_seed

Options = Mapping[str, Any]
Distributions = dict[str, Any]


class SearchSpaces(Protocol):
    """The distributions of a search for samplers, without those of a single value."""

    def top_level_space(self) -> Distributions:
        """Returns those of the top level, by name; none before a trial that the sampler learns from."""
        ...

    def space_groups(self) -> list[Distributions]:
        """Returns those of the top level and those of each sub-space, as separate groups."""
        ...

    def full_space(self) -> Distributions:
        """Returns those of the top level and of all sub-spaces."""
        ...


@dataclass(frozen=True, slots=True)
class SamplerContext:
    """The trial that a sampler is created for, with its seed, and the search's seed and spaces."""

    number: int
    seed: int
    search_seed: int
    spaces: SearchSpaces
    generations: GenerationIndex
    multi_objective: bool = False


def make_sampler(name: str, options: Options, context: SamplerContext) -> OptunaSampler:
    """Creates a tuner's sampler for one trial; raises ValueError for a tuner that has none."""
    make = _MAKERS.get(name)
    if make is None:
        raise ValueError(f"no sampler for tuner {name!r}; expected one of {', '.join(sorted(_MAKERS))}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not at each suggestion that a sampler is experimental
        return make(options, context)


def random_sampler(seed: int) -> OptunaSampler:
    """Creates the sampler that draws at random."""
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


def _random(_options: Options, context: SamplerContext) -> OptunaSampler:
    return random_sampler(context.seed)


def _tpe(options: Options, context: SamplerContext) -> OptunaSampler:
    from optuna.samplers import TPESampler

    sampler = TPESampler(seed=context.seed, **options)
    # Optuna's default: parameters are drawn together, but one by one for several objectives.
    together = options.get("multivariate", not context.multi_objective)
    return _with_space(sampler, context.spaces.top_level_space) if together else sampler


def _tpe_multivariate(options: Options, context: SamplerContext) -> OptunaSampler:
    """Creates a TPE that draws jointly within the top level and within each sub-space."""
    from optuna.samplers import TPESampler

    sampler = TPESampler(seed=context.seed, multivariate=True, group=True, **options)

    def space_groups() -> Distributions:
        groups = context.spaces.space_groups()
        sampler._search_space_group = SimpleNamespace(search_spaces=groups)
        return {path: space for group in groups for path, space in group.items()}

    return _with_space(sampler, space_groups)


def _gp(options: Options, context: SamplerContext) -> OptunaSampler:
    from optuna.samplers import GPSampler

    return _with_space(
        GPSampler(seed=context.seed, warn_independent_sampling=False, **options),
        context.spaces.top_level_space,
    )


def _cma_es(options: Options, context: SamplerContext) -> OptunaSampler:
    from optuna.samplers import CmaEsSampler

    sampler = CmaEsSampler(seed=context.seed, warn_independent_sampling=False, **options)
    if not options.get("consider_pruned_trials"):
        attach_to_cma_es(sampler, context.generations)
    return _with_space(sampler, context.spaces.top_level_space)


def _genetic(kind: str) -> Callable[[Options, SamplerContext], OptunaSampler]:
    def make(options: Options, context: SamplerContext) -> OptunaSampler:
        from optuna import samplers

        sampler_options = {name: value for name, value in options.items() if name != "crossover"}
        if crossover := options.get("crossover"):
            sampler_options["crossover"] = _crossover(crossover, options)
        maker = samplers.NSGAIIISampler if kind == "nsga3" else samplers.NSGAIISampler
        sampler = maker(seed=context.seed, **sampler_options)
        attach_to_genetic(sampler, context.generations)
        return _with_space(sampler, context.spaces.top_level_space)

    return make


def _crossover(name: str, options: Options) -> Any:
    from optuna.samplers import nsgaii

    if name == "uniform":
        return nsgaii.UniformCrossover(options.get("swapping_prob", 0.5))
    kinds = {
        "blxalpha": nsgaii.BLXAlphaCrossover,
        "spx": nsgaii.SPXCrossover,
        "sbx": nsgaii.SBXCrossover,
        "vsbx": nsgaii.VSBXCrossover,
        "undx": nsgaii.UNDXCrossover,
    }
    return kinds[name]()


def _evolution(options: Options, context: SamplerContext) -> OptunaSampler:
    """Creates NSGA-II without crossover: one of the best trials with some parameters drawn again."""
    from optuna.samplers import NSGAIISampler

    sampler = NSGAIISampler(seed=context.seed, crossover_prob=0.0, **options)
    attach_to_genetic(sampler, context.generations)
    return _with_space(sampler, context.spaces.top_level_space)


def _qmc(options: Options, context: SamplerContext) -> OptunaSampler:
    """Creates a sampler whose trial n is point n of one sequence, scrambled by the search's seed."""
    from optuna.samplers import QMCSampler

    sampler = QMCSampler(
        seed=suggestion_seed(context.search_seed, 0),
        independent_sampler=random_sampler(context.seed),
        warn_independent_sampling=False,
        **{"scramble": True, **options},
    )
    # Optuna counts the points in the study; here the trial's number is the index of its point.
    sampler._find_sample_id = lambda study, space: context.number
    return _with_space(sampler, context.spaces.full_space)


def _with_space(sampler: OptunaSampler, space: Callable[[], Distributions]) -> OptunaSampler:
    sampler.infer_relative_search_space = lambda study, trial: space()
    return sampler


_MAKERS: Mapping[str, Callable[[Options, SamplerContext], OptunaSampler]] = {
    "random": _random,
    "tpe": _tpe,
    "tpe-multivariate": _tpe_multivariate,
    "gp": _gp,
    "cma-es": _cma_es,
    "nsga2": _genetic("nsga2"),
    "nsga3": _genetic("nsga3"),
    "evolution": _evolution,
    "qmc": _qmc,
}
