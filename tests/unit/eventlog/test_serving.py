"""A service that starts while the log is silent for a moment waits for it, at each of its first questions."""

from collections import Counter
from collections.abc import Sequence

import pytest

from trackside.contracts.envelope.topics import Topic, Topics
from trackside.eventlog import retry
from trackside.eventlog.errors import PreflightError, TransientError
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.reactor import serving
from trackside.eventlog.reactor.recovery import Recovered, recover
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import from_end, from_start, wait_for_topics

TOPIC = Topics(event_partitions=2).events


class FlakyLog(MemoryLog):
    """A log that answers every second question of a kind only."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = Counter[str]()

    async def ends(self, topic: str) -> dict[int, int]:
        self._falter("ends")
        return await super().ends(topic)

    async def beginnings(self, topic: str) -> dict[int, int]:
        self._falter("beginnings")
        return await super().beginnings(topic)

    async def preflight(self, topics: Sequence[Topic]) -> None:
        self._falter("preflight")
        await super().preflight(topics)

    def _falter(self, what: str) -> None:
        self.asked[what] += 1
        if self.asked[what] % 2:
            raise TransientError("no answer")


class StoredSnapshots:
    async def load(self) -> Recovered:
        return Recovered([], {0: 0, 1: 0})


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "RETRY_S", 0.0)
    monkeypatch.setattr(retry, "RETRY_S", 0.0)


@pytest.fixture
async def log() -> FlakyLog:
    log = FlakyLog()
    await log.ensure([TOPIC])
    return log


def service(log: MemoryLog) -> ServiceContext:
    return ServiceContext.on(log, Topics(), "dispatcher")


@pytest.mark.thorough
async def test_where_to_begin_is_asked_until_the_log_answers(log: FlakyLog) -> None:
    places = {(TOPIC.name, 0): 0, (TOPIC.name, 1): 0}
    assert await from_start(log, TOPIC) == places
    assert await from_end(log, TOPIC) == places
    streams, starts = await recover(StoredSnapshots(), log, TOPIC)
    assert (starts, streams.positions) == (places, {0: 0, 1: 0})


async def test_a_log_that_stays_silent_ends_the_start(log: FlakyLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "TIMEOUT_S", 0.0)
    with pytest.raises(TransientError):
        await from_start(log, TOPIC)


async def test_the_topics_are_checked_once_the_log_answers(log: FlakyLog) -> None:
    assert await wait_for_topics(service(log), [TOPIC])
    assert log.asked["preflight"] == 2
    with pytest.raises(PreflightError, match="does not exist"):
        await wait_for_topics(service(log), [TOPIC, Topics().fleet])


async def test_a_service_that_is_told_to_stop_waits_for_no_log(log: FlakyLog) -> None:
    stopped = service(log)
    stopped.stop.set()
    assert not await wait_for_topics(stopped, [TOPIC])
