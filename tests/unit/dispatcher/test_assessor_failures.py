"""An assessor that fails, or is slow: its trials continue, and its verdict does not race with their ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

from tests.unit.dispatcher import harness
from tests.unit.dispatcher.test_tuner_failures import LATE, Scripted
from tests.unit.domain.given import APPLIED, DUPLICATE, OVERTAKEN, Told, report, search_running, task_active
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.advice import advice
from trackside.aggregates.search.advice.advice_messages import FAILURES_MAX, AssessmentFailed
from trackside.aggregates.search.messages import Assessor, SearchFailed, TrialEnded
from trackside.aggregates.search.space.failure_policies import AssessorFailure
from trackside.contracts.envelope.message import Event
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested
from trackside.dispatcher.advice.assessments import AssessmentLoop
from trackside.dispatcher.advisor import search_assessor
from trackside.dispatcher.advisor.search_assessor import SearchAssessor
from trackside.dispatcher.assessors.stopping_rules import CompletedTrialsRule, LearningCurve
from trackside.domain.commands.react import react
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.proposal import Proposal
from trackside.eventlog.background import Background
from trackside.eventlog.memory import MemoryLog


def failure(rows: int = 1, number: int = 1) -> AssessmentFailed:
    return AssessmentFailed(rows=rows, failure=number, code="assessor_failed", message="it raised", seen=9)


class Touchy(CompletedTrialsRule):
    def should_stop(self, curve: LearningCurve) -> bool:
        if curve.newest == 13:
            raise ArithmeticError("unlucky")
        return curve.newest < 0

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Keeps nothing."""


@pytest.fixture
def touchy(monkeypatch: pytest.MonkeyPatch) -> SearchAssessor:
    monkeypatch.setattr(search_assessor, "make_rule", lambda *_: Touchy())
    return SearchAssessor({"name": "touchy"}, "maximize", 7)


def test_d17_a_report_that_it_fails_upon_costs_no_other_trial_its_verdict(touchy: SearchAssessor) -> None:
    rows: Any = [(0, 0, 13.0), (1, 0, -1.0), (0, 1, 13.0), (0, 2, 13.0), (0, 3, 1.0), (0, 4, 13.0)]
    assert touchy.take(rows) == [(1, 1)]
    told = [(each.rows, each.trial, each.failure, each.type) for each in touchy.failures]
    name = "ArithmeticError"
    assert told == [(1, 0, 1, name), (3, 0, 1, name), (4, 0, 2, name), (6, 0, 1, name)]


def test_no_more_failures_are_told_than_anybody_wants(touchy: SearchAssessor) -> None:
    touchy.take([(0, step, 13.0) for step in range(FAILURES_MAX + 5)])
    assert len(touchy.failures) == FAILURES_MAX


def test_failures_count_in_a_row_each_once() -> None:
    told = search_running(assessor=Assessor())
    assert told.tell(failure(rows=4, number=2)) == OVERTAKEN
    assert told.tell(failure(rows=4, number=1)) == APPLIED
    assert told.tell(failure(rows=4, number=1)) == DUPLICATE
    assert told.tell(failure(rows=4, number=2)) == APPLIED
    assert told.tell(failure(rows=3, number=3)) == DUPLICATE
    assert told.tell(failure(rows=6, number=1)) == APPLIED, "it had given verdicts in between"
    assert (told.search.assessor_failures.in_a_row, told.search.assessor_failures.count) == (1, 3)
    assert search_running().tell(failure()) == OVERTAKEN, "there is no assessor"


class Judged:
    """A search whose assessor answers what a test says, with the dispatcher's side of it."""

    def __init__(self, policy: AssessorFailure, *answers: Any) -> None:
        self.told: Told = task_active(assessor=Assessor(on_failure=policy))
        self.told.tell(report(1, 0.5))
        self.process = Scripted("assessor", *answers)
        self.background = Background()
        self.judging = AssessmentLoop(self.process, self.background, self._take)
        self.answers: asyncio.Queue[Proposal] = asyncio.Queue()

    def _take(self, _stream_id: str, answer: Proposal) -> None:
        self.answers.put_nowait(answer)

    async def event(self) -> Event:
        self.judging.update(self.told.stream)
        async with asyncio.timeout(60):
            [event] = (await self.answers.get()).events
        assert self.told.tell(event) == APPLIED
        return event

    async def until_idle(self) -> None:
        while self.judging._searches and any(known.asking for known in self.judging._searches.values()):  # noqa: ASYNC110
            await asyncio.sleep(0)  # a turn of the loop


def verdicts(*hopeless: tuple[int, int], failed: Any = ()) -> dict[str, Any]:
    return {"hopeless": list(hopeless), "failed": list(failed)}


def raised(rows: int, number: int = 1, kind: str = "ValueError") -> dict[str, Any]:
    return {"rows": rows, "trial": 0, "failure": number, "type": kind, "message": "no", "traceback": "t"}


async def test_a_silent_assessor_is_asked_again_unless_it_fails_too_often_and_its_trials_go_on() -> None:
    judged = Judged(AssessorFailure(), LATE, verdicts((0, 0)))
    first = await judged.event()
    assert isinstance(first, AssessmentFailed)
    assert (first.code, first.failure, first.rows, first.trial) == ("assessor_timed_out", 1, 1, None)
    await judged.until_idle()
    assert isinstance(await judged.event(), TaskStopRequested)
    judged = Judged(AssessorFailure(retries=1), LATE, LATE)
    for number in (1, 2):
        event = await judged.event()
        assert isinstance(event, AssessmentFailed) and event.failure == number
        await judged.until_idle()
    assert advice.assessor_is_given_up(judged.told.search)
    judged.told.tell(report(2, 0.1))
    judged.judging.update(judged.told.stream)
    assert judged.process.answers == []
    assert list(react(judged.told.stream, Capabilities(), AGGREGATES)) == []


async def test_a_search_may_be_stopped_when_its_assessor_fails() -> None:
    judged = Judged(AssessorFailure(retries=0, then="stop"), LATE)
    await judged.event()
    [answer] = react(judged.told.stream, Capabilities(), AGGREGATES)
    [event] = answer.events
    assert isinstance(event, SearchFailed) and event.code == "assessor_timed_out"
    judged.told.tell(event)
    assert [answer.span for answer in react(judged.told.stream, Capabilities(), AGGREGATES)] == ["stop task"]


async def test_what_an_assessor_raised_is_told_once_also_when_it_is_told_of_its_past_again() -> None:
    failed = [raised(1, kind="NonsenseError")]
    judged = Judged(AssessorFailure(), verdicts(failed=failed), verdicts((0, 0), failed=failed))
    event = await judged.event()
    assert isinstance(event, AssessmentFailed)
    assert (event.code, event.trial, event.message) == ("assessor_nonsense", 0, "NonsenseError: no")
    await judged.until_idle()
    judged.judging = AssessmentLoop(judged.process, judged.background, judged._take)  # another dispatcher
    assert isinstance(await judged.event(), TaskStopRequested)


THRESHOLD = {"name": "threshold", "options": {"lower": 0.5}}
First = Literal["verdict", "final value", "end"]
Ended = tuple[str, float | None]


class GatedAssessor(harness.LocalAdvisor):
    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def request(self, *asked: Any, **more: Any) -> Any:
        await self.gate.wait()
        return await super().request(*asked, **more)


async def end_of(log: MemoryLog) -> Ended:
    found = await harness.until(log, harness.is_a(TrialEnded))
    assert isinstance(found.message, TrialEnded)
    return found.message.status.value, found.message.value


@asynccontextmanager
async def judged() -> AsyncIterator[tuple[MemoryLog, GatedAssessor]]:
    """Runs a dispatcher whose assessor has a gate, and the first trial of a search."""
    log, assessor = await harness.new_log(), GatedAssessor()
    space = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
    fields: dict[str, Any] = {"max_trials": 1, "concurrency": 1, "direction": "maximize", "seed": 7}
    async with harness.dispatcher(log, assessor=assessor):
        await harness.start_search(log, "s", space=space, assessor=THRESHOLD, **fields)
        await harness.until(log, harness.suggests(0))
        await harness.begin(log, "s", "s.0")
        yield log, assessor


@pytest.mark.parametrize("first", ["verdict", "final value", "end"])
async def test_a_trial_rejected_at_its_last_report_is_stopped_early_whatever_is_first(first: First) -> None:
    async with judged() as (log, assessor):
        await harness.report(log, "s", "s.0", 1, 0.9)
        await harness.report(log, "s", "s.0", 2, 0.3)
        if first != "verdict":
            await harness.report(log, "s", "s.0", 2, 0.8, final=True)
        if first == "end":
            await harness.end_attempt(log, "s", "s.0", AttemptEnd.FINISHED)
        assessor.gate.set()
        if first != "end":
            await harness.until(log, harness.is_a(TaskStopRequested))
            await harness.end_attempt(log, "s", "s.0", AttemptEnd.CANCELLED)
        assert await end_of(log) == ("EARLY_STOPPED", 0.3)


@pytest.mark.parametrize("slow", [False, True])
async def test_a_trial_that_is_kept_at_its_last_report_succeeds_with_its_final_value(slow: bool) -> None:
    async with judged() as (log, assessor):
        if not slow:
            assessor.gate.set()
        await harness.report(log, "s", "s.0", 1, 0.9)
        await harness.report(log, "s", "s.0", 1, 0.1, final=True)
        await harness.end_attempt(log, "s", "s.0", AttemptEnd.FINISHED)
        assessor.gate.set()
        assert await end_of(log) == ("SUCCEEDED", 0.1)


async def test_a_trial_that_went_on_after_its_verdict_has_the_value_of_the_report_that_was_rejected() -> None:
    async with judged() as (log, assessor):
        for step, value in enumerate((0.9, 0.3, 0.7, 0.2)):
            await harness.report(log, "s", "s.0", step, value)
        assessor.gate.set()
        await harness.until(log, harness.is_a(TaskStopRequested))
        await harness.report(log, "s", "s.0", 4, 0.95)
        await harness.end_attempt(log, "s", "s.0", AttemptEnd.CANCELLED)
        assert await end_of(log) == ("EARLY_STOPPED", 0.3)


async def test_a_verdict_that_was_lost_with_its_dispatcher_still_decides_and_no_other_is_waited_for() -> None:
    async with judged() as (log, _):
        await harness.report(log, "s", "s.0", 1, 0.3)
        await harness.report(log, "s", "s.0", 1, 0.8, final=True)
        await harness.end_attempt(log, "s", "s.0", AttemptEnd.FINISHED)
    async with harness.dispatcher(log):
        assert await end_of(log) == ("EARLY_STOPPED", 0.3)
    async with judged() as (log, _):
        await harness.report(log, "s", "s.0", 0, 0.2, final=True)
        await harness.end_attempt(log, "s", "s.0", AttemptEnd.FINISHED)
        assert await end_of(log) == ("SUCCEEDED", 0.2)
