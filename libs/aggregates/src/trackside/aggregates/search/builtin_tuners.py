"""The built-in tuners by name: their options, and the types of parameters that each can search. Pure.

The service checks a search here before it starts, without Optuna; the advisor process creates the tuners, by
`tuner_factory`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from trackside.aggregates.search.axes import (
    FINITE_TYPES,
    SpaceJson,
    axes_of,
    encode,
    parameters_fault,
    parameters_of,
    size,
)
from trackside.aggregates.search.options import (
    Boolean,
    Fault,
    Fraction,
    Integer,
    OneOf,
    OptionTypes,
    ParameterSets,
    options_fault,
    remote_name_fault,
)
from trackside.aggregates.search.space import TYPES
from trackside.contracts.refusals import nearest

GRID_POINTS_MAX = 100_000
PARAMETERS_MAX = 1_000
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
    """What a tuner supports: options, types of parameters, sub-spaces, several objectives."""

    options: OptionTypes = field(default_factory=dict)
    types: frozenset[str] = EVERY_TYPE
    nested: bool = False
    multi_objective: bool = True


TUNERS: Mapping[str, TunerKind] = {
    "random": TunerKind(nested=True),
    "grid": TunerKind(types=FINITE_TYPES, nested=True),
    "batch": TunerKind({"sets": ParameterSets(), "repeats": Boolean()}, nested=True),
    "tpe": TunerKind(
        {
            "n_startup_trials": Integer(0),
            "n_ei_candidates": Integer(1, 10_000),
            "multivariate": Boolean(),
            "constant_liar": Boolean(),
        },
        nested=True,
    ),
    "tpe-multivariate": TunerKind(
        {"n_startup_trials": Integer(0), "n_ei_candidates": Integer(1, 10_000), "constant_liar": Boolean()},
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
    "qmc": TunerKind({"qmc_type": OneOf(("sobol", "halton")), "scramble": Boolean()}, nested=True),
}


def check_tuner(space: SpaceJson, tuner: Mapping[str, object], plugins: Collection[str] = ()) -> Fault | None:
    """Returns why this tuner can't search this space: a JSON path and a message, or None if it can.

    `plugins` are the names of installed tuners, which check their options themselves.
    """
    fault = _space_fault(space)
    if tuner.get("remote"):
        return fault or remote_name_fault("$.tuner", tuner.get("name"))
    if fault or (tuner.get("name") in plugins and tuner.get("name") not in TUNERS):
        return fault
    fault = options_fault(
        "tuner", tuner, {name: kind.options for name, kind in TUNERS.items()}, plugins=plugins
    )
    if fault:
        return fault
    name, options = str(tuner["name"]), tuner.get("options") or {}
    assert isinstance(options, Mapping)
    return _type_fault(space, name) or _special_fault(space, name, options)


def can_search(kind: TunerKind, parameter: Mapping[str, Any]) -> bool:
    """Returns whether a tuner can search a parameter; a choice of one value needs no search."""
    values: list[Any] = parameter.get("values") or []
    return parameter["type"] in kind.types or (len(values) == 1 and not isinstance(values[0], Mapping))


def _space_fault(space: SpaceJson) -> Fault | None:
    all_parameters = list(parameters_of(space))
    for path, parameter in all_parameters:
        if parameter.get("type") not in TYPES:
            wrong = parameter.get("type")
            hint = nearest(wrong, TYPES) if isinstance(wrong, str) else ""
            return f"{path}.type", f"unknown type {wrong!r}; expected one of {', '.join(TYPES)}{hint}"
    if len(all_parameters) > PARAMETERS_MAX:
        return (
            "$.space",
            f"{len(all_parameters):,} parameters with those of sub-spaces, the limit is {PARAMETERS_MAX:,}",
        )
    return None


def _type_fault(space: SpaceJson, name: str) -> Fault | None:
    kind = TUNERS[name]
    for path, parameter in parameters_of(space):
        if not can_search(kind, parameter):
            others = [other for other, that in TUNERS.items() if can_search(that, parameter)]
            return path, (
                f"tuner {name} can't search type {parameter['type']}, only "
                f"{', '.join(sorted(kind.types))}; these tuners can: {', '.join(sorted(others))}"
            )
        nested = parameter["type"] == "choice" and any(isinstance(v, Mapping) for v in parameter["values"])
        if nested and not kind.nested:
            others = [other for other, that in TUNERS.items() if that.nested]
            return path, (
                f"tuner {name} can't search a choice of sub-spaces; these tuners can: "
                f"{', '.join(sorted(others))}"
            )
    return None


def _special_fault(space: SpaceJson, name: str, options: Mapping[str, Any]) -> Fault | None:
    match name:
        case "grid":
            points = size(axes_of(space))
            if points is None or points > GRID_POINTS_MAX:
                return "$.space", (
                    f"a grid of more points than the limit of {GRID_POINTS_MAX:,}; use tpe or random"
                )
        case "batch":
            return _sets_fault(space, options)
        case "cma-es":
            chosen = [o for o in ("lr_adapt", "use_separable_cma", "with_margin") if options.get(o)]
            if len(chosen) > 1:
                return f"$.tuner.options.{chosen[1]}", f"{chosen[0]} and {chosen[1]} exclude each other"
        case "nsga2" | "nsga3":
            if options.get("crossover") in _THREE_PARENTS and options.get("population_size", 50) < 3:
                return "$.tuner.options.population_size", (
                    f"crossover {options['crossover']} needs a population of at least 3"
                )
    return None


def _sets_fault(space: SpaceJson, options: Mapping[str, Any]) -> Fault | None:
    if "sets" not in options:
        return (
            "$.tuner.options.sets",
            "missing option 'sets' of tuner batch: the parameter sets to try, in order",
        )
    axes = axes_of(space)
    seen: dict[tuple[Any, ...], int] = {}
    for index, parameters in enumerate(options["sets"]):
        path = f"$.tuner.options.sets[{index}]"
        fault = parameters_fault(axes, parameters, path)
        if fault:
            return fault
        first = seen.setdefault(tuple(encode(axes, parameters).values()), index)
        if first != index and not options.get("repeats"):
            return path, f"the same parameters as sets[{first}]; with option repeats both are tried"
    return None
