"""A dispatcher that is killed anywhere suggests next what it would have, also after changes of its search.

The search is paused, resumed and updated, gets another space, imported results and trials of users, while
answers of its tuner are lost on their way. At every suggestion a dispatcher with the log as its only state is
asked as well.
"""

from random import Random
from typing import Any

import pytest

from tests.unit.dispatcher.harness import LocalAdvisor
from tests.unit.domain.given import Told, finish, search_running
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search import messages
from trackside.aggregates.search.commands import update as changes
from trackside.aggregates.search.space.axes import axes_of
from trackside.aggregates.search.space.promoting_options import PROMOTING
from trackside.aggregates.search.state import Search
from trackside.aggregates.search.trials import suggestions
from trackside.aggregates.search.trials.promotion import Start
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.dispatcher.advice.tuner_client import TunerClient
from trackside.dispatcher.advice.tuner_history import TunerHistory
from trackside.dispatcher.tuners.completion import complete
from trackside.dispatcher.tuners.tuner import TunerWaits
from trackside.domain.folding.lookup import NO_LOOKUP
from trackside.domain.folding.streams import load, pack
from trackside.domain.outcome import Outcome

TRIALS = 48
NARROW: dict[str, Any] = {
    "a": {"type": "uniform", "low": 0.0, "high": 1.0},
    "b": {"type": "randint", "low": 0, "high": 50},
}
WIDE: dict[str, Any] = {
    "a": {"type": "uniform", "low": 0.5, "high": 3.0},
    "c": {"type": "loguniform", "low": 0.001, "high": 1.0},
}
NAMES = ["tpe", "tpe-multivariate", "cma-es", "nsga2", "qmc", *PROMOTING]
MARKED = ["random", *(pytest.param(name, marks=pytest.mark.thorough) for name in NAMES)]
OPTIONS: dict[str, dict[str, Any]] = {
    **{name: {"max_resource": 9, "reduction_factor": 3} for name in ("asha", "hyperband", "bohb")},
    "pbt": {"interval": 2, "population_size": 3},
    "pb2": {"interval": 2, "population_size": 3, "synchronous": True},
}


class Dispatcher:
    """What a dispatcher keeps of a search in addition to the log."""

    def __init__(self) -> None:
        self.history = TunerHistory()
        self.process = TunerClient(LocalAdvisor())

    async def suggest(self, search: Search, number: int) -> dict[str, Any] | None:
        """Asks the tuner as `Advice` does; {} where it waits for the end of another trial."""
        plain = search.spec.model_dump(mode="json")
        setup = {name: plain[name] for name in ("space", "tuner", "direction")}
        setup |= {"seed": search.seed, "space_version": search.space_version}
        past = self.history.until(search, number)
        try:
            return await self.process.suggest(search.search_id, setup, past, number)
        except TunerWaits:
            return {}


def wish(random: Random, search: Search) -> Any:
    point = {"a": random.choice([0.75, 0.25, 2.0]), "b": random.randrange(50), "c": 0.5}
    own: dict[str, Any] = {name: value for name, value in point.items() if name in search.spec.space}
    return random.choice(
        [
            messages.PauseSearch(),
            messages.UpdateSearch(concurrency=random.randint(1, 6)),
            messages.RequestTrials(count=2),
            messages.UpdateSearchSpace.model_validate({"space": random.choice([NARROW, WIDE])}),
            messages.ImportTrials.model_validate({"trials": [{"parameters": own, "value": random.random()}]}),
            messages.ImportTrials.model_validate({"trials": [{"parameters": own, "value": random.random()}]}),
            messages.AddTrial(parameters=own, tell_tuner=random.random() < 0.5),
            messages.AddTrial(parameters={"a": 0.75}, tell_tuner=True),
            messages.AddTrial(parameters={**own, "a": 9.0}, tell_tuner=True, outside=True),
        ]
    )


def change(told: Told, wanted: Any) -> set[str]:
    events = changes.change(told.stream, wanted, "c-2", NO_LOOKUP)
    listed: list[Message] = [] if not isinstance(events, list) else [*events]
    if listed:
        assert set(told.tell(*listed)) == {Outcome.APPLIED}
    return {type(event).__name__ for event in listed}


@pytest.mark.thorough
@pytest.mark.parametrize("name", MARKED)
async def test_a_dispatcher_killed_at_any_moment_of_an_eventful_search_suggests_the_same(name: str) -> None:
    random = Random(name)
    tuner = {"name": name, "options": OPTIONS.get(name, {})}
    told = search_running(max_trials=TRIALS, concurrency=4, space=NARROW, tuner=tuner)
    living, seen, compared = Dispatcher(), set[str](), 0
    while len(told.search.trials) < TRIALS:
        search, draw = told.search, random.random()
        if search.paused:
            if search.active and draw < 0.5:
                finish(told, random.choice(sorted(search.active)), random.random())
            else:
                seen |= change(told, random.choice([messages.ResumeSearch(), wish(random, search)]))
        elif draw < 0.25:
            seen |= change(told, wish(random, search))
        elif search.next_added is not None:
            number = search.next_added
            own = search.added[0].parameters
            told.tell(*suggestions.suggestion(search, number, own, search.opened[number], "customized"))
        elif search.next_trial is not None and draw < 0.7:
            number = search.next_trial
            answer = await living.suggest(search, number)
            reborn = load(pack(told.stream), AGGREGATES).root
            assert reborn is not None and await Dispatcher().suggest(reborn, number) == answer
            assert answer is not None
            compared += 1
            if not answer:
                told.tell(*suggestions.deferred(search, number, search.opened[number]))
                continue
            source: messages.Suggester = "customized" if search.added else "algorithm"
            start = None
            if name in PROMOTING:
                start = None if search.added else Start(answer["from_trial"], answer["step_limit"])
                answer = answer["parameters"]
            if search.added:
                space = search.spec.model_dump(mode="json")["space"]
                answer = complete(axes_of(space), search.added[0].parameters, answer, 7)
            if random.random() < 0.8:  # else the answer is lost on its way into the log
                seen_at = search.opened[number]
                told.tell(*suggestions.suggestion(search, number, answer, seen_at, source, start=start))
        elif search.active:
            end = random.choice([AttemptEnd.FINISHED, AttemptEnd.FINISHED, AttemptEnd.FAILED])
            finish(told, random.choice(sorted(search.active)), random.random(), end)
    assert compared > TRIALS / 2
    assert len(seen) >= 6, seen


async def test_a_result_that_is_hidden_from_the_tuner_changes_no_later_suggestion() -> None:
    """D14."""
    found = []
    for value, tell_tuner in ((0.1, False), (0.9, False), (0.9, True)):
        tuner = {"name": "tpe", "options": {"n_startup_trials": 1}}
        told = search_running(max_trials=9, concurrency=1, space=NARROW, tuner=tuner)
        change(told, messages.AddTrial(parameters={"a": 0.5, "b": 7}, tell_tuner=tell_tuner))
        told.tell(*suggestions.suggestion(told.search, 0, {"a": 0.5, "b": 7}, 2, "customized"))
        finish(told, 0, value)
        found.append(await Dispatcher().suggest(told.search, 1))
    assert found[0] == found[1]
    assert found[1] != found[2]


@pytest.mark.parametrize("name", ["tpe", "nsga2", "grid"])
async def test_an_imported_result_is_known_to_the_tuner(name: str) -> None:
    """D13: it learns from it, and does not suggest the same again."""
    space = {"a": {"type": "randint", "low": 0, "high": 3}}
    told = search_running(max_trials=9, concurrency=3, space=space, tuner={"name": name})
    change(told, messages.ImportTrials.model_validate({"trials": [{"parameters": {"a": 1}, "value": 5.0}]}))
    told.tell(*suggestions.suggestion(told.search, 0, {"a": 0}, 2))
    finish(told, 0, 0.5)
    for _ in range(2):
        change(told, messages.PauseSearch())
        change(told, messages.ResumeSearch())
    living = Dispatcher()
    assert await living.suggest(told.search, 1) == {"a": 2}
    told.tell(*suggestions.suggestion(told.search, 1, {"a": 2}, told.search.opened[1]))
    assert await living.suggest(told.search, 2) is None
