"""The example aggregate of the test tree, decided by a real dispatcher on a log in memory.

It is over before it is closed: it can be extended after its end, until a time limit archives it.
"""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.aggregates.registered import repeats_registered
from tests.aggregates.repeat.messages import (
    ExtendRepeat,
    RepeatArchived,
    RepeatEnded,
    RepeatExtensionAnswered,
    RepeatStatus,
    StartRepeat,
)
from tests.aggregates.repeat.state import repeat_of
from tests.unit.dispatcher import harness
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.streams.stream import Stream
from trackside.eventlog.memory import MemoryLog
from trackside.sdk.connection.publication import Accepted, Refused
from trackside.simulation.config import SimulationConfig
from trackside.simulation.host.worker_state import TASK_TYPE
from trackside.simulation.run import sweep
from trackside.simulation.scenarios.scenarios import StreamScenario
from trackside.verify.log import verify_topics

STREAM = "seeds-1"
SIMULATED_SEEDS = 6


class RepeatScenario(StreamScenario):
    """A repeat whose runs must all finish, and which is archived after two seconds."""

    kind = name = "repeat"
    plural = "repeats"

    def command(self) -> StartRepeat:
        """Returns the command that starts the repeat."""
        asked = {"times": self.tasks, "at_once": self.concurrency, "keep_s": 2.0, "retry": {"lost": 100}}
        return StartRepeat.model_validate({"task_type": TASK_TYPE, **asked})

    def violations(self, stream: Stream) -> list[str]:
        """Returns how it ended, if not as it should."""
        repeat = repeat_of(stream)
        done = repeat is not None and (repeat.status, repeat.finished) == (RepeatStatus.DONE, self.tasks)
        return [] if done and stream.closed else [f"the repeat is {repeat}"]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with repeats_registered():
        yield


@pytest.fixture
async def log() -> AsyncIterator[MemoryLog]:
    made = await harness.new_log()
    async with harness.dispatcher(made), harness.fleet(made, lambda parameters: float(parameters["run"])):
        yield made


async def test_one_that_is_over_goes_on_when_it_is_extended_and_is_followed_on(log: MemoryLog) -> None:
    client = harness.client_of(log)
    await client.publish(StartRepeat(task_type="noop", times=2), STREAM)
    first = await client.wait(STREAM, 60)
    assert (first.over, first.closed, first.root.finished) == (True, False, 2)
    published = await client.publish(ExtendRepeat(more=1), STREAM)
    assert isinstance(await client.answer(published), Accepted)
    followed = [type(record.message) async for record, _ in client.follow(STREAM)]
    assert followed.count(TaskSubmitted) == 3
    own = [kind.__name__ for kind in followed if kind.__name__.startswith("Repeat")]
    assert own == ["RepeatStarted", "RepeatEnded", "RepeatExtended", "RepeatEnded"]
    assert (await verify_topics(log, harness.TOPICS)).findings == []


async def test_one_that_is_done_extends_another_one_and_has_its_answer_in_its_log(log: MemoryLog) -> None:
    client, other = harness.client_of(log), "seeds-2"
    await client.publish(StartRepeat(task_type="noop", times=1), other)
    await client.wait(other, 60)
    await client.publish(StartRepeat(task_type="noop", times=1, extends=other), STREAM)
    answered = await harness.until(log, lambda record: isinstance(record.message, RepeatExtensionAnswered))
    assert isinstance(answered.message, RepeatExtensionAnswered) and answered.message.refused == ""
    await harness.until(
        log, lambda record: record.message == RepeatEnded(status=RepeatStatus.DONE, finished=2)
    )
    found = await client.state(other)
    assert found is not None and (found.root.times, found.root.finished) == (2, 2)
    assert (await verify_topics(log, harness.TOPICS)).findings == []


async def test_its_time_limit_closes_it_and_then_it_cannot_be_extended(log: MemoryLog) -> None:
    client = harness.client_of(log)
    await client.publish(StartRepeat(task_type="noop", times=1, keep_s=0.0), STREAM)
    archived = await harness.until(log, lambda record: isinstance(record.message, RepeatArchived))
    stream = await client.state(STREAM)
    assert stream is not None and stream.closed and stream.last_offset == archived.offset
    published = await client.publish(ExtendRepeat(more=1), STREAM)
    answer = await client.answer(published)
    assert isinstance(answer, Refused) and answer.code == "already_terminal"


@pytest.mark.thorough
def test_it_ends_as_it_should_whatever_goes_wrong(seed: int) -> None:
    config = SimulationConfig(trials=12, concurrency=3, scenario=RepeatScenario)
    for result in sweep(range(seed, seed + SIMULATED_SEEDS), config):
        assert result.violations == [], f"seed {result.seed}"
