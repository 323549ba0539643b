"""Tuners that promote: their decisions beside plain references of the papers, and after a kill."""

import math
from random import Random
from typing import Any

import pytest

from tests.unit.dispatcher.tuner_histories import SPACE, numbers_in, score
from trackside.dispatcher.advisor.tuner_factory import make_tuner
from trackside.dispatcher.tuners.promotion.hyperband import bracket_sizes
from trackside.dispatcher.tuners.tuner import AskTellTuner, TunerWaits

TUNERS: dict[str, dict[str, Any]] = {
    "asha": {"max_resource": 9, "reduction_factor": 3},
    "hyperband": {"max_resource": 4, "reduction_factor": 2, "sampler": "tpe"},
    "bohb": {"max_resource": 4, "reduction_factor": 2},
    "pbt": {"interval": 2, "population_size": 4, "synchronous": True},
    "pb2": {"interval": 2, "population_size": 4},
}
Suggestion = dict[str, Any]


def created(name: str, **options: Any) -> AskTellTuner:
    return make_tuner(SPACE, {"name": name, "options": {**TUNERS[name], **options}}, 7, "maximize")


def reached(parameters: dict[str, Any], steps: int) -> float:
    """Returns the value of a configuration after so many steps: it nears its score, from below."""
    return score(parameters) - 1 / math.sqrt(steps)


class Fleet:
    """Runs trials of a tuner, and ends them in an order that a seed gives; every ninth fails."""

    def __init__(self, tuner: AskTellTuner, random: Random) -> None:
        self.tuner, self.random = tuner, random
        self.suggested: list[Suggestion] = []
        self.running: list[int] = []

    def ask(self) -> Suggestion | None:
        """Asks for the next trial; None while the tuner waits."""
        try:
            found = self.tuner.ask(len(self.suggested))
        except TunerWaits:
            return None
        assert found is not None
        self.running.append(len(self.suggested))
        self.suggested.append(found)
        return found

    def end(self) -> tuple[int, float | None]:
        number = self.running.pop(self.random.randrange(len(self.running)))
        found = self.suggested[number]
        value = None if number % 9 == 8 else reached(found["parameters"], found["step_limit"])
        self.tuner.tell(number, "failed" if value is None else "complete", value)
        return number, value


def best_of_rung(rung: dict[int, float], factor: int) -> list[int]:
    ordered = sorted(rung, key=lambda number: (-rung[number], number))
    return ordered[: len(rung) // factor]


@pytest.mark.parametrize("seed", range(3))
def test_asha_promotes_what_algorithm_2_of_its_paper_promotes(seed: int) -> None:
    fleet, factor, budgets = Fleet(created("asha"), Random(seed)), 3, [1, 3, 9]
    rungs: list[dict[int, float]] = [{}, {}, {}]
    promoted: list[set[int]] = [set(), set(), set()]
    for _ in range(120):
        expected: tuple[int | None, int] = (None, budgets[0])
        for rung in (1, 0):  # from the top down, as `get_job` does
            able = [each for each in best_of_rung(rungs[rung], factor) if each not in promoted[rung]]
            if able:
                expected = (able[0], budgets[rung + 1])
                promoted[rung].add(able[0])
                break
        found = fleet.ask()
        assert found is not None and (found["from_trial"], found["step_limit"]) == expected
        while len(fleet.running) > 4:
            number, value = fleet.end()
            if value is not None:
                rungs[budgets.index(fleet.suggested[number]["step_limit"])][number] = value


def test_the_brackets_of_hyperband_are_those_of_table_1_of_its_paper() -> None:
    assert bracket_sizes([1, 3, 9, 27, 81], 3) == [
        [(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)],
        [(34, 3), (11, 9), (3, 27), (1, 81)],
        [(15, 9), (5, 27), (1, 81)],
        [(8, 27), (2, 81)],
        [(5, 81)],
    ]


@pytest.mark.parametrize("in_flight", [1, 5])
def test_each_bracket_of_hyperband_promotes_the_best_and_leaves_no_place_empty(in_flight: int) -> None:
    fleet = Fleet(created("hyperband", max_resource=9, reduction_factor=3, sampler="random"), Random(3))
    values: dict[int, float] = {}
    while len(fleet.suggested) < 22 + 22:  # two rounds of 13, 6 and 3 trials
        if len(fleet.running) < in_flight:
            assert fleet.ask() is not None
            continue
        number, value = fleet.end()
        values[number] = -math.inf if value is None else value
    first = [number for number in range(22) if fleet.suggested[number]["from_trial"] is None][:9]
    best = sorted(first, key=lambda number: -values[number])[:3]
    promoted = [each["from_trial"] for each in fleet.suggested if each["from_trial"] in first]
    assert sorted(promoted) == sorted(best)


def test_a_member_among_the_worst_goes_on_from_one_of_the_best_and_explores_within_the_space() -> None:
    fleet, values = Fleet(created("pbt"), Random(1)), {}
    members = 4
    copied = 0
    while len(fleet.suggested) < 60:
        found = fleet.ask()
        if found is None:
            number, value = fleet.end()
            values[number] = value
            continue
        number = len(fleet.suggested) - 1
        assert found["step_limit"] == 2 * (number // members + 1)  # each generation is waited for
        if found["from_trial"] is None:
            assert number < members
            continue
        assert found["from_trial"] // members == number // members - 1
        before = fleet.suggested[found["from_trial"]]["parameters"]
        if found["parameters"] != before:
            copied += 1
            generation = range(number // members * members - members, number // members * members)
            assert values[found["from_trial"]] == max(values[n] or -math.inf for n in generation)
        assert 1 <= found["parameters"]["layers"] < 6
        assert 1e-5 <= found["parameters"]["learning_rate"] <= 1e-1
    assert copied >= 14


@pytest.mark.thorough
def test_pb2_explores_where_the_value_has_risen() -> None:
    """The value rises the faster the nearer x is to 0.8: later members are nearer than chance puts them."""
    space = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
    options = {"interval": 1, "population_size": 6, "quantile": 0.5, "synchronous": True}
    tuner = make_tuner(space, {"name": "pb2", "options": options}, 3, "maximize")
    values: list[float] = []
    apart: list[float] = []
    for number in range(60):
        found = tuner.ask(number)
        assert found is not None
        x, before = found["parameters"]["x"], found["from_trial"]
        values.append((0.0 if before is None else values[before]) + 1 - abs(x - 0.8))
        apart.append(abs(x - 0.8))
        tuner.tell(number, "complete", values[-1])
    assert sum(apart[-18:]) / 18 < 0.15 < sum(apart[:6]) / 6


def test_a_space_that_is_used_up_ends_the_search_when_nothing_is_left_to_promote() -> None:
    space = {"n": {"type": "randint", "low": 0, "high": 5}}
    for name, rungs in (("asha", 5 + 1), ("hyperband", 5 + 3 + 1)):
        options = {"max_resource": 9, "reduction_factor": 3}
        tuner = make_tuner(space, {"name": name, "options": options}, 3, "maximize")
        number = 0
        while (found := tuner.ask(number)) is not None:
            if (name, number) == ("hyperband", 4):
                with pytest.raises(TunerWaits):  # a trial runs that could be promoted
                    tuner.ask(5)
            tuner.tell(number, "complete", sum(numbers_in(found["parameters"])))
            number += 1
        assert number <= rungs
