"""What the worker has to say, on its way to the log: a lane per partition, one batch in flight in each.

What gathers while a batch is under way goes with the next one. What nobody waits for (a phase that begins)
is patient: it goes with the next event, or after 20 ms, because every append wakes every reader of the log. A
lane tries for ever: every event has an identity, so one that arrives twice counts once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from trackside.contracts.topics import Topic, partition_of
from trackside.eventlog.errors import TooLargeError, TransientError
from trackside.eventlog.log import Appended, Log, Outgoing
from trackside.telemetry import metrics
from trackside.telemetry.health import Health

log = structlog.get_logger("trackside.worker")

MAX_BATCH_RECORDS = 1_000
MAX_BATCH_BYTES = 393_216
MAX_WAITING_SUMMARIES = 5_000
PATIENCE_S = 0.02
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 2.0

Heard = Callable[[Appended], None]


@dataclass(slots=True)
class _Item:
    record: Outgoing
    heard: Heard | None


class _Lane:
    def __init__(self, log: Log, topic: str, partition: int, limit: int | None, waiting: "Waiting") -> None:
        self._log = log
        self._topic = topic
        self._partition = partition
        self._limit = limit
        self._waiting = waiting
        self._items: deque[_Item] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._timer: asyncio.TimerHandle | None = None
        self.dropped = 0

    def put(self, items: Sequence[_Item], patient: bool) -> None:
        self._items.extend(items)
        while self._limit is not None and len(self._items) > self._limit:
            self._items.popleft()
            self.dropped += 1
            metrics.counter("trackside.worker.dropped.batches").labels(topic=self._topic).inc()
        self._empty.clear()
        if not patient:
            self._filled.set()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE_S, self._filled.set)

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
                self._waiting.add(self._topic, self._partition, str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LAST_RETRY_S)
            except TooLargeError as error:
                await self._append_in_parts(batch, error)
                return
            else:
                self._waiting.remove(self._topic, self._partition)
                for at, item in enumerate(batch):
                    if item.heard is not None:
                        item.heard(Appended(appended.offset + at, appended.append_time_ms))
                return

    async def _append_in_parts(self, batch: list[_Item], error: TooLargeError) -> None:
        if len(batch) == 1:
            # Nobody can ever append it; what it said is bounded by its maker, so this is a mistake of ours.
            log.error("a record is too large for the log", topic=self._topic, reason=str(error))
            return
        half = len(batch) // 2
        await self._append(batch[:half])
        await self._append(batch[half:])


def _size(record: Outgoing) -> int:
    headers = sum(len(name) + len(octets or b"") for name, octets in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + 64


@dataclass(slots=True)
class Waiting:
    """Which lanes wait for the log; the health endpoint says so."""

    health: Health
    lanes: set[tuple[str, int]] = field(default_factory=set)

    def add(self, topic: str, partition: int, reason: str) -> None:
        """Notes that a lane waits."""
        if not self.lanes:
            log.warning("waiting for the log", topic=topic, reason=reason)
        self.lanes.add((topic, partition))
        self.health.waiting("waiting for the log")

    def remove(self, topic: str, partition: int) -> None:
        """Notes that a lane goes on."""
        self.lanes.discard((topic, partition))
        if not self.lanes:
            self.health.waiting(None)


class Outbox:
    """All lanes; their tasks belong to `group`, so a mistake in one ends the worker."""

    def __init__(self, log: Log, health: Health, group: asyncio.TaskGroup) -> None:
        self._log = log
        self._group = group
        self._waiting = Waiting(health)
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Ends the lanes, whatever still waits."""
        for task in self._tasks:
            task.cancel()

    def event(self, topic: Topic, record: Outgoing, heard: Heard | None = None, patient: bool = False) -> int:
        """Sends an event to the partition of its key, behind all before it; gives the partition.

        `heard` is called with its place once it is in the log. A `patient` one may wait 20 ms for the next.
        """
        return self._put(topic, record, heard, None, patient)

    def summary(self, topic: Topic, record: Outgoing) -> None:
        """Sends what is only looked at: while the log doesn't answer, the oldest are dropped and counted."""
        self._put(topic, record, None, MAX_WAITING_SUMMARIES, False)

    @property
    def dropped(self) -> int:
        """How many summaries were dropped."""
        return sum(lane.dropped for lane in self._lanes.values())

    async def drained(self) -> None:
        """Waits until everything that was sent so far is in the log."""
        await asyncio.gather(*(lane.drained() for lane in self._lanes.values()))

    def _put(
        self, topic: Topic, record: Outgoing, heard: Heard | None, limit: int | None, patient: bool
    ) -> int:
        partition = partition_of((record.key or b"").decode(), topic.partitions)
        lane = self._lanes.get((topic.name, partition))
        if lane is None:
            lane = _Lane(self._log, topic.name, partition, limit, self._waiting)
            self._lanes[topic.name, partition] = lane
            task = self._group.create_task(lane.run(), name=f"outbox-{topic.name}-{partition}")
            self._tasks.add(task)
        lane.put([_Item(record, heard)], patient)
        return partition
