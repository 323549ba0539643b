"""The end of a trial and the next one are appended together, where the tuner does not wait for results."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.dispatcher import harness
from tests.unit.dispatcher.tuner_histories import SPACE, score
from trackside.aggregates.search.messages import AddTrial, TrialAdded, TrialEnded, TrialSuggested
from trackside.contracts.tasks import TaskSubmitted
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog

TRIALS = 12
FINITE = {"layers": {"type": "randint", "low": 0, "high": 40}}


class BatchLog(MemoryLog):
    """A log that knows which events were appended together: the first offset of the batch of each."""

    def __init__(self) -> None:
        super().__init__()
        self.batch_of: dict[int, int] = {}

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        appended = await super().append(topic, partition, batch)
        if topic == harness.TOPICS.events.name:
            self.batch_of.update(
                dict.fromkeys(range(appended.offset, appended.offset + len(batch)), appended.offset)
            )
        return appended


async def searched(tuner: dict[str, Any], space: dict[str, Any], **fields: Any) -> BatchLog:
    """Returns the log of a search whose trials end as soon as they begin."""
    log = BatchLog()
    await harness.add_worker(log)
    await harness.start_search(log, "s", space=space, tuner=tuner, seed=7, max_trials=TRIALS, **fields)
    await harness.run_to_end(log, score)
    return log


async def together(log: BatchLog) -> list[int]:
    """Returns the trials that were suggested and submitted in the batch of the end of another one."""
    records = [record for entry in await harness.written(log) if (record := decode(entry)) is not None]
    batches = {log.batch_of[record.offset] for record in records if isinstance(record.message, TrialEnded)}
    submitted = {
        log.batch_of[record.offset] for record in records if isinstance(record.message, TaskSubmitted)
    }
    return [
        record.message.trial
        for record in records
        if isinstance(record.message, TrialSuggested) and log.batch_of[record.offset] in batches & submitted
    ]


@pytest.mark.parametrize(
    ("tuner", "space"),
    [
        ({"name": "random"}, SPACE),
        ({"name": "qmc"}, {"x": {"type": "uniform", "low": 0, "high": 1}}),
        ({"name": "grid"}, FINITE),
        ({"name": "batch", "options": {"sets": [{"layers": at} for at in range(TRIALS)]}}, FINITE),
    ],
)
async def test_the_next_trial_comes_with_the_end_before(tuner: dict[str, Any], space: dict[str, Any]) -> None:
    assert await together(await searched(tuner, space)) == list(range(1, TRIALS))


async def test_nothing_is_drawn_ahead_by_a_tuner_that_learns_or_of_an_end_that_may_reach_the_goal() -> None:
    assert await together(await searched({"name": "tpe"}, SPACE)) == []
    log = await searched({"name": "random"}, SPACE, goal=-1e9)
    assert await together(log) == []
    assert len(await harness.suggestions(log, "s")) == 1


async def test_a_trial_that_a_user_adds_comes_before_the_one_that_was_drawn_ahead() -> None:
    space = {**FINITE, "rate": {"type": "uniform", "low": 0, "high": 1}}
    log = BatchLog()
    await harness.add_worker(log)
    await harness.start_search(log, "s", space=space, tuner={"name": "random"}, seed=7, max_trials=TRIALS)
    async with harness.dispatcher(log):
        await harness.until(log, harness.suggests(0))
        await harness.begin(log, "s", "s.0")
        await harness.publish(log, "s", AddTrial(parameters={"layers": 3}))
        await harness.until(log, harness.is_a(TrialAdded))
        await harness.end(log, "s", "s.0", 1.0)
        added = await harness.until(log, harness.suggests(1))
        await harness.begin(log, "s", "s.1")
        await harness.end(log, "s", "s.1", 1.0)
        after = await harness.until(log, harness.suggests(2))
    assert isinstance(added.message, TrialSuggested) and isinstance(after.message, TrialSuggested)
    assert (added.message.source, added.message.parameters["layers"]) == ("customized", 3)
    assert after.message.source == "algorithm"
