"""Simulates a recorded run with another fleet, limit, order or policy, in virtual time. Pure.

The run is folded and decided by the code of the dispatcher: only the durations of its tasks and children, and
what they found, come from the recording.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run.messages import RunStarted, StartPipelineRun
from trackside.aggregates.run.state import Run, run_of
from trackside.aggregates.run.step_messages import GateDecided, GateOpened
from trackside.aggregates.run.steps.critical_path import CriticalStep, critical_path
from trackside.contracts.envelope.message import Envelope, Event, Record
from trackside.contracts.streams.children import ChildEnded, ChildRequested, ChildStopRequested
from trackside.contracts.streams.commands import RULES, CommandAccepted, CommandReceived, Source
from trackside.contracts.tasks.artifacts import ArtifactSaved
from trackside.contracts.tasks.resources import RetryPolicy
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskStopRequested,
    TaskSubmitted,
)
from trackside.domain.folding.fold import fold
from trackside.domain.folding.lookup import NO_LOOKUP
from trackside.domain.outcome import Outcome
from trackside.domain.pipelines.definition import EndAction, OnEnd, PipelineSpec
from trackside.domain.streams.stream import Stream, forget_settled
from trackside.domain.tasks.task import TaskState
from trackside.replay.history.errors import BadScenarioError
from trackside.whatif.resimulate import PlacementOrder
from trackside.whatif.run_recording import ItemTrace, RunRecording

BEGAN_MS = 1_000_000_000_000
"""When a simulated run starts, ms since 1970: only differences count."""
COMMAND_ID = "simulated"
_NEVER = {"times": 0}
_NO_RETRY = RetryPolicy.model_validate(
    dict.fromkeys(("lost", "failed", "oom_host", "oom_device", "timed_out_run"), _NEVER)
)
_END, _BEGIN = range(2)
"""The order of events at one time: devices are free before the next task begins."""


@dataclass(frozen=True, slots=True)
class RunScenario:
    """A fleet of so many devices, an order of its queue, and what is changed of the definition."""

    name: str
    devices: int
    order: PlacementOrder = "first-come"
    concurrency: int | None = None
    on_end: EndAction | None = None


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """The result of a run: its status, how long it took, and for how long its tasks held devices, in ms.

    `path` is its critical path. `guessed` are the steps with items that were not recorded: they were taken
    for the median of their step; `unknown` those of which nothing was, which took no time.
    """

    scenario: RunScenario
    status: str
    makespan_ms: int
    device_ms: int
    path: tuple[CriticalStep, ...]
    states: dict[str, str]
    guessed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def device_use(self) -> float:
        """Which part of the devices' time its tasks had, from 0 to 1."""
        whole = self.makespan_ms * self.scenario.devices
        return self.device_ms / whole if whole else 0.0

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON form."""
        return {
            "scenario": self.scenario.name,
            "devices": self.scenario.devices,
            "policy": self.scenario.order,
            "concurrency": self.scenario.concurrency,
            "on_end": self.scenario.on_end,
            "status": self.status,
            "makespan_s": self.makespan_ms / 1000,
            "device_s": self.device_ms / 1000,
            "device_use": self.device_use,
            "critical_path": [{"step": each.step, "duration_s": each.duration_s} for each in self.path],
            "steps": self.states,
            "guessed": list(self.guessed),
            "unknown": list(self.unknown),
        }


def simulate_run(recording: RunRecording, scenario: RunScenario) -> SimulatedRun:
    """Simulates a recorded run under a scenario; raises BadScenarioError if a task needs more devices."""
    return _RunSimulation(recording, scenario).run()


@dataclass(slots=True)
class _RunSimulation:
    """The run as folded so far, the tasks that wait for devices or have them, and the ends to come."""

    recording: RunRecording
    scenario: RunScenario
    stream: Stream = field(init=False)
    now_ms: int = BEGAN_MS
    offset: int = 0
    free: int = 0
    events: list[tuple[int, int, int, str]] = field(default_factory=list)
    waiting: list[tuple[int, int, str]] = field(default_factory=list)
    devices: dict[str, int] = field(default_factory=dict)
    began: dict[str, int] = field(default_factory=dict)
    device_ms: int = 0
    guessed: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)

    def run(self) -> SimulatedRun:
        """Lets time pass from event to event until the run is over, or nothing comes any more."""
        self.stream = Stream(self.recording.stream_id, 0)
        self.free = self.scenario.devices
        self._append(_beginning(self.recording.started, self.scenario))
        self._settle()
        while not self.root.over and self._pass_time():
            self._settle()
        root = self.root
        return SimulatedRun(
            self.scenario,
            root.status.value,
            (root.ended_ms or self.now_ms) - BEGAN_MS,
            self.device_ms,
            tuple(critical_path(root)),
            {name: step.state.value for name, step in root.steps.items()},
            tuple(self.guessed),
            tuple(self.unknown),
        )

    @property
    def root(self) -> Run:
        found = run_of(self.stream)
        assert found is not None
        return found

    def _pass_time(self) -> bool:
        """Goes to the next end, begin or time limit; returns False if there is none."""
        aggregate = AGGREGATES.of(self.stream)
        assert aggregate is not None
        due_ms = aggregate.next_due_ms(self.stream)
        if due_ms is not None and (not self.events or due_ms < self.events[0][0]):
            self.now_ms = due_ms
            for proposal in aggregate.due(self.stream, due_ms):
                self._append(proposal.events)
            return True
        if not self.events:
            return False
        self.now_ms, kind, _, item_id = heapq.heappop(self.events)
        if kind == _BEGIN:
            self._begin(item_id)
        else:
            self._end(item_id, self._trace(item_id).end)
        return True

    def _settle(self) -> None:
        """Lets the dispatcher decide until nothing is lacking, and gives free devices to waiting tasks."""
        aggregate = AGGREGATES.of(self.stream)
        assert aggregate is not None
        while (proposal := next(iter(aggregate.lacking(self.stream, NO_LOOKUP)), None)) is not None:
            self._append(proposal.events)
        forget_settled(self.stream)
        while self.waiting and self.devices[self.waiting[0][2]] <= self.free:
            item_id = heapq.heappop(self.waiting)[2]
            self.free -= self.devices[item_id]
            self._later(self.recording.placement_ms, _BEGIN, item_id)

    def _append(self, events: Iterable[Event]) -> None:
        """Writes events of the dispatcher, and notes what follows from them."""
        for event in events:
            outcome = self._fold(event, "dispatcher")
            assert outcome is Outcome.APPLIED, (type(event).__name__, outcome)
            match event:
                case TaskSubmitted():
                    self._queue(event.task_id, event.needs.resources.devices)
                case ChildRequested():
                    self._later(self._trace(event.child_id).busy_ms, _END, event.child_id)
                case GateOpened():
                    item_id = self.root.item_id(event.step, 0)
                    if self._trace(item_id).end not in ("", "expired"):
                        self._later(self._trace(item_id).busy_ms, _END, item_id)
                case TaskStopRequested():
                    self._end(event.task_id, AttemptEnd.CANCELLED.value)
                case ChildStopRequested():
                    self._end(event.child_id, "STOPPED")

    def _queue(self, item_id: str, devices: int) -> None:
        if devices > self.scenario.devices:
            raise BadScenarioError(
                f"{item_id} needs {devices} devices, {self.scenario.name} has {self.scenario.devices}"
            )
        self.devices[item_id] = devices
        busy_ms = self._trace(item_id).busy_ms
        keys = {"newest-first": -self.offset, "shortest-first": busy_ms, "longest-first": -busy_ms}
        heapq.heappush(self.waiting, (keys.get(self.scenario.order, self.offset), self.offset, item_id))

    def _begin(self, item_id: str) -> None:
        task = self.stream.tasks.get(item_id)
        if task is None or task.state is not TaskState.QUEUED:
            self.free += self.devices[item_id]  # it was stopped while it was placed
            return
        placed = {"worker_id": "simulated", "device_ids": ["any"], "seen": 0}
        self._fold(TaskAssigned.model_validate({**_token(item_id), **placed}), "scheduler")
        self._fold(TaskAccepted.model_validate(_token(item_id)), "worker")
        self.began[item_id] = self.now_ms
        self._later(self._trace(item_id).busy_ms, _END, item_id)

    def _end(self, item_id: str, end: str) -> None:
        """Ends a task, child or gate that is open, as it ended in the recording or as it was asked to."""
        run, trace = self.root, self._trace(item_id)
        child, task = self.stream.children.get(item_id), self.stream.tasks.get(item_id)
        found = run.item_of(item_id)
        assert found is not None
        gate = run.steps[found[0]].gate
        if child is not None:
            if child.open:
                result = trace.result if isinstance(trace.result, dict) else {}
                self._fold(ChildEnded(child_id=item_id, status=end or "DONE", result=result), "dispatcher")
        elif gate is not None:
            if found[0] in run.open_gates:
                step, generation = found[0], run.steps[found[0]].generation
                decided = GateDecided(
                    step=step,
                    generation=generation,
                    decision=end,
                    inputs=trace.result or {},
                )
                self._fold(decided, "dispatcher")
        elif task is not None and task.state is not TaskState.ENDED and item_id in self.began:
            self._end_task(item_id, end or AttemptEnd.FINISHED.value, trace)

    def _end_task(self, item_id: str, end: str, trace: ItemTrace) -> None:
        token = _token(item_id)
        for number, saved in enumerate(trace.artifacts.values(), 1):
            body = {**saved.model_dump(), **token, "number": number, "version": 1}
            self._fold(ArtifactSaved.model_validate(body), "worker")
        for how in (end, AttemptEnd.FAILED.value):
            if self.stream.tasks[item_id].state is not TaskState.ENDED:
                ended = AttemptEnded.model_validate({**token, "end": how, "result": trace.result})
                self._fold(ended, "worker")
        self.free += self.devices[item_id]
        self.device_ms += self.devices[item_id] * (self.now_ms - self.began.pop(item_id))

    def _later(self, ms: int, kind: int, item_id: str) -> None:
        heapq.heappush(self.events, (self.now_ms + ms, kind, self.offset, item_id))

    def _trace(self, item_id: str) -> ItemTrace:
        """Returns what was recorded of an item; of an unknown one, that it succeeds at once."""
        found = self.root.item_of(item_id)
        assert found is not None
        trace, own = self.recording.trace_of(found[0], found[1])
        if trace is None:
            self.unknown[found[0]] = None
            return ItemTrace(self.now_ms, end="")
        if not own:
            self.guessed[found[0]] = None
        return trace

    def _fold(self, event: Event, role: str) -> Outcome:
        headers = {
            "ce_partitionkey": self.stream.stream_id.encode(),
            "ce_source": f"trackside/{role}/1".encode(),
            "ce_id": f"simulated-{self.offset}".encode(),
        }
        record = Record("simulated", 0, self.offset, self.now_ms, Envelope(headers), event)
        self.offset += 1
        return fold(self.stream, record, AGGREGATES)


def _token(item_id: str) -> dict[str, Any]:
    return {"task_id": item_id, "attempt": 1, "placement": 1, "incarnation": "simulated"}


def _beginning(recorded: RunStarted, scenario: RunScenario) -> list[Event]:
    """Returns the command of a run, its acceptance, and the start under a scenario."""
    source = Source(topic="simulated", partition=0, offset=0)
    received = CommandReceived(
        command_id=COMMAND_ID,
        command_type=StartPipelineRun.wire_type(),
        body={},
        digest="",
        source=source,
        publisher="",
        rules=RULES,
    )
    accepted = CommandAccepted(command_id=COMMAND_ID, source=source)
    return [received, accepted, _started(recorded, scenario)]


def _started(recorded: RunStarted, scenario: RunScenario) -> RunStarted:
    """Returns the start of the run under a scenario: each task has one attempt, which has what all took."""
    spec: PipelineSpec = recorded.pipeline
    steps = [
        step.model_copy(
            update={
                "retry": None,
                "cache": None,
                "on_end": step.on_end if scenario.on_end is None else None,
            }
        )
        for step in spec.steps
    ]
    changed: dict[str, Any] = {
        "steps": steps,
        "defaults": spec.defaults.model_copy(update={"retry": _NO_RETRY}),
    }
    if scenario.concurrency is not None:
        changed["concurrency"] = scenario.concurrency
    if scenario.on_end is not None:
        changed["on_end"] = OnEnd(**dict.fromkeys(OnEnd.model_fields, scenario.on_end))
    pipeline = spec.model_copy(update=changed)
    return recorded.model_copy(update={"pipeline": pipeline, "command_id": COMMAND_ID})
