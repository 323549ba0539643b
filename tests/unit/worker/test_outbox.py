"""The outbox: order within a partition, one batch in flight, patience with a log that doesn't answer."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.errors import TooLargeError, TransientError
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.telemetry.health import Health
from trackside.worker.reporting import outbox
from trackside.worker.reporting.outbox import WorkerOutbox

TOPICS = Topics("t.")


def record(value: str, key: str = "k") -> Outgoing:
    return Outgoing(key.encode(), value.encode(), [])


class FlakyLog(MemoryLog):
    """Fails as often as it is told to, and holds each batch until it is let go."""

    def __init__(self, failures: int = 0, limit: int = 1_000) -> None:
        super().__init__()
        self.failures = failures
        self.limit = limit
        self.gate = asyncio.Event()
        self.batches: list[list[bytes | None]] = []
        self.failed = asyncio.Event()

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        if self.failures:
            self.failures -= 1
            self.failed.set()
            raise TransientError("no answer")
        await self.gate.wait()
        if len(batch) > self.limit:
            raise TooLargeError("too many")
        self.batches.append([item.value for item in batch])
        return await super().append(topic, partition, batch)


@asynccontextmanager
async def outbox_of(log: FlakyLog, health: Health | None = None) -> AsyncIterator[WorkerOutbox]:
    """Lets the log take what the outbox has, once the block has ended."""
    await log.ensure(TOPICS.shared)
    async with asyncio.TaskGroup() as group:
        box = WorkerOutbox(log, health or Health("worker"), group)
        yield box
        log.gate.set()
        await box.drained()
        box.close()


async def sent(log: FlakyLog, values: str, health: Health | None = None) -> None:
    async with outbox_of(log, health) as box:
        for value in values:
            box.event(TOPICS.events, record(value))
            await asyncio.sleep(0)


async def test_what_gathers_while_a_batch_is_under_way_goes_with_the_next_one_or_in_parts() -> None:
    log = FlakyLog()
    await sent(log, "123")
    assert log.batches == [[b"1"], [b"2", b"3"]]
    log = FlakyLog(limit=1)
    await sent(log, "1234")
    assert [value for batch in log.batches for value in batch] == [b"1", b"2", b"3", b"4"]


async def test_a_log_that_does_not_answer_is_asked_again_and_health_says_so() -> None:
    log, health = FlakyLog(failures=2), Health("worker")
    sending = asyncio.create_task(sent(log, "1", health))
    await log.failed.wait()
    await asyncio.sleep(0)
    assert "waiting for the log since" in (health.waiting_text or "")
    await sending
    assert health.waiting_text is None
    assert log.batches == [[b"1"]]


async def test_summaries_that_wait_too_long_are_dropped_oldest_first_and_counted() -> None:
    log, dropped, appended = FlakyLog(), list[int](), list[int]()
    async with outbox_of(log) as box:
        box.summary(TOPICS.metrics, record("under way"))
        await asyncio.sleep(0)
        for number in range(outbox.MAX_WAITING_SUMMARIES + 3):
            drop = partial(dropped.append, number)
            box.summary(TOPICS.metrics, record(str(number)), lambda at: appended.append(at.offset), drop)
        assert box.dropped == 3
    assert [value for batch in log.batches for value in batch][:2] == [b"under way", b"3"]
    assert dropped == [0, 1, 2]
    assert appended == [*range(1, outbox.MAX_WAITING_SUMMARIES + 1)]


async def test_whoever_asks_hears_where_its_event_landed() -> None:
    offsets: list[int] = []
    async with outbox_of(FlakyLog()) as box:
        for value in ("1", "2", "3"):
            box.event(TOPICS.events, record(value), lambda appended: offsets.append(appended.offset))
    assert offsets == [0, 1, 2]
