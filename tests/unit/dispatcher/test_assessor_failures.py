"""An assessor that fails: its trials continue, the log has the reason, and a policy decides what follows."""

import asyncio
from typing import Any

import pytest

from tests.unit.dispatcher.test_tuner_failures import LATE, Scripted
from tests.unit.domain.given import Told, report, search_running, task_active
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search import advice
from trackside.aggregates.search.advice_messages import FAILURES_MAX, AssessmentFailed
from trackside.aggregates.search.failure_policies import AssessorFailure
from trackside.aggregates.search.messages import Assessor, SearchFailed
from trackside.contracts.message import Event
from trackside.contracts.tasks import TaskStopRequested
from trackside.dispatcher.advice.assessments import AssessmentLoop
from trackside.dispatcher.advisor import search_assessor
from trackside.dispatcher.advisor.search_assessor import SearchAssessor
from trackside.dispatcher.assessors.stopping_rules import CompletedTrialsRule, LearningCurve
from trackside.domain.capabilities import Capabilities
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.react import react
from trackside.eventlog.background import Background

APPLIED, DUPLICATE, OVERTAKEN = [Outcome.APPLIED], [Outcome.DUPLICATE], [Outcome.OVERTAKEN]


def failure(rows: int = 1, number: int = 1) -> AssessmentFailed:
    return AssessmentFailed(rows=rows, failure=number, code="assessor_failed", message="it raised", seen=9)


class Touchy(CompletedTrialsRule):
    """Stops a trial below 0, and raises at 13."""

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
