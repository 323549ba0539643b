"""What a dispatcher makes of a tuner that fails, waits or is exhausted, and what is said of an exception."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.unit.domain.given import Told, finish, search_running
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search import messages
from trackside.aggregates.search.advice.advice_messages import (
    MESSAGE_MAX,
    TRACEBACK_MAX,
    SuggestionDeferred,
    SuggestionFailed,
)
from trackside.aggregates.search.space.failure_policies import TunerFailure
from trackside.aggregates.search.trials import suggestions
from trackside.contracts.envelope.message import Event
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import AdviceFailed, AdvisorProcess, AdvisorTimeout
from trackside.dispatcher.plugins.user_errors import describe
from trackside.dispatcher.tuners.tuner import TunerWaits
from trackside.domain.commands.react import react
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding.streams import load, pack
from trackside.domain.outcome import Outcome
from trackside.eventlog.background import Background

Said = TypeVar("Said", bound=Event)
RAISED = AdviceFailed("RuntimeError: no license", "x" * (TRACEBACK_MAX + 9))
LATE = AdvisorTimeout("no answer in 30 s")


class Scripted(AdvisorProcess):
    """Answers with what a test says, in its order; an exception is raised."""

    def __init__(self, name: str, *answers: Any) -> None:
        super().__init__(name)
        self.generation = 1
        self.answers = list(answers)
        self.asked: list[tuple[str, str]] = []

    async def request(self, search: str, ops: Any, ops_a_line: int = 0) -> Any:
        listed: Iterable[dict[str, Any]] = list(ops(self.generation))
        opened = [op[op["kind"]]["name"] for op in listed if op["op"] == "open"]
        self.asked.append((search, "".join(opened)))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Played:
    """A search with a user's tuner and its dispatcher, which may be replaced by another at any time."""

    def __init__(self, policy: TunerFailure, *own: Any, ours: Iterable[Any] = (), **changed: Any) -> None:
        tuner = messages.Tuner(name="mine", on_failure=policy)
        self.told: Told = search_running(tuner=tuner, **changed)
        self.own, self.ours = Scripted("own-tuner", *own), Scripted("tuner", *ours)
        self.restart()

    def restart(self) -> None:
        self.background = Background()
        self.advice = AdviceLoop(self.ours, Scripted("assessor"), self.background, self.own)

    async def turn(self) -> list[Event]:
        """Asks if there is something to ask, tells what comes of it and what follows from that at once."""
        stream = load(pack(self.told.stream), AGGREGATES)
        ready = asyncio.Event()
        self.advice.ready = ready.set
        self.advice.update(stream)
        asked = self.told.search.next_trial is not None and not suggestions.has_failed(self.told.search)
        if asked:
            async with asyncio.timeout(60):
                await ready.wait()
        events = [event for _, answer in self.advice.proposals for event in answer.events]
        if events:
            assert set(self.told.tell(*events)) == {Outcome.APPLIED}
        self.advice.proposals.clear()
        self.advice.allow_next(stream.stream_id)
        for answer in react(self.told.stream, Capabilities(), AGGREGATES):
            self.told.tell(*answer.events, role="dispatcher")
            events += answer.events
        return events

    async def first(self, kind: type[Said]) -> Said:
        event, *_ = await self.turn()
        assert isinstance(event, kind)
        return event


async def test_a_failure_is_told_with_its_reason_and_asked_again_up_to_the_limit() -> None:
    played = Played(TunerFailure(retries=1), RAISED, LATE)
    [first] = await played.turn()
    assert isinstance(first, SuggestionFailed)
    assert (first.trial, first.failure, first.code) == (0, 1, "tuner_failed")
    assert first.message == "RuntimeError: no license"
    assert len(first.traceback) == TRACEBACK_MAX
    second, failed, *_ = await played.turn()
    [[ended]] = [answer.events for answer in react(played.told.stream, Capabilities(), AGGREGATES)]
    assert isinstance(second, SuggestionFailed) and (second.failure, second.code) == (2, "tuner_timed_out")
    assert isinstance(failed, messages.SearchFailed)
    assert (failed.code, failed.message) == ("tuner_timed_out", "trial 0, asked 2 times: no answer in 30 s")
    assert isinstance(ended, messages.SearchEnded) and ended.status is messages.SearchStatus.ERROR
    await played.turn()
    assert len(played.own.asked) == 2, "no more is asked of a search that has failed"


async def test_a_new_dispatcher_goes_on_counting_and_an_answer_gives_a_clean_slate() -> None:
    played = Played(TunerFailure(retries=1), RAISED, RAISED)
    await played.turn()
    played.restart()
    assert messages.SearchFailed in [type(event) for event in await played.turn()]
    played = Played(TunerFailure(), RAISED, RAISED, {"lr": 0.5}, RAISED)
    for _ in range(2):
        await played.turn()
    suggested = await played.first(messages.TrialSuggested)
    assert suggested.source == "algorithm"
    [failure] = await played.turn()
    assert isinstance(failure, SuggestionFailed) and (failure.trial, failure.failure) == (1, 1)


async def test_chance_stands_in_for_one_trial_and_the_search_fails_when_that_fails_too() -> None:
    policy = TunerFailure(retries=0, then="random")
    played = Played(policy, RAISED, {"lr": 0.75}, ours=[{"lr": 0.25}])
    await played.turn()
    drawn = await played.first(messages.TrialSuggested)
    assert (drawn.source, drawn.parameters) == ("fallback", {"lr": 0.25})
    assert played.ours.asked == [("digits-1/by-chance", "random")]
    after = await played.first(messages.TrialSuggested)
    assert (after.trial, after.source) == (1, "algorithm")
    played = Played(policy, RAISED, ours=[RAISED] * suggestions.CHANCES)
    events: list[Event] = []
    for _ in range(1 + suggestions.CHANCES):
        events += await played.turn()
    failed = [SuggestionFailed] * (1 + suggestions.CHANCES)
    assert [type(event) for event in events] == [*failed, messages.SearchFailed]
    assert played.told.search.status is messages.SearchStatus.STOPPING


async def test_d11_waiting_and_being_exhausted_are_two_events() -> None:
    played = Played(TunerFailure(), {"lr": 0.5}, TunerWaits(), None)
    await played.turn()
    [waits] = await played.turn()
    assert isinstance(waits, SuggestionDeferred)
    assert (waits.trial, played.told.search.status) == (1, messages.SearchStatus.RUNNING)
    assert await played.turn() == [], "it isn't asked again until something has ended"
    finish(played.told, 0, 0.5)
    exhausted = await played.first(messages.SearchExhausted)
    assert (exhausted.trials, exhausted.seen) == (1, played.told.search.opened[1])


async def test_d11_a_tuner_that_waits_while_nothing_runs_has_failed() -> None:
    played = Played(TunerFailure(retries=0), TunerWaits())
    failure, failed = await played.turn()
    assert isinstance(failure, SuggestionFailed) and failure.code == "tuner_waits_in_vain"
    assert isinstance(failed, messages.SearchFailed)


TUNER = """
def best(history):
    return history[0]

class Mine:
    def suggest(self, history):
        import json
        return json.loads(best(history))
"""


def described(tmp_path: Path, history: list[str]) -> dict[str, str]:
    file = tmp_path / "tuners.py"
    found: dict[str, Any] = {}
    exec(compile(TUNER, str(file), "exec"), found)  # noqa: S102  (a user's module, as an import runs it)
    with pytest.raises(Exception) as raised:  # noqa: PT011  (whatever a user's code raises)
        found["Mine"]().suggest(history)
    traceback = raised.value.__traceback__
    assert traceback is not None
    return describe(raised.value.with_traceback(traceback.tb_next))  # without this test's own frame


def test_the_message_ends_with_the_line_of_the_users_own_code_also_if_it_is_long(tmp_path: Path) -> None:
    file = tmp_path / "tuners.py"
    assert described(tmp_path, [])["message"] == f"list index out of range (in best, {file}:3)"
    in_library = described(tmp_path, ["{"])["message"]
    assert in_library.endswith(f" (in suggest, {file}:8)"), "not the line of the library that raised"
    try:
        raise ValueError("x" * 9_000)
    except ValueError as error:
        message = describe(error)["message"]
    assert len(message) == MESSAGE_MAX
    assert message.endswith(")")
