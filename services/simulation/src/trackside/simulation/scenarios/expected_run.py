"""How the run of a simulation, its steps and their references must end, by what was asked of it."""

from collections import Counter
from collections.abc import Mapping

from trackside.aggregates.run.messages import (
    RunAbortRequested,
    RunEnded,
    RunPaused,
    RunResumed,
    RunRevived,
    RunStarted,
    RunStatus,
    RunTimeLimitReached,
    RunUpdated,
)
from trackside.aggregates.run.step_messages import (
    GateDecided,
    GateOpened,
    StepAbortRequested,
    StepResolved,
    StepSkipped,
    StepState,
)
from trackside.contracts.envelope.ids import step_task_id
from trackside.contracts.envelope.message import Json, Record

NEEDS = {
    "train": ("prepare",),
    "tune": ("prepare",),
    "check": ("prepare",),
    "gate": ("train", "tune"),
    "release": ("check", "gate", "train", "tune"),
}
"""The steps that must have succeeded before a step begins."""
REPAIRED = ("train", "check")
"""The steps that fail until they are retried with a patch."""
GATE_ENDS = {
    "approved": StepState.SUCCEEDED,
    "rejected": StepState.FAILED,
    "expired": StepState.TIMED_OUT,
}
STOPPED = frozenset({StepState.ABORTED, StepState.OMITTED})
"""How steps may end besides when their run is stopped."""


class ExpectedRun:
    """A model of the pipeline of `PipelineScenario`, apart from the shipped rules. `train` has `width` items.

    It takes the events that had an effect, and compares each end of the run with what they lead to.
    """

    def __init__(self, run_id: str, width: int) -> None:
        self._run_id = run_id
        self._width = width
        self._generations: dict[str, int] = {}
        self._revival = self._changes = 0
        self._since_ms = self._gate_ms = 0
        self._timeout_s: float | None = None
        self._gate_s: float | None = None
        self._requests: Counter[str] = Counter()
        self._skipped: set[str] = set()
        self._aborted: set[str] = set()
        self._partly_aborted: set[str] = set()
        self._gate = ""
        self._stopped: RunStatus | None = None
        self._ends: list[RunStatus] = []
        self._released = 0
        self._digests: dict[int, set[str]] = {}
        self._violations: list[str] = []

    def take(self, record: Record, states: Mapping[str, StepState]) -> None:
        """Takes in an event that had an effect; `states` are those of the steps after it."""
        match event := record.message:
            case RunStarted():
                self._since_ms = record.append_time_ms
            case RunPaused() | RunResumed() | RunUpdated():
                self._change(event)
            case StepSkipped(by="operator"):
                self._skipped.add(event.step)
            case StepAbortRequested():
                self._abort_step(event)
            case GateOpened():
                self._gate_ms, self._gate_s = record.append_time_ms, event.timeout_s
            case GateDecided():
                self._decide_gate(event, record)
            case RunAbortRequested():
                self._stopped = RunStatus.ABORTED
            case RunTimeLimitReached():
                self._stopped = RunStatus.TIMED_OUT
                if record.append_time_ms < self._since_ms + int((self._timeout_s or 0) * 1000):
                    self._violations.append("the time limit was reached too early")
            case RunRevived():
                self._since_ms = record.append_time_ms
                self._begin_again(event)
            case StepResolved():
                self._check_values(event)
            case RunEnded():
                self._check_end(event.status, states)
                self._ends.append(event.status)

    def violations(self) -> list[str]:
        """Returns what was wrong, after the last event."""
        found = list(self._violations)
        if len(self._ends) != self._revival + 1 or self._ends[-1] is not RunStatus.SUCCEEDED:
            found.append(f"the run ended as {self._ends} after {self._revival} retries")
        if any(len(digests) != 1 for digests in self._digests.values()):
            found.append(f"the items of train have got {self._digests}")
        return found

    def _change(self, event: RunPaused | RunResumed | RunUpdated) -> None:
        self._changes += 1
        if event.change != self._changes or self._stopped is not None:
            self._violations.append(f"{event!r} is change {self._changes}, and counts")
        if isinstance(event, RunUpdated) and event.timeout_s is not None:
            self._timeout_s = event.timeout_s

    def _abort_step(self, event: StepAbortRequested) -> None:
        self._requests[event.step] += 1
        if event.request != self._requests[event.step] or self._stopped is not None:
            self._violations.append(f"{event!r} is request {self._requests[event.step]}, and counts")
        (self._aborted if event.index is None else self._partly_aborted).add(event.step)

    def _decide_gate(self, event: GateDecided, record: Record) -> None:
        """Checks that a gate is decided once, and expires at its time limit, not before."""
        late = self._gate_s is not None and record.append_time_ms >= self._gate_ms + int(self._gate_s * 1000)
        if self._gate or late is not (event.decision == "expired"):
            self._violations.append(f"{event!r} counts after {self._gate or 'none'}, late: {late}")
        self._gate = event.decision

    def _begin_again(self, event: RunRevived) -> None:
        for name in event.reset:
            del self._requests[name]
        self._revival, self._stopped = event.revival, None
        for asked in (self._skipped, self._aborted, self._partly_aborted):
            asked.difference_update(event.reset)
        self._generations |= dict.fromkeys(event.reset, event.revival)
        if "gate" in event.reset:
            self._gate = ""
        if missing := set(REPAIRED) - set(event.reset):
            self._violations.append(f"{missing} were patched, and do not begin again")

    def _check_values(self, event: StepResolved) -> None:
        """Checks what the references of a step have become."""
        expected: Json = {}
        if event.step == "release":
            train, tune = (self._generations.get(name, 0) for name in ("train", "tune"))
            ids = [step_task_id(self._run_id, "train", number, train) for number in range(self._width)]
            search = step_task_id(self._run_id, "tune", None, tune)
            expected = {"${gate.result.note}": "good", "${train.id}": ids, "${tune.id}": search}
        elif event.step == "report":
            expected = {"${check.status}": "succeeded" if self._revival else "failed"}
        elif event.step == "train":
            digest = event.values["${prepare.artifacts.weights.sha256}"]
            self._digests.setdefault(self._generations.get("prepare", 0), set()).add(digest)
            return
        if event.values != expected:
            self._violations.append(f"{event.step} has got {event.values}, not {expected}")

    def _check_end(self, status: RunStatus, states: Mapping[str, StepState]) -> None:
        """Checks how the run and each of its steps have ended; a step follows from those before it."""
        for name, state in states.items():
            possible = self._ends_of(name, states)
            if self._stopped is not None:
                possible |= STOPPED
            if state not in possible:
                self._violations.append(f"step {name} ended as {state}, not as {sorted(possible)}: {states}")
        failed = {StepState.FAILED, StepState.ABORTED, StepState.TIMED_OUT, StepState.LOST}
        normal = RunStatus.FAILED if failed.intersection(states.values()) else RunStatus.SUCCEEDED
        if status is not (self._stopped or normal):
            self._violations.append(f"the run ended as {status}, not as {self._stopped or normal}")

    def _ends_of(self, name: str, states: Mapping[str, StepState]) -> set[StepState]:
        """Returns how a step may end in a run that is not stopped."""
        if name in self._skipped or name == "skipped":
            return {StepState.SKIPPED}
        if name in self._aborted:
            return {StepState.ABORTED}
        if not self._may_begin(name, states):
            return {StepState.OMITTED}
        if name == "gate":
            return {GATE_ENDS[self._gate]} if self._gate else set()
        own = StepState.FAILED if name in REPAIRED and not self._revival else StepState.SUCCEEDED
        return {own, StepState.ABORTED} if name in self._partly_aborted else {own}

    @staticmethod
    def _may_begin(name: str, states: Mapping[str, StepState]) -> bool:
        succeeded = [name for name, state in states.items() if state is StepState.SUCCEEDED]
        if name == "report":
            return "train" in succeeded or "tune" in succeeded
        return all(parent in succeeded for parent in NEEDS.get(name, ()))
