"""Searches of several objectives: what they may have, how their trials end, what their tuners suggest."""

import json
from typing import Any

import pytest

from tests.unit.dispatcher.test_optuna_tuner import GENETIC, SAMPLERS, alone, draw_all
from tests.unit.dispatcher.tuner_histories import SPACE, HistoryItem, out_of_order, score
from tests.unit.domain.given import Told, ended, report, task_active
from trackside.aggregates.search.commands.start import objective_problems
from trackside.aggregates.search.messages import StartSearch, TrialEnded, TrialStatus
from trackside.aggregates.search.state import Trial
from trackside.aggregates.search.trials.trial_results import trial_ended
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.dispatcher.advice.tuner_history import ended_item
from trackside.dispatcher.advisor.advisor import Advisor, make_tuner
from trackside.dispatcher.tuners.tuner import suggestion_seed

TWO: list[dict[str, Any]] = [{"name": "accuracy"}, {"name": "latency", "direction": "minimize"}]
BOUNDED = {"name": "tpe", "options": {"history": 100}}
DIRECTIONS: list[Any] = ["maximize", "minimize"]


def refused(**changed: Any) -> tuple[str, str] | None:
    body = {"task_type": "digits", "space": SPACE, "max_trials": 4, "objectives": TWO} | changed
    found = next(objective_problems(StartSearch.model_validate(body)), None)
    assert found is None or isinstance(found, Problem)
    return None if found is None else (found.path, found.message)


@pytest.mark.parametrize(
    ("changed", "path", "said"),
    [
        ({"assessor": {"name": "median"}}, "$.assessor", "judges a trial by one value"),
        ({"tuner": {"name": "cma-es"}}, "$.tuner.name", "cma-es learns from one objective only; these can: "),
        ({"tuner": {"name": "own"}}, "$.tuner.name", "own learns from one objective only"),
        ({"tuner": BOUNDED}, "$.tuner.options.history", "of several objectives are not in one order"),
        ({"goal": 0.5}, "$.goal", "a goal is one value"),
        ({"direction": "minimize"}, "$.direction", "its own direction"),
        ({"objectives": [TWO[0], TWO[0]]}, "$.objectives[1].name", "is the name of another objective"),
        ({"past": [{"parameters": {"x": 1}, "value": 1.0}]}, "$.past", "have one value"),
    ],
)
def test_what_does_not_go_with_objectives_is_refused(changed: dict[str, Any], path: str, said: str) -> None:
    found = refused(**changed)
    assert found is not None and found[0] == path
    assert said in found[1]


@pytest.mark.parametrize("first", ["maximize", "minimize"])
def test_a_search_of_objectives_may_come_from_a_client_or_a_rerun_with_all_fields_written(first: str) -> None:
    objectives = [{"name": "latency", "direction": first}, TWO[0]]
    body = {"task_type": "digits", "space": SPACE, "max_trials": 4, "objectives": objectives}
    wanted = StartSearch.model_validate(body)
    by_a_client = StartSearch.model_validate_json(wanted.model_dump_json())
    assert "direction" in by_a_client.model_fields_set
    assert next(objective_problems(by_a_client), None) is None
    assert refused(objectives=objectives, direction=first) is None
    one = {"objectives": TWO[:1], "assessor": {"name": "median"}, "tuner": {"name": "cma-es"}, "goal": 0.5}
    assert refused(**one) is None


def end_with(
    objectives: list[dict[str, Any]], end: AttemptEnd = AttemptEnd.FINISHED, **said: Any
) -> TrialEnded:
    """Returns the end of a trial whose FINAL report said this."""
    told: Told = task_active(objectives=objectives)
    if said:
        told.tell(report(0, None, final=True).model_copy(update=said))
    told.tell(ended(end))
    return trial_ended(told.search.spec, 0, told.task())


def test_a_trial_ends_with_the_values_of_its_objectives_or_has_failed_and_says_which_it_left_out() -> None:
    both = {"others": {"accuracy": 0.5, "latency": 9.0, "loss": 1.0}}
    for objectives, said, values in (
        (TWO, both, [0.5, 9.0]),
        (TWO, {"value": 0.5, "others": {"latency": 9.0}}, [0.5, 9.0]),
        (TWO[:1], {"others": {"accuracy": 0.5}}, []),
    ):
        found = end_with(objectives, **said)
        assert (found.status, found.value, found.values) == (TrialStatus.SUCCEEDED, 0.5, values)
    for objectives, value, missing in ((TWO, 0.5, "latency"), ([], None, "default")):
        found = end_with(objectives, others={"accuracy": 0.5})
        assert (found.status, found.value, found.missing) == (TrialStatus.FAILED, value, [missing])
    assert end_with(TWO).status is TrialStatus.SUCCEEDED
    assert end_with(TWO, AttemptEnd.FAILED, value=0.5).values == []


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf"])
def test_a_value_that_is_not_finite_is_kept_and_teaches_nothing(odd: str) -> None:
    found = end_with([], non_finite=odd)
    assert (found.status, found.value, found.non_finite) == (TrialStatus.SUCCEEDED, None, odd)
    found = end_with(TWO, value=0.5, others={"latency": odd})
    assert (found.value, found.values) == (0.5, [0.5, odd])
    trial = Trial(0, {}, 0, 0, ended_at=1, status=found.status, value=found.value, values=found.values)
    assert ended_item(trial) == ("ended", 0, "failed", None, [])


def values_at(parameters: dict[str, Any]) -> list[float]:
    return [score(parameters), parameters["dropout"] + parameters["layers"]]


def end_of_two(number: int, parameters: dict[str, Any]) -> HistoryItem:
    if number % 7 == 6:
        return ("ended", number, "failed", None, ())
    return ("ended", number, "complete", values_at(parameters), ())


@pytest.mark.thorough
@pytest.mark.parametrize("in_flight", [1, 4])
@pytest.mark.parametrize("name", ["random", "tpe", "nsga2", "nsga3"])
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_suggestions_for_two_objectives_are_bit_for_bit_those_of_optuna(name: str, in_flight: int) -> None:
    genetic = GENETIC if name.startswith("nsga") else {}
    asked = (100, in_flight, draw_all, end_of_two, DIRECTIONS)
    expected = alone(lambda n: SAMPLERS[name](seed=suggestion_seed(7, n), **genetic), *asked)
    advisor = Advisor()
    setup = {"space": SPACE, "tuner": {"name": name, "options": genetic}, "seed": 7, "direction": "maximize"}
    _ask(advisor, {"op": "open", "kind": "tuner", **setup, "directions": DIRECTIONS})
    found: list[dict[str, Any]] = []
    for what, number in out_of_order(100, in_flight):
        if what == "ask":
            found.append(_ask(advisor, {"op": "ask", "number": number}))
        else:
            _, _, state, value, _ = end_of_two(number, found[number])
            _ask(advisor, {"op": "tell", "number": number, "state": state, "value": value})
    # A child without a mutation repeats its parent: Optuna keeps it, a search draws again.
    alike = next((n for n in range(100) if expected[n] in expected[:n]), 100)
    assert alike > 24  # three generations
    assert found[:alike] == expected[:alike]


def _ask(advisor: Advisor, op: dict[str, Any]) -> Any:
    reply = advisor.answer(json.dumps({"id": 1, "search": "s", **op}))
    assert "error" not in reply, reply
    return reply["result"]


def test_a_tuner_of_two_objectives_is_told_both_and_a_rebuilt_one_suggests_the_same() -> None:
    setup: Any = (SPACE, {"name": "tpe", "options": {"n_startup_trials": 4}}, 3, "maximize", DIRECTIONS)
    living, history = make_tuner(*setup), list[tuple[Any, ...]]()
    for number in range(20):
        parameters = living.ask(number)
        assert parameters is not None
        living.tell(number, "complete", values_at(parameters))
        history.append((number, parameters))
    reborn, other = make_tuner(*setup), make_tuner(*setup)
    for number, parameters in history:
        for memory, values in ((reborn, values_at(parameters)), (other, [0.0, values_at(parameters)[1]])):
            memory.restore(number, parameters)
            memory.tell(number, "complete", values)
    expected = living.ask(20)
    assert reborn.ask(20) == expected
    assert other.ask(20) != expected
