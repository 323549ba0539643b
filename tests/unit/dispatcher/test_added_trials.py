"""Trials that users add, and a search's first ones: checked by its space, and completed by its tuner."""

import json
from typing import Any

import pytest

from tests.unit.aggregates.given import answered, published
from tests.unit.dispatcher.test_tuner_failures import RAISED, Played
from tests.unit.dispatcher.tuner_histories import SPACE as NESTED
from tests.unit.domain.given import Told, finish, search_running
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search import messages
from trackside.aggregates.search.commands.start import start
from trackside.aggregates.search.commands.update import change
from trackside.aggregates.search.space.axes import axes_of, parameters_faults
from trackside.aggregates.search.space.failure_policies import TunerFailure
from trackside.aggregates.search.trials.suggestions import suggestion
from trackside.contracts.envelope.refusals import Problem
from trackside.dispatcher.tuners.completion import complete
from trackside.dispatcher.tuners.tuner import TunerWaits
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.lookup import NO_LOOKUP, Lookup
from trackside.domain.folding.streams import load, pack
from trackside.domain.streams.stream import Stream

CONV = {"_name": "conv", "kernel": {"type": "randint", "low": 1, "high": 4}}
SPACE: dict[str, Any] = {
    "width": {"type": "uniform", "low": 0, "high": 1},
    "layer": {"type": "choice", "values": [CONV, "none"]},
}
GOOD = {"width": 0.25, "layer": "none"}
WRONG = [
    ({**GOOD, "widht": 1}, "widht", "did you mean 'width'?", True),
    ({**GOOD, "layer": {"_name": "conv", "kernl": 2}}, "layer.kernl", "did you mean 'kernel'?", True),
    ({**GOOD, "width": 7}, "width", "7 is not a number from 0.0 to 1.0", False),
    ({**GOOD, "width": True}, "width", "True is not a number from 0.0 to 1.0", False),
    ({"width": 0.5, "layer": {"_name": "conv", "kernel": 9}}, "layer.kernel", "9 is not a number", False),
    ({"layer": ["none"]}, "layer", '["none"] is none of the choices: "conv", "none"', False),
]


def added(told: Told, at: int = 2, **body: Any) -> list[Any]:
    events = answered(told, published(at, messages.AddTrial.wire_type(), body))
    return [event for event in events if isinstance(event, messages.TrialAdded)]


@pytest.mark.parametrize(("given", "path", "reason", "always"), WRONG)
def test_added_trials_are_checked(given: dict[str, Any], path: str, reason: str, always: bool) -> None:
    told = search_running(space=SPACE)
    found = change(told.stream, messages.AddTrial(parameters=given), "c-2", NO_LOOKUP)
    assert isinstance(found, tuple)
    assert (found[0].code, found[0].path) == ("bad_parameters", f"$.parameters.{path}")
    assert reason in found[0].message
    outside = change(told.stream, messages.AddTrial(parameters=given, outside=True), "c-2", NO_LOOKUP)
    assert isinstance(outside, tuple) is always
    body = {"task_type": "t", "max_trials": 9, "space": SPACE, "first": [GOOD, given]}
    capabilities = Capabilities(task_types=frozenset({"t"}))

    def starts(**fields: Any) -> Any:
        wanted = messages.StartSearch.model_validate({**body, **fields})
        return start(Stream(stream_id="s", partition=0), wanted, "c-1", Lookup(capabilities))

    [problem, *_] = starts()
    assert isinstance(problem, Problem)
    assert (problem.code, problem.path) == ("bad_parameters", f"$.first[1].{path}")
    assert reason in problem.message
    assert isinstance(starts(first_outside=True), tuple) is always


def test_a_trial_outside_of_the_space_is_marked_and_is_never_the_best_unless_its_log_has_no_marks() -> None:
    told = search_running(space=SPACE, goal=5.0, concurrency=2)
    wide = {"width": 7, "layer": "none"}
    assert added(told, parameters=wide, outside=True, tell_tuner=True)
    search = told.search
    suggested, *rest = suggestion(search, 0, wide, search.opened[0], "customized")
    assert isinstance(suggested, messages.TrialSuggested) and suggested.outside == ["width"]
    told.tell(suggested, *rest)
    finish(told, 0, 9.0)
    assert (search.best, search.goal_is_reached, search.trials[0].value) == (None, False, 9.0)
    told.tell(*suggestion(search, 1, GOOD, search.opened[1]))
    finish(told, 1, 0.5)
    assert (search.best, search.outcome["best"][0]["trial"]) == (1, 1)
    reborn = load(pack(told.stream), AGGREGATES).root
    assert reborn is not None and reborn.trials[0].outside == ["width"]
    told = search_running(space=SPACE)
    strange = {"strange": 1}
    told.tell(messages.TrialAdded(command_id="c-2", change=1, parameters=strange))
    seen = told.search.opened[0]
    found = messages.TrialSuggested(trial=0, parameters=strange, seen=seen, source="customized")
    submitted = suggestion(told.search, 0, strange, seen, "customized")[1]
    told.tell(found, submitted)
    finish(told, 0, 1.0)
    assert (told.search.best, told.search.trials[0].status) == (0, messages.TrialStatus.SUCCEEDED)


async def test_the_tuner_draws_what_a_user_left_out_and_is_asked_again_if_it_waits_or_fails() -> None:
    played = Played(TunerFailure(), {"width": 0.5, "layer": "none"}, space=SPACE)
    assert added(played.told, parameters={"width": 0.125})[0].partial
    suggested = await played.first(messages.TrialSuggested)
    assert (suggested.source, suggested.parameters) == ("customized", {"width": 0.125, "layer": "none"})
    assert not played.told.search.added
    answers = [{"width": 0.9, "layer": "none"}, TunerWaits(), RAISED, {"width": 0.5, "layer": "none"}]
    played = Played(TunerFailure(), *answers, space=SPACE, concurrency=2)
    await played.turn()
    added(played.told, parameters={"layer": {"_name": "conv"}})
    await played.turn()
    assert played.told.search.deferred
    finish(played.told, 0, 1.0)
    await played.turn()
    assert played.told.search.failures == 1
    played.restart()
    suggested = await played.first(messages.TrialSuggested)
    assert suggested.parameters["width"] == 0.5
    assert suggested.parameters["layer"]["kernel"] in (1, 2, 3)


async def test_an_exhausted_search_still_completes_what_a_user_adds() -> None:
    played = Played(TunerFailure(), None, None, space=SPACE, concurrency=2)
    told = played.told
    told.tell(*suggestion(told.search, 0, GOOD, told.search.opened[0]))
    await played.turn()
    assert told.search.status is messages.SearchStatus.TUNER_NO_MORE_TRIAL
    added(told, parameters={"width": 0.125})
    assert told.search.next_trial == 1
    suggested = await played.first(messages.TrialSuggested)
    assert parameters_faults(axes_of(SPACE), suggested.parameters) == []
    assert told.search.next_trial is None


def test_what_no_suggestion_has_is_drawn_by_the_seed_and_lies_in_the_space() -> None:
    axes = axes_of(NESTED)
    found = [complete(axes, {}, {}, seed) for seed in range(200)]
    assert [parameters_faults(axes, one) for one in found] == [[]] * 200
    assert found == [complete(axes, {}, {}, seed) for seed in range(200)]
    assert len({json.dumps(one) for one in found}) == 200
    assert complete(axes, found[3], found[4], 5) == found[3]
