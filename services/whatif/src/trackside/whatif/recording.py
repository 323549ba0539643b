"""What a recorded search lets one ask "what if" about: when its trials ran, how long, what they said."""

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from trackside.contracts.message import Record
from trackside.contracts.searches import Direction, TrialStatus
from trackside.contracts.tasks import (
    AttemptEnded,
    MetricReported,
    TaskAccepted,
    TaskInterrupted,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.domain.outcome import Outcome
from trackside.domain.search import Search, Trial
from trackside.domain.stream import Stream, fold
from trackside.domain.task import TaskState
from trackside.replay.history.errors import NotRecordedError
from trackside.replay.history.history import History
from trackside.replay.history.moments import NOW, Moment

STOP_MS = 100
"""How long a stop takes where none was recorded: the report, the verdict, the word to the worker."""
Mark = tuple[int, int | None, float | None]
"""What a trial said: ms since it had its device, step and value; without a step it began again from there."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One trial as it was recorded; times are ms, `began_ms` since the start of the search.

    It held `devices` for `busy_ms` in all. `lead_ms` passed between its slot's opening and its suggestion,
    `wait_ms` until it had its device, `close_ms` between its end and the opening of the next slot.
    """

    number: int
    parameters: dict[str, Any]
    status: TrialStatus
    value: float | None
    devices: int
    began_ms: int
    busy_ms: int
    lead_ms: int
    wait_ms: int
    close_ms: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded search: its trials that ended, in the order of their numbers.

    `makespan_ms` is from its start to the end of its last trial, `places` the most devices that it held at
    once, `left_out` how many of its trials had not ended or never had a device.
    """

    stream_id: str
    direction: Direction
    seed: int
    assessor: dict[str, Any] | None
    concurrency: int
    traces: tuple[Trace, ...]
    makespan_ms: int
    places: int
    stop_ms: int
    stops_recorded: int
    left_out: int

    @property
    def handover_ms(self) -> int:
        """The shortest time from a suggestion to its device: what it takes where nobody waits."""
        return min(trace.wait_ms for trace in self.traces)


@dataclass(slots=True)
class _Holding:
    """How long a task has held its device so far, and what it said meanwhile."""

    first_ms: int = -1
    since_ms: int = -1
    busy_ms: int = 0
    ended_ms: int = 0
    said_ms: int = 0
    marks: list[Mark] = field(default_factory=list)

    def begin(self, now_ms: int) -> None:
        self.first_ms = now_ms if self.first_ms < 0 else self.first_ms
        self.since_ms = now_ms if self.since_ms < 0 else self.since_ms

    def end(self, now_ms: int) -> None:
        if self.since_ms >= 0:
            self.busy_ms += max(0, now_ms - self.since_ms)
        self.since_ms, self.ended_ms = -1, now_ms

    def say(self, now_ms: int, step: int | None, value: float | None) -> None:
        held = self.busy_ms + (max(0, now_ms - self.since_ms) if self.since_ms >= 0 else 0)
        self.marks.append((held, step, value))
        self.said_ms = now_ms


@dataclass(slots=True)
class _Watch:
    """Watches a stream being folded, for what its state doesn't keep: when each thing was said."""

    tasks: dict[str, _Holding] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)

    def see(self, stream: Stream, record: Record) -> None:
        """Takes in a record that had an effect."""
        message, now_ms = record.message, record.append_time_ms
        match message:
            case MetricReported() if message.kind == "PERIODICAL":
                self._of(message.task_id).say(now_ms, message.step, message.value)
            case TaskAccepted() if not stream.tasks[message.task_id].attempt.behind:
                self._of(message.task_id).begin(now_ms)
            case TaskStatusChanged() if message.status is TaskStatus.TRAINING:
                self._of(message.task_id).begin(now_ms)
            case TaskInterrupted():
                self._of(message.task_id).say(now_ms, None, None)
            case TaskReturned():
                self._of(message.task_id).end(now_ms)
            case AttemptEnded():
                held = self._of(message.task_id)
                held.end(now_ms)
                if stream.tasks[message.task_id].state is not TaskState.ENDED:
                    held.say(now_ms, None, None)
            case _:
                self.times[record.offset] = now_ms

    def _of(self, task_id: str) -> _Holding:
        return self.tasks.setdefault(task_id, _Holding())


async def recording_of(history: History, moment: Moment = NOW) -> Recording:
    """Reads a search up to a moment; raises NotRecordedError for a stream without one, or without trials."""
    stream, watch = Stream(history.stream_id, history.partition), _Watch()
    async with aclosing(history.taken()) as records:
        async for record, _ in records:
            if not moment.includes(record):
                break
            if fold(stream, record) is Outcome.APPLIED:
                watch.see(stream, record)
    if stream.search is None:
        raise NotRecordedError(f"{history.stream_id} has no search; what-if needs one")
    return _recording(stream.search, watch)


def _recording(search: Search, watch: _Watch) -> Recording:
    traces, stops = [], []
    for trial in search.trials:
        held = watch.tasks.get(search.task_of(trial.number))
        if held is None or trial.status is None or held.first_ms < 0:
            continue
        traces.append(_trace(search, trial, held, watch.times))
        if trial.status is TrialStatus.EARLY_STOPPED and held.marks:
            stops.append(held.ended_ms - held.said_ms)
    if not traces:
        raise NotRecordedError(f"no trial of {search.search_id} has ended yet; there is nothing to ask about")
    assessor = search.spec.assessor
    return Recording(
        stream_id=search.search_id,
        direction=search.spec.direction,
        seed=search.seed,
        assessor=None if assessor is None else assessor.model_dump(mode="json"),
        concurrency=search.spec.concurrency,
        traces=tuple(traces),
        makespan_ms=max(search.trials[t.number].ended_ms for t in traces) - search.started_ms,
        places=_most_at_once(traces),
        stop_ms=round(median(stops)) if stops else STOP_MS,
        stops_recorded=len(stops),
        left_out=len(search.trials) - len(traces),
    )


def _trace(search: Search, trial: Trial, held: _Holding, times: dict[int, int]) -> Trace:
    opened_ms = times.get(search.opened[trial.number], search.started_ms)
    assert trial.status is not None
    return Trace(
        number=trial.number,
        parameters=trial.parameters,
        status=trial.status,
        value=trial.value,
        devices=search.spec.resources.devices,
        began_ms=held.first_ms - search.started_ms,
        busy_ms=held.busy_ms,
        lead_ms=max(0, trial.suggested_ms - opened_ms),
        wait_ms=max(0, held.first_ms - trial.suggested_ms),
        close_ms=max(0, trial.ended_ms - held.ended_ms),
        marks=tuple(held.marks),
    )


def _most_at_once(traces: Iterable[Trace]) -> int:
    """Gives the most devices that trials held at one time; what ends in a ms makes room in that ms."""
    changes = []
    for trace in traces:
        changes += [
            (trace.began_ms, 1, trace.devices),
            (trace.began_ms + trace.busy_ms, 0, -trace.devices),
        ]
    held = most = 0
    for _, _, change in sorted(changes):
        held += change
        most = max(most, held)
    return max(most, max(trace.devices for trace in traces))
