"""What experiments of a soak run on: a stack, what its log says, and a client that outlasts faults."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.chaos.rounds.cluster import RoundsCluster
from tests.soak.history import SoakHistory, is_of
from trackside.contracts.envelope.message import Command
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import Source
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import TaskState
from trackside.embedded.stack import Stack
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.sdk.async_client import AsyncClient

PATIENCE_S = 900.0
"""How long anything may take: many faults in a row, each with its recovery, and a disk that is full."""


class Sent(NamedTuple):
    """A command that was published: to which stream, and what it is."""

    stream: str
    what: str


@dataclass
class Scene:
    """The stack and its log; `folder` is for datasets and outputs, `events` for files of summaries."""

    running: Stack
    history: SoakHistory
    log: KafkaLog
    client: AsyncClient
    topics: Topics
    folder: Path
    summaries: Path
    rng: random.Random
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when no experiment is to begin any more."""
    sent: dict[Source, Sent] = field(default_factory=dict)
    """What was published, by the place in the log, until the end of its experiment was checked."""

    async def send(self, command: Command, stream: str) -> None:
        """Publishes a command, and waits until it is accepted; AssertionError if it is refused."""
        published = await self.client.publish(command, stream, timeout_s=PATIENCE_S)
        name = f"{type(command).__name__} of {stream}"
        self.sent[published.source] = Sent(stream, name)
        answers = self.history.answers
        await self.until(f"an answer to {name}", lambda: published.source in answers)
        assert not answers[published.source], f"{name} was refused: {answers[published.source]}"

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Waits until something holds of the log; AssertionError says what never did."""
        await self.history.until(what, holds, PATIENCE_S)

    def stream(self, name: str) -> Stream:
        """Returns what the log has of a stream, which must be there."""
        return self.history.streams.by_id[name]

    async def until_over(self, name: str) -> Stream:
        """Waits for the end of an experiment."""
        found = self.history.streams.by_id
        await self.until(f"the end of {name}", lambda: name in found and found[name].over)
        return found[name]

    def unanswered(self, name: str = "") -> list[str]:
        """Returns which commands to an experiment, or to any, were not received once and answered."""
        history = self.history
        return [
            f"{sent.what}: received {history.received[source]} times, answer {history.answers.get(source)!r}"
            for source, sent in self.sent.items()
            if is_of(sent.stream, name) and (source not in history.answers or history.received[source] != 1)
        ]

    def forget(self, name: str) -> None:
        """Checks the answers to the commands of an experiment that has ended, and forgets it."""
        assert not self.unanswered(name), self.unanswered(name)
        for source in [source for source, sent in self.sent.items() if is_of(sent.stream, name)]:
            del self.sent[source], self.history.answers[source], self.history.received[source]
        self.history.forget(name)

    def assert_ended_once(self, name: str) -> None:
        """Checks that each part of an experiment and of its children has ended, and once."""
        repeated = {end: count for end, count in self._ends(name).items() if count != 1}
        assert not repeated, f"ended more than once: {repeated}"
        for stream in self.history.streams_of(name):
            for task in stream.tasks.values():
                assert task.state is TaskState.ENDED, f"{task.task_id} is {task.state.value}"
                for attempt in task.attempts:
                    end = (stream.stream_id, "attempt", task.task_id, str(attempt.number))
                    ends = self.history.ends[end]
                    # One that was stopped in the queue has ended without a worker, which would report it.
                    assert ends == 1 or not (ends or attempt.accepted_ms), f"{end} has ended {ends} times"

    def _ends(self, name: str) -> Counter[tuple[str, ...]]:
        streams = {stream.stream_id for stream in self.history.streams_of(name)}
        return Counter({end: count for end, count in self.history.ends.items() if end[0] in streams})


@dataclass
class SoakRounds(RoundsCluster):
    """What jobs of rounds need of a soak."""

    scene: Scene

    @property
    def store(self) -> str:
        """Where the artifacts of the stack are."""
        return self.scene.running.store

    async def send(self, command: Command, stream: str) -> None:
        """Publishes a command, which has to be accepted."""
        await self.scene.send(command, stream)


def rounds_of(scene: Scene) -> SoakRounds:
    """Returns what jobs of rounds run on."""
    return SoakRounds({}, scene.history, scene.client, scene.log, scene.topics, {}, scene.folder, scene)
