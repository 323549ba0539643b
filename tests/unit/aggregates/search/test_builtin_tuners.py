"""What a tuner can't search, or an option it doesn't have, is refused before the search begins."""

import subprocess
import sys
from typing import Any

import pytest

from tests.unit.dispatcher.tuner_histories import NEEDED, NESTED, NUMBERS, SPACE
from trackside.aggregates.search.space.builtin_tuners import TUNERS, check_tuner
from trackside.aggregates.search.space.space import TYPES
from trackside.contracts.envelope.refusals import MAX_PROBLEMS

FINITE: dict[str, dict[str, Any]] = {
    "optimizer": {
        "type": "choice",
        "values": ["sgd", {"_name": "adam", "beta": {"type": "randint", "low": 0, "high": 2}}],
    },
    "width": {"type": "qloguniform", "low": 1.0, "high": 64.0, "step": 4.0},
}
ONE_OF_EACH: dict[str, dict[str, Any]] = {
    "choice": {"values": [1, 2]},
    "constant": {"value": 1},
    "randint": {"low": 0, "high": 3},
    "uniform": {"low": 0, "high": 3},
    "quniform": {"low": 0, "high": 3, "step": 1},
    "loguniform": {"low": 1, "high": 3},
    "qloguniform": {"low": 1, "high": 3, "step": 1},
    "normal": {"mu": 0, "sigma": 1},
    "qnormal": {"mu": 0, "sigma": 1, "step": 1},
    "lognormal": {"mu": 0, "sigma": 1},
    "qlognormal": {"mu": 0, "sigma": 1, "step": 1},
}
NORMAL = {"_name": "y", "b": {"type": "normal", "mu": 0, "sigma": 1}}
NORMAL_INSIDE: dict[str, dict[str, Any]] = {"a": {"type": "choice", "values": ["x", NORMAL]}}
SETS = [{"lr": 0.1, "n": 1}, {"lr": 0.2, "n": 2}]
PAIR: dict[str, dict[str, Any]] = {
    "lr": {"type": "uniform", "low": 0, "high": 1},
    "n": {"type": "choice", "values": [1, 2]},
}

ENDLESS: list[dict[str, dict[str, Any]]] = [
    {f"x{n}": {"type": "quniform", "low": 0.0, "high": 1e300, "step": 1.0} for n in range(30)},
    {f"x{n}": {"type": "randint", "low": 0, "high": 2**53} for n in range(900)},
]


def of(name: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "options": options}


@pytest.mark.parametrize(
    ("space", "tuner", "path", "words"),
    [
        (SPACE, of("tpee"), "tuner.name", "did you mean 'tpe'"),
        (SPACE, of("grid"), "space.dropout", "tuner grid can't search type uniform"),
        (NUMBERS, of("grid"), "space.dropout", "these tuners can: asha, batch, bohb, cma-es"),
        (SPACE, of("cma-es"), "space.optimizer", "tuner cma-es can't search type choice"),
        (NESTED, of("gp"), "space.layer", "tuner gp can't search a choice of sub-spaces"),
        (FINITE, of("nsga2"), "space.optimizer", "asha, batch, bohb, grid, hyperband, qmc, random"),
        (NORMAL_INSIDE, of("grid"), "space.a.values[1].b", "can't search type normal"),
        (FINITE, of("grid", seed=1), "tuner.options.seed", "grid takes none"),
        (SPACE, of("tpe", n_startup_trial=1), "tuner.options.n_startup_trial", "did you mean"),
        (SPACE, of("tpe", n_startup_trials=True), "tuner.options.n_startup_trials", "integer"),
        (SPACE, of("tpe", multivariate=1), "tuner.options.multivariate", "true or"),
        (SPACE, of("nsga2", mutation_prob=1.5), "tuner.options.mutation_prob", "a number from 0 to 1"),
        (SPACE, of("nsga2", crossover="two"), "tuner.options.crossover", "one of uniform, blxalpha"),
        (SPACE, of("nsga3", crossover="spx", population_size=2), "tuner.options.population_size", "3"),
        (NUMBERS, of("cma-es", popsize=1), "tuner.options.popsize", "from 5 to 10000"),
        (NUMBERS, of("cma-es", lr_adapt=True, with_margin=True), "tuner.options.with_margin", "exclude"),
        (SPACE, of("qmc", qmc_type="sobel"), "tuner.options.qmc_type", "one of sobol, halton"),
        (SPACE, of("tpe", n_startup_trials=[0] * 999), "tuner.options.n_startup_trials", "0, 0..."),
        (PAIR, of("batch"), "tuner.options.sets", "missing option 'sets'"),
        (PAIR, of("batch", sets=[]), "tuner.options.sets", "a list of 1 to 10,000 objects"),
        (PAIR, of("batch", sets=[{"lr": 0.1}]), "tuner.options.sets[0].n", "missing"),
        (PAIR, of("batch", sets=[*SETS, {"lr": 2, "n": 1}]), "tuner.options.sets[2].lr", "from 0.0 to 1.0"),
        (PAIR, of("batch", sets=[*SETS, SETS[0]]), "tuner.options.sets[2]", "same parameters as sets[0]"),
        (PAIR, of("batch", sets=[{**SETS[0], "k": 1}]), "tuner.options.sets[0].k", "not part of the space"),
        ({"x": {"type": "norml"}}, of("tpe"), "space.x.type", "did you mean 'normal'"),
        (SPACE, of("tpe", history=10), "tuner.options.history", "an integer from 50 to 1000000, got 10"),
        (SPACE, of("tpe", history=99, n_startup_trials=300), "tuner.options.history", "never has the 300 of"),
        (SPACE, of("random", history=100), "tuner.options.history", "random takes none"),
        ({"x": {"type": "randint", "low": 0, "high": 10**6}}, of("grid"), "space", "limit of 100,000"),
        *((space, of("grid"), "space", "limit of 100,000") for space in ENDLESS),
    ],
)
def test_a_tuner_that_cannot_search_a_space_is_refused_with_place_and_reason(
    space: dict[str, Any], tuner: dict[str, Any], path: str, words: str
) -> None:
    fault, *_ = check_tuner(space, tuner)
    assert fault[0] == f"$.{path}"
    assert words in fault[1]


def test_too_many_parameters_are_refused_however_deep_they_lie() -> None:
    inner = {f"p{n}": {"type": "constant", "value": 1} for n in range(600)}
    values = [{"_name": "a", **inner}, {"_name": "b", **inner}]
    (fault,) = check_tuner({"x": {"type": "choice", "values": values}}, of("random"))
    assert fault == ("$.space", "1,201 parameters with those of sub-spaces, the limit is 1,000")


@pytest.mark.parametrize(
    ("space", "tuner"),
    [
        (FINITE, of("grid")),
        (PAIR, of("batch", sets=SETS)),
        *((SPACE, of(name)) for name in ("random", "tpe", "tpe-multivariate", "qmc")),
        *((NESTED, of(name)) for name in ("random", "tpe", "tpe-multivariate", "qmc")),
        *((SPACE, of(name)) for name in ("gp", "nsga2", "nsga3", "evolution")),
        (NUMBERS, of("cma-es", popsize=8, with_margin=True)),
        (SPACE, of("nsga2", crossover="undx", population_size=3, mutation_prob=0)),
        (SPACE, of("tpe", n_startup_trials=0, n_ei_candidates=5, multivariate=False)),
        (SPACE, of("tpe", history=50, n_startup_trials=50)),
        (NESTED, of("tpe-multivariate", history=1_000_000)),
    ],
)  # fmt: skip
def test_a_fitting_tuner_has_no_problem(space: dict[str, Any], tuner: dict[str, Any]) -> None:
    assert not check_tuner(space, tuner)


@pytest.mark.parametrize(
    ("space", "tuner", "places"),
    [
        (
            NESTED | {"n": {"type": "norml"}, "m": {"type": "norml"}},
            of("grid", seed=1, step=2),
            ["space.n.type", "space.m.type", "tuner.options.seed", "tuner.options.step", "space.dropout"],
        ),
        (SPACE, of("nsga2", crossover="two", mutation_prob=2), [
            "tuner.options.crossover", "tuner.options.mutation_prob",
        ]),
        (SPACE, of("nsga2", crossover="spx", population_size=1, swapping_prob=2), [
            "tuner.options.population_size", "tuner.options.swapping_prob",
        ]),
        (NUMBERS, of("cma-es", lr_adapt=True, with_margin=True, use_separable_cma=True, popsize=1), [
            "tuner.options.popsize", "tuner.options.use_separable_cma", "tuner.options.with_margin",
        ]),
        (PAIR, of("batch", sets=[{"lr": 2}, SETS[0], SETS[0], 7], repeats=1), [
            "tuner.options.sets", "tuner.options.repeats",
        ]),
        (PAIR, of("batch", sets=[{"lr": 2, "k": 1}, SETS[0], SETS[0]]), [
            "tuner.options.sets[0].k", "tuner.options.sets[0].lr", "tuner.options.sets[0].n",
            "tuner.options.sets[2]",
        ]),
        (SPACE, of("tpe", history=100, n_startup_trials=101), ["tuner.options.history"]),
        (SPACE, of("tpe-multivariate", history=49, n_startup_trials=60), ["tuner.options.history"]),
        (SPACE, of("tpe", history=True), ["tuner.options.history"]),
        (SPACE, of("gp", history=1_000), ["tuner.options.history"]),
        (PAIR | {"z": {"type": "norml"}}, {"name": "x y", "remote": True}, ["space.z.type", "tuner.name"]),
    ],
)  # fmt: skip
def test_all_wrong_with_a_tuner_is_listed_but_for_what_follows(space: Any, tuner: Any, places: Any) -> None:
    found = [path.removeprefix("$.") for path, _ in check_tuner(space, tuner)]
    assert found[: len(places)] == places
    assert all(path.startswith("space.") for path in found[len(places) :])


def test_no_more_faults_are_looked_for_than_a_refusal_lists() -> None:
    sets = [{"lr": 2, "n": 3}] * 1_000
    assert len(check_tuner(PAIR, of("batch", sets=sets))) == MAX_PROBLEMS


def test_every_tuner_says_of_every_type_whether_it_can_search_it() -> None:
    assert ONE_OF_EACH.keys() == TYPES.keys()
    for name, kind in TUNERS.items():
        for type_name, fields in ONE_OF_EACH.items():
            options: dict[str, Any] = NEEDED.get(name, {})
            if name == "batch":
                options = {"sets": [{"x": fields.get("low", fields.get("value", 1))}]}
            faults = check_tuner({"x": {"type": type_name, **fields}}, of(name, **options))
            assert (not faults) is (type_name in kind.types), (name, type_name, faults)


@pytest.mark.thorough
def test_a_service_that_checks_tuners_loads_neither_optuna_nor_numpy() -> None:
    program = (
        "import sys\n"
        "from trackside.dispatcher.advice import advisor_process\n"
        "from trackside.aggregates.search.space.builtin_assessors import check_assessor\n"
        "from trackside.aggregates.search.space.builtin_tuners import check_tuner\n"
        "assert check_tuner({'x': {'type': 'uniform', 'low': 0, 'high': 1}}, {'name': 'grid'})\n"
        "assert check_assessor({'name': 'nope'})\n"
        "assert not {'optuna', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
