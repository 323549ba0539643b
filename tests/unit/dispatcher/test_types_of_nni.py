"""D31 by hand: what each type of parameter of NNI means, as values that a search of it suggests.

Nothing here is computed by the code under test: forms, sets of values, medians and spreads are written down,
as NNI's page of search spaces has them.
"""

import math
from statistics import fmean, stdev
from typing import Any

import pytest

from tests.commands import command_of
from trackside.aggregates.search.messages import StartSearch
from trackside.aggregates.search.space.builtin_tuners import check_tuner
from trackside.contracts.envelope.refusals import Problem
from trackside.dispatcher.advisor.advisor import make_tuner

DRAWN = 600
FORMS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "choice": ([1, "a", None], {"values": [1, "a", None]}),
    "randint": ([2, 5], {"low": 2, "high": 5}),
    "uniform": ([0.5, 2.5], {"low": 0.5, "high": 2.5}),
    "quniform": ([1, 9, 2], {"low": 1, "high": 9, "step": 2}),
    "loguniform": ([0.1, 10], {"low": 0.1, "high": 10}),
    "qloguniform": ([1, 64, 4], {"low": 1, "high": 64, "step": 4}),
    "normal": ([10, 2], {"mu": 10, "sigma": 2}),
    "qnormal": ([10, 2, 3], {"mu": 10, "sigma": 2, "step": 3}),
    "lognormal": ([0, 1], {"mu": 0, "sigma": 1}),
    "qlognormal": ([0, 1, 0.5], {"mu": 0, "sigma": 1, "step": 0.5}),
}
CONV = {"_name": "conv", "kernel": {"_type": "choice", "_value": [3, 5]}}
DENSE = {"_name": "dense", "units": {"_type": "quniform", "_value": [16, 64, 16]}}
SUB_SPACES = {"_type": "choice", "_value": [CONV, DENSE]}
FOR_A_GRID = {"choice", "randint", "quniform", "qloguniform"}
SEARCH_ALL = ("random", "tpe", "tpe-multivariate", "gp", "nsga2", "nsga3", "evolution", "qmc")
REFUSED = {name: set[str]() for name in SEARCH_ALL}
REFUSED |= {"grid": FORMS.keys() - FOR_A_GRID, "cma-es": {"choice"}}
WITHOUT_SUB_SPACES = {"gp", "cma-es", "nsga2", "nsga3", "evolution"}


def read(parameter: dict[str, Any], **fields: Any) -> Any:
    body = {"task_type": "t", "max_trials": 1, "space": {"x": parameter}, **fields}
    found = command_of(StartSearch.wire_type(), body)
    return found if isinstance(found, Problem) else found.model_dump(mode="json")["space"]["x"]


def draws(kind: str, *values: Any) -> list[Any]:
    """Draws so many values of a parameter in NNI's form; another parameter keeps the trials apart."""
    apart = {"type": "uniform", "low": 0, "high": 1}
    space = {"x": read({"_type": kind, "_value": list(values)}), "y": apart}
    tuner = make_tuner(space, {"name": "random"}, 7, "maximize")
    return [(tuner.ask(number) or {})["x"] for number in range(DRAWN)]


@pytest.mark.parametrize("kind", FORMS)
def test_a_form_of_nni_is_read_as_the_fields_that_it_stands_for(kind: str) -> None:
    values, fields = FORMS[kind]
    ours = {"type": kind, **fields}
    assert read({"_type": kind, "_value": values}) == read(ours) == ours


@pytest.mark.thorough
def test_a_quniform_is_rounded_to_its_step_and_then_clipped() -> None:
    assert set(draws("quniform", 0.5, 9.5, 2)) == {0.5, 2, 4, 6, 8, 9.5}
    assert set(draws("quniform", 0, 1, 0.25)) == {0, 0.25, 0.5, 0.75, 1}


@pytest.mark.thorough
def test_a_normal_is_not_clipped_and_mu_and_sigma_of_a_lognormal_are_those_of_its_logarithm() -> None:
    found = draws("normal", 10, 2)
    assert 9.7 < fmean(found) < 10.3 and 1.8 < stdev(found) < 2.2
    assert min(found) < 5.5 and max(found) > 14.5
    found = [math.log(value) for value in draws("lognormal", 1, 0.5)]
    assert 0.9 < fmean(found) < 1.1 and 0.45 < stdev(found) < 0.55


@pytest.mark.thorough
def test_a_qnormal_is_rounded_to_its_step_and_not_clipped() -> None:
    found = draws("qnormal", 10, 2, 3)
    assert {3, 6, 9, 12, 15} <= set(found) <= {0, 3, 6, 9, 12, 15, 18}
    assert 9.7 < fmean(found) < 10.3


@pytest.mark.parametrize("tuner", REFUSED)
def test_a_type_that_a_tuner_can_not_search_is_refused_at_its_place(tuner: str) -> None:
    for kind, (_, fields) in FORMS.items():
        places = [place for place, _ in check_tuner({"x": {"type": kind, **fields}}, {"name": tuner})]
        assert places == (["$.space.x"] if kind in REFUSED[tuner] else [])
    places = [place for place, _ in check_tuner({"x": read(SUB_SPACES)}, {"name": tuner})]
    assert places[:1] == (["$.space.x"] if tuner in WITHOUT_SUB_SPACES else [])
