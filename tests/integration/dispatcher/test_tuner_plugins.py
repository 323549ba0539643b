"""A tuner of a user's own package: found by its entry point, asked in a real advisor process, not trusted."""

import asyncio
import os
import signal
from typing import Any

import pytest

from tests.integration.dispatcher.users_package import advisor, installed_package
from tests.unit.domain.given import search_running
from trackside.aggregates.search.advice.advice_messages import SuggestionFailed
from trackside.aggregates.search.messages import Tuner
from trackside.aggregates.search.space.builtin_tuners import check_tuner
from trackside.aggregates.search.space.failure_policies import TunerFailure
from trackside.aggregates.search.space.space import RandInt
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import AdviceFailed, AdvisorDied, AdvisorProcess
from trackside.dispatcher.advice.tuner_client import TunerClient
from trackside.dispatcher.advice.tuner_history import HistoryItem
from trackside.dispatcher.plugins.tuner_plugins import installed_tuners
from trackside.dispatcher.tuners.tuner import TunerWaits
from trackside.eventlog.background import Background

SPACE = {"n": {"type": "randint", "low": 0, "high": 5}}
PACKAGE = '''
"""Tuners as a user writes them: this file imports nothing of Trackside."""

import os
import random
import threading


class Climber:
    """Goes on by one from the best trial so far, or to where chance leads."""

    def __init__(self, space, options, direction):
        self.low, self.high = space["n"]["low"], space["n"]["high"] - 1
        self.stride = options.get("stride", 1)
        if self.stride < 1:
            raise ValueError(f"stride must be at least 1, got {self.stride}")

    def suggest(self, history, number, seed):
        if len(history) > self.high - self.low:
            return None
        ended = [past for past in history if past["state"] == "complete"]
        known = [past["parameters"]["n"] for past in history]
        if ended:
            best = max(ended, key=lambda past: past["value"])["parameters"]["n"]
            if best + self.stride <= self.high and best + self.stride not in known:
                return {"n": best + self.stride}
        return {"n": random.Random(seed).randint(self.low, self.high)}


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Faulty(Climber):
    def __init__(self, space, options, direction):
        super().__init__(space, {}, direction)
        self.fault = options.get("fault")

    def suggest(self, history, number, seed):
        match self.fault:
            case "raises":
                raise RuntimeError("no license")
            case "hangs":
                threading.Event().wait()
            case "exits":
                os._exit(3)
            case "outside":
                return {"n": 99}
            case "list":
                return [1]
            case "more":
                return {"n": 1, "m": 2}
            case "repeats":
                return {"n": 1}
            case "mute":
                raise Mute
            case "babbles":
                return "anything"
            case "waits":
                return {"n": 2} if all(past["state"] == "complete" for past in history) else "wait"
'''
NAMED = "[trackside.tuners]\nclimber = climbing:Climber\nfaulty = climbing:Faulty\ntpe = climbing:Faulty\n"


package = installed_package("climbing", PACKAGE, NAMED)
process = advisor("own-tuner")


def setup(name: str = "climber", **options: Any) -> dict[str, Any]:
    return {"space": SPACE, "tuner": {"name": name, "options": options}, "seed": 4, "direction": "maximize"}


async def played(process: AdvisorProcess, trials: int, kill_at: int = -1) -> list[Any]:
    history: list[HistoryItem] = []
    found = []
    for number in range(trials):
        if number == kill_at:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(AdvisorDied):
                await TunerClient(process).suggest("s", setup(), history, number)
        parameters = await TunerClient(process).suggest("s", setup(), history, number)
        found.append(parameters)
        if parameters is not None:
            history.append(("suggested", number, parameters))
            history.append(("ended", number, "complete", -abs(parameters["n"] - 3.0), ()))
    return found


async def test_a_users_tuner_suggests_by_seed_and_history_also_after_a_kill(process: AdvisorProcess) -> None:
    found = await played(process, 6)
    assert sorted(parameters["n"] for parameters in found[:5]) == [0, 1, 2, 3, 4]
    assert found[5] is None
    assert await played(process, 6, kill_at=3) == found


def test_the_service_knows_the_names_of_tuners_that_are_installed() -> None:
    assert installed_tuners() >= {"climber", "faulty"}
    assert check_tuner(SPACE, {"name": "climber", "options": {"stride": 2}}, installed_tuners()) == []
    (fault,) = check_tuner(SPACE, {"name": "climbr"}, installed_tuners())
    assert "did you mean 'climber'" in fault[1]


async def test_a_name_of_ours_stays_ours(process: AdvisorProcess) -> None:
    assert await TunerClient(process).suggest("s", setup("tpe"), [], 0) is not None


NONSENSE = {
    "outside": r"NonsenseError: tuner faulty suggested for trial 1 at \$\.n: 99 is not a number from 0 to 4",
    "list": "expected an object",
    "more": r"at \$\.m: not part of the space",
    "repeats": "what another trial has, 8 times",
}


async def test_a_tuner_that_raises_or_talks_nonsense_is_named_with_the_reason(
    process: AdvisorProcess,
) -> None:
    history: list[HistoryItem] = [("suggested", 0, {"n": 1})]
    for fault, words in {"raises": "RuntimeError: no license", **NONSENSE}.items():
        with pytest.raises(AdviceFailed, match=words):
            await TunerClient(process).suggest(fault, setup("faulty", fault=fault), history, 1)
    assert await TunerClient(process).suggest("s", setup("climber"), history, 1) is not None
    assert process.generation == 1


async def test_options_that_the_class_refuses_are_named(process: AdvisorProcess) -> None:
    with pytest.raises(AdviceFailed, match="stride must be at least 1, got 0"):
        await TunerClient(process).suggest("s", setup(stride=0), [], 0)
    with pytest.raises(AdviceFailed, match=r"no tuner 'gone' is installed; .*: climber, faulty, tpe"):
        await TunerClient(process).suggest("s", setup("gone"), [], 0)


async def asked(fault: str, failures: int = 0) -> list[Any]:
    """Gets a faulty tuner asked for a search's first trial, and gives the events that come of it."""
    policy = TunerFailure(retries=0, then="random")
    tuner = Tuner(name="faulty", options={"fault": fault}, on_failure=policy)
    told = search_running(space={"n": RandInt(type="randint", low=0, high=5)}, tuner=tuner)
    for number in range(1, failures + 1):
        told.tell(SuggestionFailed(trial=0, failure=number, code="tuner_failed", message="", seen=2))
    processes = [AdvisorProcess(name, timeout_s=60.0) for name in ("tuner", "assessor", "own-tuner")]
    advice = AdviceLoop(processes[0], processes[1], Background(), processes[2])
    ready = asyncio.Event()
    advice.ready = ready.set
    await processes[2].start()
    processes[2].timeout_s = 0.3 if fault == "hangs" else 60.0
    advice.update(told.stream)
    async with asyncio.timeout(60):
        await ready.wait()
    [(stream, answer)] = advice.proposals
    assert stream == told.stream.stream_id
    assert processes[0].generation == failures, "a user's tuner was asked where ours are"
    advice.forget(stream)
    await advice.close()
    return list(answer.events)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("raises", "tuner_failed"),
        pytest.param("mute", "tuner_failed", marks=pytest.mark.long),
        ("hangs", "tuner_timed_out"),
        pytest.param("exits", "tuner_died", marks=pytest.mark.long),
        pytest.param("outside", "tuner_nonsense", marks=pytest.mark.long),
        ("babbles", "tuner_nonsense"),
    ],
)
async def test_what_a_tuner_did_wrong_is_an_event(fault: str, code: str) -> None:
    [event] = await asked(fault)
    assert isinstance(event, SuggestionFailed)
    assert (event.code, event.trial, event.failure, event.seen) == (code, 0, 1, 2)
    assert event.message
    if fault == "raises":
        assert "climbing.py" in event.traceback
        assert event.traceback.endswith("RuntimeError: no license")
        assert "advisor.py" not in event.traceback


async def test_chance_stands_in_for_a_tuner_that_has_failed() -> None:
    suggested, _ = await asked("raises", failures=1)
    assert suggested.source == "fallback"
    assert suggested.parameters["n"] in range(5)


async def test_d11_a_tuner_may_wait_for_the_end_of_another_trial(process: AdvisorProcess) -> None:
    history: list[HistoryItem] = [("suggested", 0, {"n": 1})]
    tuner = TunerClient(process)
    with pytest.raises(TunerWaits):
        await tuner.suggest("s", setup("faulty", fault="waits"), history, 1)
    history.append(("ended", 0, "complete", 0.5, ()))
    assert await tuner.suggest("s", setup("faulty", fault="waits"), history, 1) == {"n": 2}
