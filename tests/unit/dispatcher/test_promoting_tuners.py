"""Tuners that promote: their decisions beside references of the papers, and their searches in dispatchers."""

import math
from random import Random
from typing import Any

import pytest

from tests.unit.dispatcher import harness
from tests.unit.dispatcher.test_determinism import OPTIONS
from tests.unit.dispatcher.test_search_scenarios import folded
from tests.unit.dispatcher.tuner_histories import SPACE, numbers_in, score
from trackside.aggregates.search.messages import AddTrial, TrialEnded, TrialStatus
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested
from trackside.dispatcher.advisor.advisor import make_tuner
from trackside.dispatcher.tuners.promotion.hyperband import bracket_sizes
from trackside.dispatcher.tuners.tuner import AskTellTuner, TunerWaits
from trackside.eventlog.memory import MemoryLog
from trackside.replay.derive.rerun import rerun_command

RUNGS = {"max_resource": 9, "reduction_factor": 3}
Suggestion = dict[str, Any]


def created(name: str, **options: Any) -> AskTellTuner:
    return make_tuner(SPACE, {"name": name, "options": options}, 7, "maximize")


def reached(parameters: dict[str, Any], steps: int) -> float:
    return score(parameters) - 1 / math.sqrt(steps)


class Fleet:
    """Runs trials of a tuner, and ends them in an order that a seed gives; every ninth fails."""

    def __init__(self, tuner: AskTellTuner, random: Random) -> None:
        self.tuner, self.random = tuner, random
        self.suggested: list[Suggestion] = []
        self.running: list[int] = []

    def ask(self) -> Suggestion | None:
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


@pytest.mark.parametrize("seed", range(3))
def test_asha_promotes_what_algorithm_2_of_its_paper_promotes(seed: int) -> None:
    fleet, factor, budgets = Fleet(created("asha", **RUNGS), Random(seed)), 3, [1, 3, 9]
    rungs: list[dict[int, float]] = [{}, {}, {}]
    promoted: list[set[int]] = [set(), set(), set()]
    for _ in range(120):
        expected: tuple[int | None, int] = (None, budgets[0])
        for rung in (1, 0):  # from the top down, as `get_job` does
            ordered = sorted(rungs[rung], key=lambda number, of=rungs[rung]: (-of[number], number))  # type: ignore[misc]
            best = ordered[: len(ordered) // factor]
            able = [each for each in best if each not in promoted[rung]]
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
    fleet = Fleet(created("hyperband", **RUNGS, sampler="random"), Random(3))
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
    fleet, values = Fleet(created("pbt", interval=2, population_size=4, synchronous=True), Random(1)), {}
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


def test_a_space_that_is_used_up_ends_the_search_when_nothing_is_left_to_promote() -> None:
    space = {"n": {"type": "randint", "low": 0, "high": 5}}
    for name, rungs in (("asha", 5 + 1), ("hyperband", 5 + 3 + 1)):
        tuner = make_tuner(space, {"name": name, "options": RUNGS}, 3, "maximize")
        number = 0
        while (found := tuner.ask(number)) is not None:
            if (name, number) == ("hyperband", 4):
                with pytest.raises(TunerWaits):  # a trial runs that could be promoted
                    tuner.ask(5)
            tuner.tell(number, "complete", sum(numbers_in(found["parameters"])))
            number += 1
        assert number <= rungs


async def started(name: str, **fields: Any) -> MemoryLog:
    tuner = {"name": name, "options": OPTIONS[name]}
    return await harness.searching(space=SPACE, tuner=tuner, seed=7, **{"max_trials": 14, **fields})


async def test_a_rerun_has_the_same_trials_which_continue_its_own() -> None:
    log = await started("hyperband")
    await harness.run_to_end(log, score, last=14)
    before = (await folded(log)).trials
    command = rerun_command(await folded(log), "s", 9)
    tuner = command.tuner.model_dump(mode="json")
    again = await harness.searching(space=SPACE, tuner=tuner, max_trials=14, concurrency=5)
    await harness.run_to_end(again, score, last=14)
    after = (await folded(again)).trials
    for one, other in zip(before, after, strict=True):
        assert one.parameters == other.parameters
        assert (one.from_trial, one.step_limit) == (other.from_trial, other.step_limit)


async def test_a_trial_of_a_user_has_the_largest_limit_and_no_other_continues_it() -> None:
    log = await started("asha", max_trials=12)
    await harness.publish(log, "s", AddTrial(parameters={"optimizer": "adam"}, tell_tuner=True))
    await harness.run_to_end(log, score, last=12)
    trials = (await folded(log)).trials
    added = [trial for trial in trials if trial.source == "customized"]
    assert [(trial.step_limit, trial.from_trial) for trial in added] == [(9, None)]
    assert added[0].number not in {trial.from_trial for trial in trials}


async def test_a_trial_is_stopped_at_its_limit_and_the_next_one_continues_it() -> None:
    log = await started("pbt", concurrency=1)
    seen = 0
    async with harness.dispatcher(log):
        for trial in range(4):
            await harness.until(log, harness.submits(f"s.{trial}"))
            await harness.begin(log, "s", f"s.{trial}")
            limit = (await folded(log)).trials[trial].step_limit
            assert limit is not None
            for step in range(limit):
                await harness.report(log, "s", f"s.{trial}", step, float(trial))
            stops = await harness.until(log, harness.is_a(TaskStopRequested), seen)
            assert isinstance(stops.message, TaskStopRequested)
            assert (stops.message.task_id, stops.message.reason) == (f"s.{trial}", "step_limit")
            await harness.end_attempt(log, "s", f"s.{trial}", AttemptEnd.CANCELLED)
            seen = (await harness.until(log, harness.is_a(TrialEnded), stops.offset)).offset
    trials = (await folded(log)).trials[:4]
    assert [(trial.status, trial.value) for trial in trials] == [(TrialStatus.SUCCEEDED, n) for n in range(4)]
    assert [(trial.from_trial, trial.step_limit) for trial in trials] == [*[(None, 2)] * 3, (2, 4)]
