"""A recorded search run again in virtual time: under another assessor, fleet or order. Pure.

Frozen, every trial begins when it did, and what a stopped one leaves idle stays idle. With freed slots the
trials go through the slots of the search in their recorded order, each as soon as a slot and devices are
free. What a trial reports, and how long it takes, is as recorded, up to where it is stopped.
"""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trackside.contracts.searches import TrialStatus
from trackside.dispatcher.advisor.search_assessor import SearchAssessor
from trackside.whatif.recording import Recording, Trace

Policy = Literal["first-come", "newest-first", "shortest-first", "longest-first"]
POLICIES: tuple[Policy, ...] = ("first-come", "newest-first", "shortest-first", "longest-first")
_END, _STOP, _SAY, _OPEN, _QUEUE, _PLACE, _BEGIN = range(7)
"""What happens at one moment happens in this order: a trial that is over before its stop has finished."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is asked: without an assessor only what the record says ends a trial; `places` count devices.

    `freed` says that freed slots are used.
    """

    name: str
    places: int
    concurrency: int
    freed: bool = True
    assessor: Mapping[str, Any] | None = None
    policy: Policy = "first-come"


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a trial: its times are ms since the start; `stopped` is early, by the assessor."""

    trace: Trace
    began_ms: int
    ended_ms: int
    stopped: bool
    value: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the search: its trials in the order of their ends, device time in ms."""

    scenario: Scenario
    fates: tuple[Fate, ...]
    makespan_ms: int
    device_ms: int


def run(recording: Recording, scenario: Scenario) -> Outcome:
    """Runs a recorded search under a scenario.

    Raises ValueError if a trial needs more devices than there are.
    """
    needed = max(trace.devices for trace in recording.traces)
    if scenario.freed and needed > scenario.places:
        raise ValueError(f"a trial needs {needed} devices, {scenario.name} has {scenario.places}")
    return _Run(recording, scenario).run()


@dataclass(slots=True)
class _Run:
    """The moments to come, who waits for a device, who has one; trials by their place in the recording."""

    recording: Recording
    scenario: Scenario
    assessment: SearchAssessor | None = None
    events: list[tuple[int, int, int, int]] = field(default_factory=list)
    waiting: list[tuple[int, int]] = field(default_factory=list)
    running: dict[int, int] = field(default_factory=dict)
    stopping: set[int] = field(default_factory=set)
    places: dict[int, int] = field(default_factory=dict)
    fates: list[Fate] = field(default_factory=list)
    opened: int = 0
    free: int = 0
    device_ms: int = 0

    def run(self) -> Outcome:
        """Goes from moment to moment until all trials have ended."""
        recording, scenario, events = self.recording, self.scenario, self.events
        if scenario.assessor is not None:
            self.assessment = SearchAssessor(scenario.assessor, recording.direction, recording.seed)
        self.places = {trace.number: at for at, trace in enumerate(recording.traces)}
        self.free = scenario.places
        if scenario.freed:
            for _ in range(scenario.concurrency):
                self._open(0)
        else:
            for at, trace in enumerate(recording.traces):
                heapq.heappush(events, (trace.began_ms, _BEGIN, at, 0))
        while events:
            now_ms, kind, at, number = heapq.heappop(events)
            match kind:
                case 0 | 1:
                    self._end(now_ms, at, stopped=kind == _STOP)
                case 2:
                    self._say(now_ms, at, number)
                case 3:
                    self._open(now_ms)
                case 4:
                    heapq.heappush(self.waiting, (self._turn(at), at))
                    heapq.heappush(events, (now_ms, _PLACE, 0, 0))
                case 5:
                    self._place(now_ms)
                case _:
                    self._begin(now_ms, at)
        return Outcome(scenario, tuple(self.fates), max(f.ended_ms for f in self.fates), self.device_ms)

    def _open(self, now_ms: int) -> None:
        """Gives a slot to the next trial of the record, once it is suggested."""
        if self.opened < len(self.recording.traces):
            lead_ms = self.recording.traces[self.opened].lead_ms
            heapq.heappush(self.events, (now_ms + lead_ms, _QUEUE, self.opened, 0))
            self.opened += 1

    def _turn(self, at: int) -> int:
        match self.scenario.policy:
            case "newest-first":
                return -at
            case "shortest-first":
                return self.recording.traces[at].busy_ms
            case "longest-first":
                return -self.recording.traces[at].busy_ms
            case _:
                return at

    def _place(self, now_ms: int) -> None:
        """Gives free devices to those who wait, in their order; who doesn't fit holds up the rest."""
        while self.waiting and self.recording.traces[self.waiting[0][1]].devices <= self.free:
            at = heapq.heappop(self.waiting)[1]
            self.free -= self.recording.traces[at].devices
            heapq.heappush(self.events, (now_ms + self.recording.handover_ms, _BEGIN, at, 0))

    def _begin(self, now_ms: int, at: int) -> None:
        trace = self.recording.traces[at]
        self.running[at] = now_ms
        heapq.heappush(self.events, (now_ms + trace.busy_ms, _END, at, 0))
        if self.assessment is not None and trace.marks:
            heapq.heappush(self.events, (now_ms + trace.marks[0][0], _SAY, at, 0))

    def _say(self, now_ms: int, at: int, number: int) -> None:
        """Lets the assessor hear a report, and stops whom it finds hopeless."""
        if at not in self.running or self.assessment is None:
            return
        trace = self.recording.traces[at]
        _, step, value = trace.marks[number]
        for trial, _ in self.assessment.take([(trace.number, step, value)]):
            other = self.places[trial]
            if other in self.running and other not in self.stopping:
                self.stopping.add(other)
                heapq.heappush(self.events, (now_ms + self.recording.stop_ms, _STOP, other, 0))
        if number + 1 < len(trace.marks):
            after_ms = max(now_ms, self.running[at] + trace.marks[number + 1][0])
            heapq.heappush(self.events, (after_ms, _SAY, at, number + 1))

    def _end(self, now_ms: int, at: int, *, stopped: bool) -> None:
        if at not in self.running:
            return
        trace, began_ms = self.recording.traces[at], self.running.pop(at)
        status, value = trace.status, trace.value
        if stopped:
            said = [v for after, step, v in trace.marks if step is not None and began_ms + after <= now_ms]
            status, value = TrialStatus.EARLY_STOPPED, said[-1] if said else None
        if self.assessment is not None:
            self.assessment.take([(trace.number, status.value, value)])
        self.fates.append(Fate(trace, began_ms, now_ms, stopped, value))
        self.device_ms += (now_ms - began_ms) * trace.devices
        if self.scenario.freed:
            self.free += trace.devices
            heapq.heappush(self.events, (now_ms + trace.close_ms, _OPEN, at, 0))
            heapq.heappush(self.events, (now_ms, _PLACE, 0, 0))
