"""Reads from a recorded run what a what-if needs: how long its tasks took, and what they found."""

from contextlib import aclosing
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run.messages import RunStarted
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.run.step_messages import GateDecided, GateOpened
from trackside.aggregates.run.steps.critical_path import CriticalStep, critical_path
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.streams.children import ChildEnded, ChildRequested
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnded,
    TaskAccepted,
    TaskReturned,
    TaskSubmitted,
)
from trackside.domain.folding.fold import fold
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream, forget_settled
from trackside.replay.history.errors import NotRecordedError
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.recorded_stream import RecordedStream

PLACEMENT_MS = 10
"""How long it takes from a free device to the begin of a task where none was recorded."""
ItemKey = tuple[str, int]
"""A task or child of a step: the step's name and its index."""


@dataclass(slots=True)
class ItemTrace:
    """A task, a child or a gate as it was recorded last; times are ms.

    `wait_ms` is from its submission to its device, `busy_ms` how long it held `devices`, in all attempts.
    `end` is an attempt's end, a child's status or a gate's decision, empty if it had not ended.
    """

    submitted_ms: int
    devices: int = 0
    wait_ms: int = -1
    busy_ms: int = 0
    since_ms: int = -1
    end: str = ""
    result: Any = None
    artifacts: dict[str, ArtifactSaved] = field(default_factory=dict)

    def begin(self, now_ms: int) -> None:
        """Notes that it has its devices."""
        self.wait_ms = now_ms - self.submitted_ms if self.wait_ms < 0 else self.wait_ms
        self.since_ms = now_ms

    def pause(self, now_ms: int) -> None:
        """Notes that it no longer has its devices."""
        if self.since_ms >= 0:
            self.busy_ms += max(0, now_ms - self.since_ms)
        self.since_ms = -1


@dataclass(frozen=True, slots=True)
class RunRecording:
    """A recorded run, or a definition with durations: `traces` are of its newest tasks, children and gates.

    `started` has the definition with what commands have patched. `devices` is the most that were held at
    once, `placement_ms` the shortest time from a submission to a device. `makespan_ms` is None, and `path`
    empty, for what was never run.
    """

    stream_id: str
    started: RunStarted
    traces: dict[ItemKey, ItemTrace]
    status: str = ""
    makespan_ms: int | None = None
    devices: int = 1
    placement_ms: int = PLACEMENT_MS
    path: tuple[CriticalStep, ...] = ()

    def trace_of(self, step: str, index: int) -> tuple[ItemTrace | None, bool]:
        """Returns what is known of an item, and whether it was recorded itself.

        Else it is taken for the median of the step's other items; None if nothing of the step was recorded.
        """
        own = self.traces.get((step, index))
        if own is not None and own.end:
            return own, True
        others = sorted(
            (trace for (name, _), trace in self.traces.items() if name == step and trace.end),
            key=lambda trace: trace.busy_ms,
        )
        return (others[len(others) // 2], False) if others else (None, False)


@dataclass(slots=True)
class _Collector:
    """Collects from a run that is folded what its state doesn't keep."""

    traces: dict[ItemKey, ItemTrace] = field(default_factory=dict)
    held: int = 0
    most_held: int = 0

    def observe(self, run: Run, message: Message, now_ms: int) -> None:
        """Adds an event that was applied."""
        match message:
            case TaskSubmitted():
                self._new(run, message.task_id, ItemTrace(now_ms, message.needs.resources.devices))
            case ChildRequested():
                self._new(run, message.child_id, ItemTrace(now_ms, wait_ms=0, since_ms=now_ms))
            case GateOpened():
                self.traces[message.step, 0] = ItemTrace(now_ms, wait_ms=0, since_ms=now_ms)
            case TaskAccepted() | AttemptAdopted():
                self._begin(self._of(run, message.task_id), now_ms)
            case TaskReturned():
                self._end(self._of(run, message.task_id), now_ms, "", None)
            case ArtifactSaved() if (trace := self._of(run, message.task_id)) is not None:
                trace.artifacts[message.name] = message
            case AttemptEnded():
                self._end(self._of(run, message.task_id), now_ms, message.end.value, message.result)
            case ChildEnded():
                self._end(self._of(run, message.child_id), now_ms, message.status, message.result)
            case GateDecided():
                self._end(self.traces.get((message.step, 0)), now_ms, message.decision, message.inputs)

    def _new(self, run: Run, item_id: str, trace: ItemTrace) -> None:
        found = run.item_of(item_id)
        if found is not None:
            self.traces[found[0], found[1]] = trace

    def _of(self, run: Run, item_id: str) -> ItemTrace | None:
        found = run.item_of(item_id)
        return None if found is None else self.traces.get((found[0], found[1]))

    def _begin(self, trace: ItemTrace | None, now_ms: int) -> None:
        if trace is not None and trace.since_ms < 0:
            trace.begin(now_ms)
            self.held += trace.devices
            self.most_held = max(self.most_held, self.held)

    def _end(self, trace: ItemTrace | None, now_ms: int, end: str, result: Any) -> None:
        if trace is not None:
            if trace.since_ms >= 0:
                self.held -= trace.devices
            trace.pause(now_ms)
            trace.end, trace.result = end, result


async def read_run(recorded: RecordedStream, point: PointInTime = NOW) -> RunRecording:
    """Reads a run up to a moment; raises NotRecordedError for a stream without one."""
    stream, collector = Stream(recorded.stream_id, recorded.partition), _Collector()
    started: RunStarted | None = None
    last: Record | None = None

    def observe(record: Record, outcome: Outcome) -> None:
        nonlocal started, last
        if outcome is Outcome.APPLIED and (run := run_of(stream)) is not None:
            started = record.message if isinstance(record.message, RunStarted) else started
            collector.observe(run, record.message, record.append_time_ms)
            forget_settled(stream)
            last = record

    async with aclosing(recorded.records()) as records:
        async for record, entry in records:
            if not point.includes(record):
                break
            observe(record, fold(stream, record, AGGREGATES))
            async for again, outcome, _ in recorded.read_again(stream, entry.offset + 1):
                observe(again, outcome)
    run = run_of(stream)
    if run is None or started is None or last is None:
        raise NotRecordedError(f"{recorded.stream_id} has no run at that moment; what-if needs one")
    return _recording(run, started, collector, last.append_time_ms)


def _recording(run: Run, started: RunStarted, collector: _Collector, last_ms: int) -> RunRecording:
    waits = [trace.wait_ms for trace in collector.traces.values() if trace.devices and trace.wait_ms >= 0]
    return RunRecording(
        stream_id=run.run_id,
        started=started.model_copy(update={"pipeline": run.spec}),
        traces=collector.traces,
        status=run.status.value,
        makespan_ms=(run.ended_ms or last_ms) - run.started_ms,
        devices=max(1, collector.most_held, *(trace.devices for trace in collector.traces.values())),
        placement_ms=min(waits, default=PLACEMENT_MS),
        path=tuple(critical_path(run)),
    )


def median_duration_ms(recording: RunRecording, step: str) -> int | None:
    """Returns the median time for which the items of a step were busy; None if none has ended."""
    found = [trace.busy_ms for (name, _), trace in recording.traces.items() if name == step and trace.end]
    return round(median(found)) if found else None
