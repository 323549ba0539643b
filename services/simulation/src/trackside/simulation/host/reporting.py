"""What a simulated worker appends to the log about its placements."""

import asyncio
from random import Random
from typing import Any

from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.artifacts import STORED, ArtifactSaved
from trackside.contracts.tasks.summaries import MetricPointsReported, Series
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, MetricReported
from trackside.eventlog.clock import now_ms
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.simulation.host.worker_state import (
    PlacementKey,
    SimulatedOutbox,
    SimulatedPlacement,
    SpooledArtifact,
    Workload,
)
from trackside.worker.reporting.reporter import EventNumbers


class SimulatedReporter:
    """Appends the events of one incarnation; its own are numbered in the order in which they happen."""

    def __init__(
        self,
        incarnation: str,
        outbox: SimulatedOutbox,
        writer: RecordWriter,
        topics: Topics,
        workload: Workload,
    ) -> None:
        self.numbers = EventNumbers()
        self._values: dict[PlacementKey, set[str]] = {}
        self._incarnation = incarnation
        self._outbox = outbox
        self._writer = writer
        self._topics = topics
        self._workload = workload

    def event(
        self,
        placement: SimulatedPlacement,
        event: Event,
        then: SimulatedPlacement | asyncio.Event | None = None,
        number: int | None = None,
        cause: str = "",
    ) -> int:
        """Appends an event about a placement; returns its partition. `then` is set once it is in the log."""
        topic = self._topics.events
        partition = partition_of(placement.stream, topic.partitions)
        if isinstance(event, MetricReported):
            self._values.setdefault(placement.key, set()).add(event.model_dump_json())
        elif isinstance(event, AttemptEnded) and number:
            event = event.model_copy(update={"reports": len(self._values.pop(placement.key, ()))})
        if number is None:
            own = getattr(event, "incarnation", "") == self._incarnation
            number = self.numbers.draw() if own else 0
        record = self._writer.single(placement.stream, event, cause=cause or placement.cause, sequence=number)
        self._outbox.send(topic, partition, self._writer.signed(topic, record), then)
        return partition

    def value(self, placement: SimulatedPlacement, kind: Any, step: int, value: float) -> None:
        """Reports a value, and as a metric point if the workload has these."""
        self.event(placement, MetricReported(**placement.token, kind=kind, step=step, value=value))
        if self._workload.points and kind == "PERIODICAL":
            task_id, topic = placement.key[0], self._topics.metrics
            series = Series(tag="objective", steps=[step], times_ms=[now_ms()], values=[value])
            points = MetricPointsReported(
                stream=placement.stream, task_id=task_id, attempt=placement.key[1], series=[series]
            )
            record = self._writer.single(placement.stream, points, cause=placement.cause)
            self._outbox.send(topic, partition_of(task_id, topic.partitions), record)

    def values(self, placement: SimulatedPlacement, until: int | None = None) -> None:
        """Reports again the values that a placement has on disk, or those of steps before `until`."""
        first = placement.first_step
        kept = placement.values if until is None else placement.values[: until - first]
        for step, value in enumerate(kept, first):
            self.value(placement, "PERIODICAL", step, value)
        if placement.ending is AttemptEnd.FINISHED and placement.final is not None:
            self.value(placement, "FINAL", first + len(placement.values), placement.final)

    def saved(self, placement: SimulatedPlacement, artifact: SpooledArtifact) -> None:
        """Reports that the store has an artifact."""
        self.event(
            placement,
            ArtifactSaved(
                **placement.token,
                incarnation=placement.incarnation,
                number=artifact.number,
                name=artifact.name,
                version=artifact.version,
                kind=artifact.kind,
                uri=STORED + artifact.digest,
                sha256=artifact.digest,
                size_bytes=len(artifact.content),
                step=artifact.step,
            ),
        )


def drawn(rng: Random, between: tuple[float, float]) -> float:
    """Draws a number between two."""
    return between[0] + rng.random() * (between[1] - between[0])
