"""Assessments by a real advisor process: in time, the same after it was killed, proposed until they hold."""

import asyncio
import os
import signal

import pytest

from tests.integration.dispatcher.users_package import advisor
from tests.unit.domain.given import Told, assigned, begun, report, search_running, submitted, suggested
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import Assessor
from trackside.aggregates.search.state import FeedRow
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.dispatcher.advice.advisor_process import AdvisorDied, AdvisorProcess
from trackside.dispatcher.advice.assessments import AssessmentLoop
from trackside.dispatcher.advice.assessor_client import AssessorClient
from trackside.domain.folding.streams import load, pack
from trackside.domain.proposal import Proposal
from trackside.eventlog.background import Background

ASSESSOR = {"name": "successive-halving", "options": {"min_resource": 1, "reduction_factor": 2}}
SETUP = {"assessor": ASSESSOR, "direction": "maximize", "seed": 7}
ROWS: list[FeedRow] = [(trial, step, (trial * 37 % 20) / 20) for step in range(9) for trial in range(20)]
process = advisor("assessor")


async def verdicts(
    process: AdvisorProcess, kill_at: int = -1, rows_an_op: int = 1_000
) -> list[tuple[int, int]]:
    """Sends all rows in tens, kills the advisor before one of them, and returns the trials to stop."""
    assessor = AssessorClient(process, rows_an_op)
    found: list[tuple[int, int]] = []
    for upto in range(10, len(ROWS) + 1, 10):
        if upto == kill_at:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(AdvisorDied):
                await assessor.assess("s", SETUP, ROWS[:upto])
        found = (await assessor.assess("s", SETUP, ROWS[:upto])).trials_to_stop
    return found


async def test_d08_an_advisor_that_was_killed_gives_the_same_verdicts(process: AdvisorProcess) -> None:
    found = await verdicts(process)
    assert 5 < len(found) < 20
    await AssessorClient(process).forget("s")
    assert await verdicts(process, kill_at=60) == found
    assert await verdicts(process, rows_an_op=7) == found
    assert process.generation == 2


def halved() -> Told:
    """Returns a search with a good trial and a bad one that has just reached the first rung."""
    told = search_running(assessor=Assessor(name="asha", options={"min_resource": 1}))
    for trial, value in enumerate((0.9, 0.1)):
        told.tell(suggested(trial), submitted(trial))
        told.tell(assigned(trial))
        told.tell(begun(trial))
        told.tell(report(1, value, trial))
    return told


class Proposed:
    """Takes what is proposed, and says when something was."""

    def __init__(self, process: AdvisorProcess) -> None:
        self.background = Background()
        self.judging = AssessmentLoop(process, self.background, self._take)
        self.answers: asyncio.Queue[Proposal] = asyncio.Queue()

    def _take(self, _stream_id: str, answer: Proposal) -> None:
        self.answers.put_nowait(answer)

    async def next(self) -> TaskStopRequested:
        """Waits for the next proposal."""
        async with asyncio.timeout(60):
            [event] = (await self.answers.get()).events
        assert isinstance(event, TaskStopRequested)
        return event


async def test_a_hopeless_trial_is_stopped_with_the_offset_that_was_seen(process: AdvisorProcess) -> None:
    told, proposed = halved(), Proposed(process)
    proposed.judging.update(told.stream)
    event = await proposed.next()
    assert (event.task_id, event.reason, event.seen) == ("digits-1.1", "assessor", told.stream.last_offset)
    await proposed.background.close()


async def test_d08_a_verdict_that_was_lost_with_its_dispatcher_is_given_again(
    process: AdvisorProcess,
) -> None:
    """A new dispatcher has the state only, from a snapshot, and no new report comes."""
    told = halved()
    stream = load(pack(told.stream), AGGREGATES)
    proposed = Proposed(process)
    proposed.judging.update(stream)
    first = await proposed.next()
    proposed.judging.reconsider(stream.stream_id)
    while proposed.answers.empty():  # the question before may be open still
        proposed.judging.update(stream)
        await asyncio.sleep(0)
    assert await proposed.next() == first
    await proposed.background.close()


async def test_a_trial_that_is_being_stopped_is_not_stopped_twice(process: AdvisorProcess) -> None:
    told, proposed = halved(), Proposed(process)
    proposed.judging.update(told.stream)
    told.tell(await proposed.next())
    again = Proposed(process)
    told.tell(report(2, 0.05, 1))
    told.tell(report(2, 0.95, 0))
    told.tell(suggested(2), submitted(2))  # not applied: no slot is open
    again.judging.update(told.stream)
    judged = await AssessorClient(process).assess("s", SETUP, told.stream.root.assessor_feed)
    assert [trial for trial, _ in judged.trials_to_stop] == [1]
    assert again.answers.empty()
    for each in (proposed, again):
        await each.background.close()
