"""D10 by hand: so many trials as are asked for are suggested, numbered in turn, and no more."""

from tests.unit.dispatcher import harness
from trackside.aggregates.search.messages import RequestTrials, SearchEnded, SearchExhausted, TrialSuggested
from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.commands import CommandAccepted, Ping
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.eventlog.memory import MemoryLog

ONE_NUMBER = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
THREE_POINTS = {"x": {"type": "randint", "low": 0, "high": 3}}


async def settle(log: MemoryLog, command_id: str) -> None:
    """Waits until the dispatcher has answered a command that changes nothing, and so has decided the rest."""

    def answers(record: Record) -> bool:
        return isinstance(record.message, CommandAccepted) and record.message.command_id == command_id

    await harness.publish(log, "s", Ping(), command_id)
    await harness.until(log, answers)


async def trials_of(log: MemoryLog) -> list[int]:
    return [each.trial for each in await harness.messages(log, TrialSuggested)]


async def test_as_many_trials_as_are_asked_for_are_suggested_beyond_the_concurrency_and_numbered_on() -> None:
    log = await harness.searching(space=ONE_NUMBER, tuner={"name": "random"}, max_trials=20, concurrency=2)
    async with harness.dispatcher(log):
        await harness.until(log, harness.suggests(1))
        await settle(log, "c-2")
        assert await trials_of(log) == [0, 1]
        await harness.publish(log, "s", RequestTrials(count=3), "c-3")
        await harness.until(log, harness.suggests(4))
        for ping in range(3):
            await settle(log, f"c-{4 + ping}")
    found = await harness.messages(log, TrialSuggested)
    assert [each.trial for each in found] == [0, 1, 2, 3, 4]
    assert {each.source for each in found} == {"algorithm"}
    tasks = [each.task_id for each in await harness.messages(log, TaskSubmitted)]
    assert tasks == ["s.0", "s.1", "s.2", "s.3", "s.4"]
    assert len({each.parameters["x"] for each in found}) == 5


async def test_a_tuner_that_has_fewer_gives_those_and_then_says_that_there_are_no_more() -> None:
    log = await harness.searching(space=THREE_POINTS, tuner={"name": "grid"}, max_trials=20, concurrency=1)
    async with harness.dispatcher(log):
        await harness.until(log, harness.suggests(0))
        await harness.publish(log, "s", RequestTrials(count=5), "c-2")
        await harness.until(log, harness.is_a(SearchExhausted))
        for task in ("s.0", "s.1", "s.2"):
            await harness.begin(log, "s", task)
            await harness.end(log, "s", task, 0.5)
        await harness.until(log, harness.is_a(SearchEnded))
    found = await harness.messages(log, TrialSuggested)
    assert [each.trial for each in found] == [0, 1, 2]
    assert {each.parameters["x"] for each in found} == {0, 1, 2}
    assert [each.trials for each in await harness.messages(log, SearchExhausted)] == [3]
    (ended,) = await harness.messages(log, SearchEnded)
    assert (ended.status.value, ended.trials) == ("DONE", 3)
