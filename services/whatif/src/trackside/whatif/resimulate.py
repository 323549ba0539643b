"""Simulates a recorded search with another assessor, fleet or order of placement, in virtual time. Pure.

Frozen: every trial begins when it did, and the device of a stopped trial stays idle. Freed: trials take the
slots of the search in their recorded order, each as soon as a slot and devices are free. What a trial reports
and how long it takes is as recorded, up to where it is stopped.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trackside.aggregates.search.messages import TrialStatus
from trackside.dispatcher.advisor.search_assessor import SearchAssessor
from trackside.whatif.recording import Recording, TrialTrace

PlacementOrder = Literal["first-come", "newest-first", "shortest-first", "longest-first"]
PLACEMENT_ORDERS: tuple[PlacementOrder, ...] = (
    "first-come",
    "newest-first",
    "shortest-first",
    "longest-first",
)
_END, _STOP, _REPORT, _OPEN, _QUEUE, _PLACE, _BEGIN = range(7)
"""The order of events at one time: a trial that is over before its stop takes effect has finished."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fleet, an assessor and an order of placement; without an assessor trials end as they did in the log.

    `devices` is their number in the fleet; `freed`: slots of stopped trials are used by the next ones.
    """

    name: str
    devices: int
    concurrency: int
    freed: bool = True
    assessor: Mapping[str, Any] | None = None
    order: PlacementOrder = "first-come"


@dataclass(frozen=True, slots=True)
class SimulatedTrial:
    """The result of a trial: times are ms since the start; `stopped`: early, by the assessor."""

    trace: TrialTrace
    began_ms: int
    ended_ms: int
    stopped: bool
    value: float | None


@dataclass(frozen=True, slots=True)
class SimulatedSearch:
    """The result of a search: its trials in the order of their ends, device time in ms."""

    scenario: Scenario
    trials: tuple[SimulatedTrial, ...]
    makespan_ms: int
    device_ms: int


def resimulate(recording: Recording, scenario: Scenario) -> SimulatedSearch:
    """Simulates a recorded search under a scenario.

    Raises ValueError if a trial needs more devices than there are.
    """
    needed = max(trace.devices for trace in recording.traces)
    if scenario.freed and needed > scenario.devices:
        raise ValueError(f"a trial needs {needed} devices, {scenario.name} has {scenario.devices}")
    return _Resimulation(recording, scenario).run()


@dataclass(slots=True)
class _Resimulation:
    """The events to come, and the trials that wait for a device or have one, by index in the recording."""

    recording: Recording
    scenario: Scenario
    assessor: SearchAssessor | None = None
    events: list[tuple[int, int, int, int]] = field(default_factory=list)
    waiting: list[tuple[int, int]] = field(default_factory=list)
    running: dict[int, int] = field(default_factory=dict)
    stopping: set[int] = field(default_factory=set)
    indexes: dict[int, int] = field(default_factory=dict)
    trials: list[SimulatedTrial] = field(default_factory=list)
    opened: int = 0
    free: int = 0
    device_ms: int = 0

    def run(self) -> SimulatedSearch:
        """Handles event after event until all trials have ended."""
        recording, scenario, events = self.recording, self.scenario, self.events
        if scenario.assessor is not None:
            self.assessor = SearchAssessor(scenario.assessor, recording.direction, recording.seed)
        self.indexes = {trace.number: index for index, trace in enumerate(recording.traces)}
        self.free = scenario.devices
        if scenario.freed:
            for _ in range(scenario.concurrency):
                self._open(0)
        else:
            for index, trace in enumerate(recording.traces):
                heapq.heappush(events, (trace.began_ms, _BEGIN, index, 0))
        while events:
            now_ms, kind, index, number = heapq.heappop(events)
            match kind:
                case 0 | 1:
                    self._end(now_ms, index, stopped=kind == _STOP)
                case 2:
                    self._report(now_ms, index, number)
                case 3:
                    self._open(now_ms)
                case 4:
                    heapq.heappush(self.waiting, (self._queue_key(index), index))
                    heapq.heappush(events, (now_ms, _PLACE, 0, 0))
                case 5:
                    self._place(now_ms)
                case _:
                    self._begin(now_ms, index)
        return SimulatedSearch(
            scenario, tuple(self.trials), max(trial.ended_ms for trial in self.trials), self.device_ms
        )

    def _open(self, now_ms: int) -> None:
        """Assigns a slot to the next trial of the recording, once it is suggested."""
        if self.opened < len(self.recording.traces):
            suggestion_delay_ms = self.recording.traces[self.opened].suggestion_delay_ms
            heapq.heappush(self.events, (now_ms + suggestion_delay_ms, _QUEUE, self.opened, 0))
            self.opened += 1

    def _queue_key(self, index: int) -> int:
        match self.scenario.order:
            case "newest-first":
                return -index
            case "shortest-first":
                return self.recording.traces[index].busy_ms
            case "longest-first":
                return -self.recording.traces[index].busy_ms
            case _:
                return index

    def _place(self, now_ms: int) -> None:
        """Assigns free devices in the order of the queue; a trial that doesn't fit blocks those after it."""
        while self.waiting and self.recording.traces[self.waiting[0][1]].devices <= self.free:
            index = heapq.heappop(self.waiting)[1]
            self.free -= self.recording.traces[index].devices
            heapq.heappush(self.events, (now_ms + self.recording.min_placement_delay_ms, _BEGIN, index, 0))

    def _begin(self, now_ms: int, index: int) -> None:
        trace = self.recording.traces[index]
        self.running[index] = now_ms
        heapq.heappush(self.events, (now_ms + trace.busy_ms, _END, index, 0))
        if self.assessor is not None and trace.points:
            heapq.heappush(self.events, (now_ms + trace.points[0][0], _REPORT, index, 0))

    def _report(self, now_ms: int, index: int, number: int) -> None:
        """Passes a report to the assessor, and stops the trials that it rejects."""
        if index not in self.running or self.assessor is None:
            return
        trace = self.recording.traces[index]
        _, step, value = trace.points[number]
        for trial, _ in self.assessor.take([(trace.number, step, value)]):
            other = self.indexes[trial]
            if other in self.running and other not in self.stopping:
                self.stopping.add(other)
                heapq.heappush(self.events, (now_ms + self.recording.stop_delay_ms, _STOP, other, 0))
        if number + 1 < len(trace.points):
            after_ms = max(now_ms, self.running[index] + trace.points[number + 1][0])
            heapq.heappush(self.events, (after_ms, _REPORT, index, number + 1))

    def _end(self, now_ms: int, index: int, *, stopped: bool) -> None:
        if index not in self.running:
            return
        trace, began_ms = self.recording.traces[index], self.running.pop(index)
        status, value = trace.status, trace.value
        if stopped:
            reported = [
                v for after, step, v in trace.points if isinstance(step, int) and began_ms + after <= now_ms
            ]
            status, value = TrialStatus.EARLY_STOPPED, reported[-1] if reported else None
        if self.assessor is not None:
            self.assessor.take([(trace.number, status.value, value)])
        self.trials.append(SimulatedTrial(trace, began_ms, now_ms, stopped, value))
        self.device_ms += (now_ms - began_ms) * trace.devices
        if self.scenario.freed:
            self.free += trace.devices
            heapq.heappush(self.events, (now_ms + trace.release_delay_ms, _OPEN, index, 0))
            heapq.heappush(self.events, (now_ms, _PLACE, 0, 0))
