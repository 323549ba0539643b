"""Optuna's sampler of each tuner, made anew for each trial from (search seed, trial number).

Optuna finds the space that trials have in common by comparing all of them at every ask; a search has one
space, so the samplers are told it. What they are told is what they would find.
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
    """The distributions of a search, as samplers want them: without those of one value only."""

    def learnt(self) -> Distributions:
        """Gives those of the top level, by name; none as long as no trial taught anything."""
        ...

    def grouped(self) -> list[Distributions]:
        """Gives those of the top level and those of each sub-space, each for itself."""
        ...

    def whole(self) -> Distributions:
        """Gives those of the top level and of all sub-spaces."""
        ...


@dataclass(frozen=True, slots=True)
class SamplerContext:
    """What a sampler is made for: a trial and its own seed, in a search with a seed and spaces.

    `several` says that the search has several objectives.
    """

    number: int
    seed: int
    search_seed: int
    spaces: SearchSpaces
    generations: GenerationIndex
    several: bool = False


def make_sampler(name: str, options: Options, draw: SamplerContext) -> OptunaSampler:
    """Makes a tuner's sampler for one draw; raises ValueError for a tuner that has none."""
    make = _MAKERS.get(name)
    if make is None:
        raise ValueError(f"no sampler for tuner {name!r}; expected one of {', '.join(sorted(_MAKERS))}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "experimental" is for us to know, not for each suggestion
        return make(options, draw)


def random(seed: int) -> OptunaSampler:
    """Makes the sampler that draws by chance alone."""
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


def _random(_options: Options, draw: SamplerContext) -> OptunaSampler:
    return random(draw.seed)


def _tpe(options: Options, draw: SamplerContext) -> OptunaSampler:
    from optuna.samplers import TPESampler

    sampler = TPESampler(seed=draw.seed, **options)
    # Optuna's default: parameters are drawn together, but for several objectives one by one.
    together = options.get("multivariate", not draw.several)
    return _told(sampler, draw.spaces.learnt) if together else sampler


def _tpe_multivariate(options: Options, draw: SamplerContext) -> OptunaSampler:
    """Makes a TPE that draws together what is on the top level, and what is in each sub-space."""
    from optuna.samplers import TPESampler

    sampler = TPESampler(seed=draw.seed, multivariate=True, group=True, **options)

    def grouped() -> Distributions:
        groups = draw.spaces.grouped()
        sampler._search_space_group = SimpleNamespace(search_spaces=groups)
        return {path: found for group in groups for path, found in group.items()}

    return _told(sampler, grouped)


def _gp(options: Options, draw: SamplerContext) -> OptunaSampler:
    from optuna.samplers import GPSampler

    return _told(GPSampler(seed=draw.seed, warn_independent_sampling=False, **options), draw.spaces.learnt)


def _cma_es(options: Options, draw: SamplerContext) -> OptunaSampler:
    from optuna.samplers import CmaEsSampler

    sampler = CmaEsSampler(seed=draw.seed, warn_independent_sampling=False, **options)
    if not options.get("consider_pruned_trials"):
        attach_to_cma_es(sampler, draw.generations)
    return _told(sampler, draw.spaces.learnt)


def _genetic(kind: str) -> Callable[[Options, SamplerContext], OptunaSampler]:
    def make(options: Options, draw: SamplerContext) -> OptunaSampler:
        from optuna import samplers

        given = {name: value for name, value in options.items() if name != "crossover"}
        if crossover := options.get("crossover"):
            given["crossover"] = _crossover(crossover, options)
        maker = samplers.NSGAIIISampler if kind == "nsga3" else samplers.NSGAIISampler
        sampler = maker(seed=draw.seed, **given)
        attach_to_genetic(sampler, draw.generations)
        return _told(sampler, draw.spaces.learnt)

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


def _evolution(options: Options, draw: SamplerContext) -> OptunaSampler:
    """Makes NSGA-II without crossover: a copy of one of the best, some of its parameters drawn anew."""
    from optuna.samplers import NSGAIISampler

    sampler = NSGAIISampler(seed=draw.seed, crossover_prob=0.0, **options)
    attach_to_genetic(sampler, draw.generations)
    return _told(sampler, draw.spaces.learnt)


def _qmc(options: Options, draw: SamplerContext) -> OptunaSampler:
    """Makes a sampler whose trial n is point n of one sequence, by the search's seed if scrambled."""
    from optuna.samplers import QMCSampler

    sampler = QMCSampler(
        seed=suggestion_seed(draw.search_seed, 0),
        independent_sampler=random(draw.seed),
        warn_independent_sampling=False,
        **{"scramble": True, **options},
    )
    # Optuna counts the points in the study; here the trial's number is its place, whoever asks.
    sampler._find_sample_id = lambda study, space: draw.number
    return _told(sampler, draw.spaces.whole)


def _told(sampler: OptunaSampler, space: Callable[[], Distributions]) -> OptunaSampler:
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
