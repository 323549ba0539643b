"""Records on their way to the log: one queue per partition, with one batch in flight each.

Records that arrive while a batch is in flight go with the next one. A record that nothing waits for, such as
a status, may linger: it goes with the next record or after 20 ms, because each append wakes all readers of
the log. A queue retries without end: each event has an id, so readers ignore a second copy.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import structlog

from trackside.contracts.envelope.topics import Topic, partition_of
from trackside.eventlog.errors import TooLargeError, TransientError
from trackside.eventlog.log import Appended, Log, Outgoing
from trackside.telemetry import metrics
from trackside.telemetry.health import Health

log = structlog.get_logger("trackside.worker")

MAX_BATCH_RECORDS = 1_000
MAX_BATCH_BYTES = 393_216
MAX_WAITING_SUMMARIES = 5_000
LINGER_S = 0.02
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 2.0

AppendCallback = Callable[[Appended], None]
AppendedAt = tuple[int, Appended]
"""The partition of an event that is in the log, and its offset there."""


@dataclass(slots=True)
class _Item:
    record: Outgoing
    on_appended: AppendCallback | None
    on_dropped: Callable[[], None] | None = None


class _PartitionQueue:
    def __init__(
        self, log: Log, topic: str, partition: int, limit: int | None, stalled: "StalledPartitions"
    ) -> None:
        self._log = log
        self._topic = topic
        self._partition = partition
        self._limit = limit
        self._stalled = stalled
        self._items: deque[_Item] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._timer: asyncio.TimerHandle | None = None
        self.dropped = 0

    def put(self, items: Sequence[_Item], linger: bool) -> None:
        self._items.extend(items)
        while self._limit is not None and len(self._items) > self._limit:
            dropped = self._items.popleft()
            if dropped.on_dropped is not None:
                dropped.on_dropped()
            self.dropped += 1
            metrics.counter("trackside.worker.dropped.batches").labels(topic=self._topic).inc()
        self._empty.clear()
        if not linger:
            self._filled.set()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._filled.set)

    async def drained(self) -> None:
        await self._empty.wait()

    async def run(self) -> None:
        while True:
            await self._filled.wait()
            self._filled.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            batch = self._next_batch()
            if self._items:
                self._filled.set()
            await self._append(batch)
            if not self._items:
                self._empty.set()

    def _next_batch(self) -> list[_Item]:
        batch: list[_Item] = []
        size = 0
        while self._items and len(batch) < MAX_BATCH_RECORDS:
            size += _size(self._items[0].record)
            if batch and size > MAX_BATCH_BYTES:
                break
            batch.append(self._items.popleft())
        return batch

    async def _append(self, batch: list[_Item]) -> None:
        pause_s = FIRST_RETRY_S
        while True:
            try:
                appended = await self._log.append(
                    self._topic, self._partition, [item.record for item in batch]
                )
            except TransientError as error:
                self._stalled.add(self._topic, self._partition, str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LAST_RETRY_S)
            except TooLargeError as error:
                await self._append_in_parts(batch, error)
                return
            else:
                self._stalled.remove(self._topic, self._partition)
                for at, item in enumerate(batch):
                    if item.on_appended is not None:
                        item.on_appended(Appended(appended.offset + at, appended.append_time_ms))
                return

    async def _append_in_parts(self, batch: list[_Item], error: TooLargeError) -> None:
        if len(batch) == 1:
            # It can never be appended. The size of all events is bounded, so this is a bug.
            log.error("a record is too large for the log", topic=self._topic, reason=str(error))
            return
        half = len(batch) // 2
        await self._append(batch[:half])
        await self._append(batch[half:])


def _size(record: Outgoing) -> int:
    headers = sum([len(name) + len(octets or b"") for name, octets in record.headers])
    return len(record.key or b"") + len(record.value or b"") + headers + 64


@dataclass(slots=True)
class StalledPartitions:
    """The queues that can't reach the log; reported by the health endpoint."""

    health: Health
    queues: set[tuple[str, int]] = field(default_factory=set)

    def add(self, topic: str, partition: int, reason: str) -> None:
        """Notes that a queue can't reach the log."""
        if not self.queues:
            log.warning("waiting for the log", topic=topic, reason=reason)
        self.queues.add((topic, partition))
        self.health.waiting("waiting for the log")

    def remove(self, topic: str, partition: int) -> None:
        """Notes that a queue has reached the log again."""
        self.queues.discard((topic, partition))
        if not self.queues:
            self.health.waiting(None)


class WorkerOutbox:
    """All queues of a worker; their tasks belong to `group`, so an error in one ends the worker."""

    def __init__(self, log: Log, health: Health, group: asyncio.TaskGroup) -> None:
        self._log = log
        self._group = group
        self._stalled = StalledPartitions(health)
        self._queues: dict[tuple[str, int], _PartitionQueue] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Ends the queues and drops what is still in them."""
        for task in self._tasks:
            task.cancel()

    def event(
        self, topic: Topic, record: Outgoing, on_appended: AppendCallback | None = None, linger: bool = False
    ) -> int:
        """Sends an event to the partition of its key, after all earlier ones; returns the partition.

        `on_appended` is called once it is in the log. With `linger` it may wait 20 ms for the next record.
        """
        return self._put(topic, _Item(record, on_appended), None, linger)

    def summary(
        self,
        topic: Topic,
        record: Outgoing,
        on_appended: AppendCallback | None = None,
        on_dropped: Callable[[], None] | None = None,
    ) -> None:
        """Sends metric points or output; while the log is unreachable, the oldest are dropped and counted.

        One of the callbacks is called once it is in the log, or was dropped.
        """
        self._put(topic, _Item(record, on_appended, on_dropped), MAX_WAITING_SUMMARIES, False)

    @property
    def is_stalled(self) -> bool:
        """Whether the log does not answer."""
        return bool(self._stalled.queues)

    @property
    def dropped(self) -> int:
        """Number of summaries dropped."""
        return sum(queue.dropped for queue in self._queues.values())

    async def drained(self) -> None:
        """Waits until all records sent so far are in the log."""
        await asyncio.gather(*(queue.drained() for queue in self._queues.values()))

    def _put(self, topic: Topic, item: _Item, limit: int | None, linger: bool) -> int:
        partition = partition_of((item.record.key or b"").decode(), topic.partitions)
        queue = self._queues.get((topic.name, partition))
        if queue is None:
            queue = _PartitionQueue(self._log, topic.name, partition, limit, self._stalled)
            self._queues[topic.name, partition] = queue
            task = self._group.create_task(queue.run(), name=f"outbox-{topic.name}-{partition}")
            self._tasks.add(task)
        queue.put([item], linger)
        return partition


def offsets_after(appended: Iterable[AppendedAt]) -> dict[str, int]:
    """Returns the offset after the last of some events, by partition."""
    after: dict[str, int] = {}
    for partition, place in appended:
        after[str(partition)] = max(place.offset + 1, after.get(str(partition), 0))
    return after
