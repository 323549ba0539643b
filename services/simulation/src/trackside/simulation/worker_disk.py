"""What a simulated worker keeps: the placements on its disk, and what it still has to say."""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.fleet import RunningPlacement
from trackside.contracts.tasks import AttemptEnd, RecallTask, RunTask, StopTask
from trackside.contracts.topics import Topic
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Log, Outgoing, TopicPartition

TASK_TYPE = "noop"
Key = tuple[str, int, int]
"""Task, attempt, placement."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a task does: so many reports, evenly over a time between two, s; `points` are written too."""

    seconds: tuple[float, float] = (0.02, 0.5)
    reports: int = 2
    points: bool = False


@dataclass(slots=True, eq=False)
class Placement:
    """A placement in the journal; `ending` is what its process has left: the values that it reported."""

    key: Key
    stream: str
    incarnation: str
    device_ids: tuple[str, ...]
    parameters: dict[str, Any]
    wait: bool
    begun: bool = False
    values: list[float] = field(default_factory=list)
    ending: AttemptEnd | None = None
    said: bool = False

    @property
    def token(self) -> dict[str, Any]:
        """Gives the fields that name it in events."""
        return {"task_id": self.key[0], "attempt": self.key[1], "placement": self.key[2]}

    def told(self) -> RunningPlacement:
        """Gives it as heartbeats tell it."""
        return RunningPlacement(stream=self.stream, device_ids=[*self.device_ids], **self.token)


@dataclass(slots=True)
class Disk:
    """What outlives a worker's process, and how often each placement was begun."""

    journal: dict[Key, Placement] = field(default_factory=dict)
    begun: Counter[Key] = field(default_factory=Counter)


class Outbox:
    """What a worker has to say, in order within a partition, until the log has it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._waiting: dict[TopicPartition, deque[tuple[Outgoing, Placement | asyncio.Event | None]]] = {}
        self._writers: dict[TopicPartition, asyncio.Task[None]] = {}
        self.positions: dict[TopicPartition, int] = {}

    def say(
        self, topic: Topic, partition: int, record: Outgoing, then: "Placement | asyncio.Event | None" = None
    ) -> None:
        """Sends a record; `then` is told that it is in the log."""
        place = (topic.name, partition)
        self._waiting.setdefault(place, deque()).append((record, then))
        if place not in self._writers:
            self._writers[place] = asyncio.get_running_loop().create_task(self._write(place))

    async def _write(self, place: TopicPartition) -> None:
        waiting = self._waiting[place]
        while waiting:
            batch = list(waiting)
            try:
                appended = await self._log.append(*place, [record for record, _ in batch])
            except TransientError:
                await asyncio.sleep(0.05)
                continue
            self.positions[place] = appended.offset + len(batch)
            for _, then in batch:
                waiting.popleft()
                if isinstance(then, Placement):
                    then.said = True
                elif then is not None:
                    then.set()
        del self._writers[place]


def key_of(command: RunTask | StopTask | RecallTask) -> Key:
    """Gives the key of the placement that a command is about."""
    return command.task_id, command.attempt, command.placement


def placement_of(
    command: RunTask | StopTask | RecallTask,
    device_ids: tuple[str, ...],
    parameters: dict[str, Any],
    wait: bool,
) -> Placement:
    """Gives the placement that a command is about."""
    return Placement(key_of(command), command.stream, command.incarnation, device_ids, parameters, wait)
