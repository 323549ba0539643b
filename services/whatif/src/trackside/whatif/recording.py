"""Reads from a recorded search what a what-if needs: when its trials ran and what they reported."""

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import Direction, TrialStatus
from trackside.aggregates.search.state import RESUMED, Search, Trial, search_of
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.artifacts import TaskResumed
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnded,
    MetricReported,
    TaskAccepted,
    TaskInterrupted,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.domain.folding.fold import fold
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream, forget_settled
from trackside.domain.tasks.task import TaskState
from trackside.replay.derive.rerun import refuse_promotion
from trackside.replay.history.errors import NotRecordedError
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import RecordedStream

STOP_DELAY_MS = 100
"""How long a stop takes where none was recorded: from the report by way of the assessor to the worker."""
TracePoint = tuple[int, int | str | None, float | None]
"""A report: ms since the trial got its device, step and value. No step: the trial began again from here.
RESUMED in place of the step: its reports below the step that is in place of the value count again.
"""


@dataclass(frozen=True, slots=True)
class TrialTrace:
    """One trial as it was recorded; times are ms, `began_ms` since the start of the search.

    It held `devices` for `busy_ms` in all. `suggestion_delay_ms` is from the opening of its slot to its
    suggestion, `placement_delay_ms` from there to its device, `release_delay_ms` from the end of its last
    attempt to the opening of the next slot.
    """

    number: int
    parameters: dict[str, Any]
    status: TrialStatus
    value: float | None
    devices: int
    began_ms: int
    busy_ms: int
    suggestion_delay_ms: int
    placement_delay_ms: int
    release_delay_ms: int
    points: tuple[TracePoint, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded search: its trials that ended, in the order of their numbers.

    `makespan_ms` is from its start to the end of its last trial. `devices` is the most that it held at once,
    `omitted_trials` the number of its trials that had not ended or never had a device.
    """

    stream_id: str
    direction: Direction
    seed: int
    assessor: dict[str, Any] | None
    concurrency: int
    traces: tuple[TrialTrace, ...]
    makespan_ms: int
    devices: int
    stop_delay_ms: int
    stops_recorded: int
    omitted_trials: int

    @property
    def min_placement_delay_ms(self) -> int:
        """The shortest time from a suggestion to its device, ms: what it takes without a queue."""
        return min(trace.placement_delay_ms for trace in self.traces)


@dataclass(slots=True)
class _DeviceTime:
    """How long a task has held its device so far, and what it reported meanwhile."""

    first_ms: int = -1
    since_ms: int = -1
    busy_ms: int = 0
    ended_ms: int = 0
    reported_ms: int = 0
    points: list[TracePoint] = field(default_factory=list)

    def begin(self, now_ms: int) -> None:
        self.first_ms = now_ms if self.first_ms < 0 else self.first_ms
        self.since_ms = now_ms if self.since_ms < 0 else self.since_ms

    def end(self, now_ms: int) -> None:
        if self.since_ms >= 0:
            self.busy_ms += max(0, now_ms - self.since_ms)
        self.since_ms, self.ended_ms = -1, now_ms

    def report(self, now_ms: int, step: int | str | None, value: float | None) -> None:
        time = self.busy_ms + (max(0, now_ms - self.since_ms) if self.since_ms >= 0 else 0)
        self.points.append((time, step, value))
        self.reported_ms = now_ms


@dataclass(slots=True)
class _TimingCollector:
    """Collects from a stream that is folded what its state doesn't keep: when each event was written."""

    tasks: dict[str, _DeviceTime] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)

    def observe(self, stream: Stream, record: Record) -> None:
        """Adds a record that was applied."""
        message, now_ms = record.message, record.append_time_ms
        match message:
            case MetricReported() if message.kind == "PERIODICAL":
                self._of(message.task_id).report(now_ms, message.step, message.value)
            case TaskAccepted() | AttemptAdopted() if not stream.tasks[message.task_id].attempt.behind:
                self._of(message.task_id).begin(now_ms)
            case TaskStatusChanged() if message.status is TaskStatus.TRAINING:
                self._of(message.task_id).begin(now_ms)
            case TaskInterrupted():
                self._of(message.task_id).report(now_ms, None, None)
            case TaskResumed() if stream.tasks[message.task_id].reports:
                self._of(message.task_id).report(now_ms, RESUMED, message.step)
            case TaskReturned():
                self._of(message.task_id).end(now_ms)
            case AttemptEnded():
                time = self._of(message.task_id)
                time.end(now_ms)
                if stream.tasks[message.task_id].state is not TaskState.ENDED:
                    time.report(now_ms, None, None)
            case _:
                self.times[record.offset] = now_ms

    def _of(self, task_id: str) -> _DeviceTime:
        return self.tasks.setdefault(task_id, _DeviceTime())


async def read_recording(recorded: RecordedStream, point: PointInTime = NOW) -> Recording:
    """Reads a search up to a moment.

    Raises NotRecordedError for a stream without one, or without trials, and BadScenarioError for one whose
    trials continue others.
    """
    stream, timings = Stream(recorded.stream_id, recorded.partition), _TimingCollector()
    async with aclosing(recorded.records()) as records:
        async for record, entry in records:
            if not point.includes(record):
                break
            if fold(stream, record, AGGREGATES) is Outcome.APPLIED:
                timings.observe(stream, record)
                forget_settled(stream)
            async for again, outcome, _ in recorded.read_again(stream, entry.offset + 1):
                if outcome is Outcome.APPLIED:
                    timings.observe(stream, again)
                    forget_settled(stream)
    search = search_of(stream)
    if search is None:
        raise NotRecordedError(f"{recorded.stream_id} has no search; what-if needs one")
    refuse_promotion(
        search,
        recorded.stream_id,
        "which trials there are, and how long, follows from what was promoted, so the recording doesn't say "
        "what would be with another assessor or other workers; run the search with these instead",
    )
    return _recording(search, timings)


def _recording(search: Search, timings: _TimingCollector) -> Recording:
    traces, stops = [], []
    for trial in search.trials:
        time = timings.tasks.get(search.task_of(trial.number))
        if time is None or trial.status is None or time.first_ms < 0:
            continue
        traces.append(_trace(search, trial, time, timings.times))
        if trial.status is TrialStatus.EARLY_STOPPED and time.points:
            stops.append(time.ended_ms - time.reported_ms)
    if not traces:
        raise NotRecordedError(f"no trial of {search.search_id} has ended yet; what-if needs one that has")
    assessor = search.spec.assessor
    return Recording(
        stream_id=search.search_id,
        direction=search.spec.direction,
        seed=search.seed,
        assessor=None if assessor is None else assessor.model_dump(mode="json"),
        concurrency=search.spec.concurrency,
        traces=tuple(traces),
        makespan_ms=max(search.trials[t.number].ended_ms for t in traces) - search.started_ms,
        devices=_most_at_once(traces),
        stop_delay_ms=round(median(stops)) if stops else STOP_DELAY_MS,
        stops_recorded=len(stops),
        omitted_trials=len(search.trials) - len(traces),
    )


def _trace(search: Search, trial: Trial, time: _DeviceTime, times: dict[int, int]) -> TrialTrace:
    opened_ms = times.get(search.opened[trial.number], search.started_ms)
    assert trial.status is not None
    return TrialTrace(
        number=trial.number,
        parameters=trial.parameters,
        status=trial.status,
        value=trial.value,
        devices=search.spec.resources.devices,
        began_ms=time.first_ms - search.started_ms,
        busy_ms=time.busy_ms,
        suggestion_delay_ms=max(0, trial.suggested_ms - opened_ms),
        placement_delay_ms=max(0, time.first_ms - trial.suggested_ms),
        release_delay_ms=max(0, trial.ended_ms - time.ended_ms),
        points=tuple(time.points),
    )


def _most_at_once(traces: Iterable[TrialTrace]) -> int:
    """Returns the most devices that trials held at one time; a device that is freed in a ms is free in it."""
    changes = []
    for trace in traces:
        changes += [
            (trace.began_ms, 1, trace.devices),
            (trace.began_ms + trace.busy_ms, 0, -trace.devices),
        ]
    time = most = 0
    for _, _, change in sorted(changes):
        time += change
        most = max(most, time)
    return max(most, max(trace.devices for trace in traces))
