"""The built-in tuners by name: their options, and the types of parameters that each can search. Pure.

The service checks a search here before it starts, without Optuna; the advisor process creates the tuners, by
`tuner_factory`.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from trackside.aggregates.search.space.axes import (
    FINITE_TYPES,
    SpaceJson,
    axes_of,
    encode,
    parameters_faults,
    parameters_of,
    size,
)
from trackside.aggregates.search.space.options import (
    Boolean,
    Fault,
    Fraction,
    Integer,
    OneOf,
    OptionTypes,
    ParameterName,
    ParameterSets,
    Starts,
    check_options,
    remote_name_faults,
)
from trackside.aggregates.search.space.promoting_options import (
    BUDGET_PARAMETER,
    DEFAULT_FACTORS,
    PROMOTING,
    STARTS,
    promotion_faults,
)
from trackside.aggregates.search.space.space import TYPES, is_sub_space
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, nearest

GRID_POINTS_MAX = 100_000
PARAMETERS_MAX = 1_000
HISTORY = "history"
"""The option that bounds how many ended trials a tuner learns from, and so the time of a suggestion."""
HISTORY_MIN = 50
EVERY_TYPE = frozenset(TYPES)
_CROSSOVERS = OneOf(("uniform", "blxalpha", "spx", "sbx", "vsbx", "undx"))
_THREE_PARENTS = frozenset({"spx", "undx"})
_GENETIC: OptionTypes = {
    "population_size": Integer(2, 10_000),
    "mutation_prob": Fraction(),
    "crossover_prob": Fraction(),
    "swapping_prob": Fraction(),
    "crossover": _CROSSOVERS,
}


@dataclass(frozen=True)
class TunerKind:
    """What a tuner supports: options, types of parameters, sub-spaces, several objectives.

    One that `learns` makes suggestions that depend on how earlier trials ended.
    """

    options: OptionTypes = field(default_factory=dict)
    types: frozenset[str] = EVERY_TYPE
    nested: bool = False
    multi_objective: bool = True
    learns: bool = True


TUNERS: Mapping[str, TunerKind] = {
    "random": TunerKind(nested=True, learns=False),
    "grid": TunerKind(types=FINITE_TYPES, nested=True, learns=False),
    "batch": TunerKind(
        {
            "sets": ParameterSets(),
            "repeats": Boolean(),
            STARTS: Starts(),
            BUDGET_PARAMETER: ParameterName(),
        },
        nested=True,
        learns=False,
    ),
    "tpe": TunerKind(
        {
            "n_startup_trials": Integer(0),
            "n_ei_candidates": Integer(1, 10_000),
            "multivariate": Boolean(),
            "constant_liar": Boolean(),
            HISTORY: Integer(HISTORY_MIN),
        },
        nested=True,
    ),
    "tpe-multivariate": TunerKind(
        {
            "n_startup_trials": Integer(0),
            "n_ei_candidates": Integer(1, 10_000),
            "constant_liar": Boolean(),
            HISTORY: Integer(HISTORY_MIN),
        },
        nested=True,
    ),
    "gp": TunerKind({"n_startup_trials": Integer(1), "deterministic_objective": Boolean()}),
    "cma-es": TunerKind(
        {
            "n_startup_trials": Integer(1),
            "popsize": Integer(5, 10_000),
            "consider_pruned_trials": Boolean(),
            "use_separable_cma": Boolean(),
            "with_margin": Boolean(),
            "lr_adapt": Boolean(),
        },
        types=EVERY_TYPE - {"choice"},
        multi_objective=False,
    ),
    "nsga2": TunerKind(_GENETIC),
    "nsga3": TunerKind({**_GENETIC, "dividing_parameter": Integer(1, 100)}),
    "evolution": TunerKind({"population_size": Integer(2, 10_000), "mutation_prob": Fraction()}),
    "qmc": TunerKind(
        {"qmc_type": OneOf(("sobol", "halton")), "scramble": Boolean()}, nested=True, learns=False
    ),
    **{
        name: TunerKind(options, nested=name in DEFAULT_FACTORS, multi_objective=False)
        for name, options in PROMOTING.items()
    },
}


def check_tuner(space: SpaceJson, tuner: Mapping[str, object], plugins: Collection[str] = ()) -> list[Fault]:
    """Returns why this tuner can't search this space: JSON paths and messages, none if it can.

    `plugins` are the names of installed tuners, which check their options themselves.
    """
    return list(islice(_faults(space, tuner, plugins), MAX_PROBLEMS))


def can_search(kind: TunerKind, parameter: Mapping[str, Any]) -> bool:
    """Returns whether a tuner can search a parameter; a choice of one value needs no search."""
    values: list[Any] = parameter.get("values") or []
    return parameter["type"] in kind.types or (len(values) == 1 and not is_sub_space(values[0]))


def _faults(space: SpaceJson, tuner: Mapping[str, object], plugins: Collection[str]) -> Iterator[Fault]:
    unsound = list(_space_faults(space))
    yield from unsound
    if tuner.get("remote"):
        yield from remote_name_faults("$.tuner", tuner.get("name"))
        return
    if tuner.get("name") in plugins and tuner.get("name") not in TUNERS:
        return
    builtin = {name: kind.options for name, kind in TUNERS.items()}
    wrong, options = check_options("tuner", tuner, builtin, plugins=plugins)
    yield from wrong
    if options is None:
        return
    name = str(tuner["name"])
    unfit = list(_type_faults(space, name))
    yield from unfit
    yield from _option_conflicts(name, options)
    yield from promotion_faults(space, name, options)
    # These read the whole space, which must be one that the tuner can search.
    if name == "grid" and not unsound and not unfit:
        yield from _grid_faults(space)
    if name == "batch" and not unsound:
        yield from _set_faults(space, options)


def _space_faults(space: SpaceJson) -> Iterator[Fault]:
    all_parameters = list(parameters_of(space))
    for path, parameter in all_parameters:
        if parameter.get("type") not in TYPES:
            wrong = parameter.get("type")
            hint = nearest(wrong, TYPES) if isinstance(wrong, str) else ""
            yield f"{path}.type", f"unknown type {wrong!r}; expected one of {', '.join(TYPES)}{hint}"
    if len(all_parameters) > PARAMETERS_MAX:
        yield (
            "$.space",
            f"{len(all_parameters):,} parameters with those of sub-spaces, the limit is {PARAMETERS_MAX:,}",
        )


def _type_faults(space: SpaceJson, name: str) -> Iterator[Fault]:
    kind = TUNERS[name]
    for path, parameter in parameters_of(space):
        if parameter.get("type") not in TYPES:
            continue
        if not can_search(kind, parameter):
            others = [other for other, that in TUNERS.items() if can_search(that, parameter)]
            yield (
                path,
                f"tuner {name} can't search type {parameter['type']}, only "
                f"{', '.join(sorted(kind.types))}; these tuners can: {', '.join(sorted(others))}",
            )
            continue
        nested = parameter["type"] == "choice" and any(map(is_sub_space, parameter["values"]))
        if nested and not kind.nested:
            others = [other for other, that in TUNERS.items() if that.nested]
            yield (
                path,
                f"tuner {name} can't search a choice of sub-spaces; these tuners can: "
                f"{', '.join(sorted(others))}",
            )


def _option_conflicts(name: str, options: Mapping[str, Any]) -> Iterator[Fault]:
    match name:
        case "tpe" | "tpe-multivariate":
            random_trials = options.get("n_startup_trials") or 0
            if HISTORY in options and (options[HISTORY] or random_trials) < random_trials:
                message = (
                    f"a history of {options[HISTORY]:,} ended trials never has the {random_trials:,} of "
                    "n_startup_trials, before which parameters are random; make it at least as large"
                )
                yield f"$.tuner.options.{HISTORY}", message
        case "cma-es":
            chosen = [o for o in ("lr_adapt", "use_separable_cma", "with_margin") if options.get(o)]
            for other in chosen[1:]:
                yield f"$.tuner.options.{other}", f"{chosen[0]} and {other} exclude each other"
        case "nsga2" | "nsga3":
            crossover, population = options.get("crossover"), options.get("population_size")
            if crossover in _THREE_PARENTS and population is not None and population < 3:
                message = f"crossover {crossover} needs a population of at least 3"
                yield "$.tuner.options.population_size", message


def _grid_faults(space: SpaceJson) -> Iterator[Fault]:
    points = size(axes_of(space))
    if points is None or points > GRID_POINTS_MAX:
        message = f"a grid of more points than the limit of {GRID_POINTS_MAX:,}; use tpe or random"
        yield "$.space", message


def _is_one_choice(space: SpaceJson) -> bool:
    """Returns whether the values of a space's one choice may be what NNI's BatchTuner tries in order."""
    return len(space) == 1 and all(
        parameter["type"] == "choice" and not any(map(is_sub_space, parameter["values"]))
        for parameter in space.values()
    )


def _set_faults(space: SpaceJson, options: Mapping[str, Any]) -> Iterator[Fault]:
    if "sets" not in options and not _is_one_choice(space):
        message = (
            "missing option 'sets' of tuner batch: the parameter sets to try, in order; "
            "a space of one choice needs none"
        )
        yield "$.tuner.options.sets", message
    axes = axes_of(space)
    seen: dict[tuple[Any, ...], int] = {}
    for index, parameters in enumerate(options.get("sets") or ()):
        path = f"$.tuner.options.sets[{index}]"
        faults = parameters_faults(axes, parameters, path)
        yield from faults
        if faults:
            continue
        first = seen.setdefault(tuple(encode(axes, parameters).values()), index)
        if first != index and not options.get("repeats"):
            yield path, f"the same parameters as sets[{first}]; with option repeats both are tried"
