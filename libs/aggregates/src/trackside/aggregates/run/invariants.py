"""INV-11 and INV-10 of runs: no step before those that it needs, none twice, an end with nothing open."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from trackside.aggregates.run import agreement
from trackside.aggregates.run.messages import (
    ArchiveRun,
    PausePipelineRun,
    RunAbortRequested,
    RunArchived,
    RunEnded,
    RunPaused,
    RunResumed,
    RunRevived,
    RunStarted,
    RunStatus,
    RunTimeLimitReached,
    RunUpdated,
    StartPipelineRun,
    UpdatePipelineRun,
)
from trackside.aggregates.run.step_messages import (
    FAILURES,
    SUCCESSES,
    GateDecided,
    GateOpened,
    StepCacheHit,
    StepCacheMissed,
    StepEnded,
    StepExpanded,
    StepReady,
    StepRepeated,
    StepResolved,
    StepSkipped,
    StepState,
)
from trackside.contracts.envelope.message import Json, Message, Record
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import AggregateInvariants, CheckedTask
from trackside.domain.pipelines.compiling import digest, needed
from trackside.domain.pipelines.definition import CACHE, GATE, STEP, TASK, action_after, kind_of

_GATE_ENDS = {
    "approved": StepState.SUCCEEDED,
    "rejected": StepState.FAILED,
    "expired": StepState.TIMED_OUT,
}
_Items = dict[int, bool | None]
"""How the items of a step have ended, by index: True for success, None for open ones and for children."""


class RunInvariants(AggregateInvariants):
    """Keeps how each step has ended, which are ready, and the tasks and children that are open."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of RunStarted."""
        super().__init__(record, tasks, findings)
        started = cast(RunStarted, record.message)
        self.pipeline = started.pipeline
        self.steps = {step.name: step for step in self.pipeline.steps}
        self.ended: dict[str, StepState] = dict.fromkeys(started.taken, StepState.CACHED)
        self.ready: set[str] = set()
        self.begun: set[str] = set()
        self.said: set[tuple[str, str]] = set()
        self.items: dict[str, _Items] = {}
        self.gates: dict[str, str] = {}
        self.open: dict[str, tuple[str, int]] = {}
        self.checks: set[str] = set()
        self.room = self.pipeline.concurrency
        self.revival = 0
        self.over = self.paused = self.stopping = self.archived = False
        self.priority: int | None = None
        self.generations: dict[str, int] = {}
        self.values: dict[str, Json] = {}
        self.kinds: dict[str, set[str]] = {}

    def take(self, event: Message, record: Record) -> None:
        """Checks an event of the run after its first one."""
        if self.over and not isinstance(event, RunRevived | RunArchived):
            self.findings.illegal(record, "the run is over")
        self._check_generation(event, record)
        match event:
            case StepReady():
                self._ready(event, record)
            case StepRepeated():
                index = len(self.items.get(event.step, {}))
                agreement.check_repeated(self.steps[event.step], index, event, record, self.findings)
            case StepResolved() | StepExpanded() | GateOpened():
                self._once(event, record)
            case GateDecided():
                self._decided(event, record)
            case StepCacheMissed():
                agreement.check_cached(self.steps[event.step], event, record, self.findings)
            case StepSkipped() | StepEnded() | StepCacheHit():
                self._ended(event, record)
            case RunPaused() | RunResumed():
                self.paused = isinstance(event, RunPaused)
            case RunUpdated():
                self.room = event.concurrency or self.room
                self.priority = self.priority if event.priority is None else event.priority
            case RunArchived():
                self.archived = True
            case RunAbortRequested() | RunTimeLimitReached():
                self.stopping = True
            case RunRevived():
                self._revived(event, record)
            case RunEnded():
                self._run_ended(event, record)

    def facts_of(self, event: Message) -> Iterable[tuple[str, object]]:
        """Returns the status that it ends with."""
        return [("its end", event.status.value)] if isinstance(event, RunEnded) else ()

    def unfinished(self) -> str:
        """Returns that it has not ended, unless it has."""
        return "" if self.over else "the run has not ended"

    def task_submitted(self, event: TaskSubmitted, record: Record) -> None:
        """Checks that the step of a task is ready."""
        part = event.part
        if part is not None and part.kind == CACHE:
            self._check_begun(part.name, event.task_id, record)
            return
        name, index = (part.name, part.number) if part is not None and part.kind == STEP else ("", 0)
        if name in self.steps:
            values, step = self.values.get(name, {}), self.steps[name]
            agreement.check_task(self.pipeline, step, values, self.priority, event, record, self.findings)
        self._begun(name, index, event.task_id, record)

    def child_requested(self, child_id: str, record: Record) -> None:
        """Checks that the step of a child is ready."""
        name, *more = child_id.removeprefix(f"{self.stream_id}.").split(".")
        index = int(more[0]) if more and more[0].isdigit() else 0
        self._begun(name, index, child_id, record)

    def child_ended(self, child_id: str, status: str) -> None:
        """Takes in that a child has ended."""
        name, _ = self.open.pop(child_id, ("", 0))
        self.kinds.setdefault(name, set()).add(status.lower())

    def task_ended(self, task_id: str) -> None:
        """Takes in that a task has ended, and whether it has succeeded."""
        self.checks.discard(task_id)
        name, index = self.open.pop(task_id, ("", 0))
        if name:
            self.items[name][index] = self.tasks[task_id].succeeded
            self.kinds.setdefault(name, set()).add(self.tasks[task_id].end)

    def _check_begun(self, name: str, task_id: str, record: Record) -> None:
        """Checks that a step whose artifacts in the cache are checked is ready, and has not begun."""
        self.findings.checked["INV-11"] += 1
        if name not in self.ready or name in self.ended or name in self.begun:
            self.findings.add("INV-11", record, f"{task_id} begins, and its step does not wait for it")
        self.checks.add(task_id)

    def _begun(self, name: str, index: int, item_id: str, record: Record) -> None:
        self.findings.checked["INV-11"] += 1
        if name not in self.ready or name in self.ended:
            self.findings.add("INV-11", record, f"{item_id} begins, and its step is not ready")
        if self.over or self.paused or self.stopping:
            self.findings.illegal(record, "the run begins nothing")
        step = self.steps.get(name)
        if step is not None and agreement.needs_values(step) and (name, "StepResolved") not in self.said:
            self.findings.add("INV-11", record, f"{item_id} begins, and its references were not resolved")
        if index in self.items.setdefault(name, {}):
            self.findings.add("INV-11", record, f"item {index} of step {name} begins a second time")
        self.begun.add(name)
        self.items[name][index] = None
        self.open[item_id] = (name, index)
        self.findings.check_concurrency(len(self.open), self.room, "tasks and children", record)

    def _ready(self, event: StepReady, record: Record) -> None:
        self.findings.checked["INV-11"] += 1
        if event.step in self.ready or event.step in self.ended:
            self.findings.add("INV-11", record, f"step {event.step} is ready already, or has ended")
        if self.paused or self.stopping:
            self.findings.illegal(record, "the run begins nothing")
        self.ready.add(event.step)
        agreement.check_ready(self.steps[event.step], event, record, self.findings)
        needs = self.steps[event.step].needs
        unmet = [name for name in needs.all if not self._succeeded(name)]
        unmet += [name for name in needs.all_ended if name not in self.ended]
        if needs.any_of and not any(map(self._succeeded, needs.any_of)):
            unmet += needs.any_of
        if unmet:
            listed = ", ".join(unmet[:10])
            message = f"step {event.step} is ready before the steps that it needs: {listed}"
            self.findings.add("INV-11", record, message)

    def _once(self, event: StepResolved | StepExpanded | GateOpened, record: Record) -> None:
        """Checks what happens to a step that is ready, once until it begins again."""
        said = (event.step, type(event).__name__)
        if event.step not in self.ready or event.step in self.ended or said in self.said:
            self.findings.add("INV-11", record, f"step {event.step} is not ready, or was told of it already")
        self.said.add(said)
        if isinstance(event, GateOpened):
            self.gates[event.step] = ""
            agreement.check_gate(self.steps[event.step], event, record, self.findings)
        elif isinstance(event, StepResolved):
            self.values[event.step] = event.values
            agreement.check_resolved(self.steps[event.step], event, record, self.findings)
        elif (found := agreement.references(self.steps[event.step].each)) and len(found) == 1:
            items = self.values.get(event.step, {}).get(agreement.text_of(found[0]), event.items)
            self.findings.compare(record, "the items", event.items, items)

    def _decided(self, event: GateDecided, record: Record) -> None:
        if self.gates.get(event.step) != "":
            self.findings.add("INV-11", record, f"gate {event.step} is not open, or was decided")
        agreement.check_decided(event, record, self.findings)
        self.gates[event.step] = event.decision

    def _succeeded(self, name: str) -> bool:
        state = self.ended.get(name)
        return state is not None and (state in SUCCESSES or self._goes_on_after(name, state))

    def _goes_on_after(self, name: str, state: StepState) -> bool:
        return state in FAILURES and action_after(self.pipeline, self.steps[name], state.value) == "continue"

    def _ended(self, event: StepSkipped | StepEnded | StepCacheHit, record: Record) -> None:
        name = event.step
        if name in self.ended:
            self.findings.add("INV-11", record, f"step {name} ends a second time")
        if isinstance(event, StepCacheHit):
            agreement.check_cached(self.steps[name], event, record, self.findings)
        if isinstance(event, StepSkipped):
            agreement.check_skipped(self.steps[name], event, record, self.findings)
            self.ended[name] = StepState.OMITTED if event.by == "upstream" else StepState.SKIPPED
            if name in self.begun:
                self.findings.add("INV-11", record, f"step {name} is skipped, and has begun")
            return
        state = self.ended[name] = event.status if isinstance(event, StepEnded) else StepState.CACHED
        if isinstance(event, StepEnded):
            self._check_end(event, record)
        if state in FAILURES and action_after(self.pipeline, self.steps[name], state.value) == "fail":
            self.stopping = True

    def _check_end(self, event: StepEnded, record: Record) -> None:
        """Checks that a step ends after its tasks, children or gate, and as these did."""
        name, status = event.step, event.status
        agreement.check_end(self.steps[name], len(self.items.get(name, {})), event, record, self.findings)
        kinds = {"", self.gates.get(name, ""), *self.kinds.get(name, ())}
        if event.error is None and event.kind not in kinds:
            self.findings.differs(record, "the kind", event.kind, kinds)
        going = [item for item, (step, _) in self.open.items() if step == name]
        if going:
            message = f"step {name} ends with {len(going)} tasks or children that go on"
            self.findings.add("INV-11", record, message)
        if event.error is not None or status is StepState.ABORTED or going:
            return
        spec, ends = self.steps[name], self.items.get(name, {})
        if kind_of(spec) == GATE:
            fits = _GATE_ENDS.get(self.gates.get(name, "")) is status
        elif kind_of(spec) != TASK or spec.collect:
            fits = bool(ends) or spec.each is not None
        else:
            fits = (status is StepState.SUCCEEDED) is all(ends.values()) and bool(
                ends or spec.each is not None
            )
        if not fits:
            message = f"step {name} ends as {status.value}, and what it has begun did not"
            self.findings.add("INV-11", record, message)

    def _revived(self, event: RunRevived, record: Record) -> None:
        if not self.over:
            self.findings.illegal(record, "the run is not over")
        if event.revival != self.revival + 1:
            self.findings.illegal(record, f"it was revived {self.revival} times")
        self.revival = event.revival
        self.over = self.paused = self.stopping = False
        self._check_patch(event, record)
        self.steps |= {step.name: step for step in event.steps}
        self.generations |= dict.fromkeys(event.reset, event.revival)
        for name in event.reset:
            self.ended.pop(name, None)
            self.ready.discard(name)
            self.begun.discard(name)
            self.gates.pop(name, None)
            again = event.indexes.get(name)
            kept = {} if again is None else self.items.get(name, {})
            self.items[name] = {index: end for index, end in kept.items() if index not in (again or ())}
            if again is None:
                self.said = {said for said in self.said if said[0] != name}
        reset = set(event.reset)
        for name in self.ended:
            early = reset.intersection(needed(self.steps[name]))
            if early:
                message = f"step {name} is kept, and {min(early)}, which it needs, begins again"
                self.findings.add("INV-11", record, message)

    def _run_ended(self, event: RunEnded, record: Record) -> None:
        self.findings.checked["INV-11"] += 1
        if self.open or self.checks:
            self.findings.illegal(record, f"{len(self.open) + len(self.checks)} tasks and children are open")
        left = [name for name in self.steps if name not in self.ended]
        if self.stopping:  # what has not begun is omitted without an event
            self.ended |= {name: StepState.OMITTED for name in left if name not in self.begun}
            left = [name for name in left if name in self.begun]
        if left:
            self.findings.add("INV-11", record, f"the run ends before its steps: {', '.join(left[:10])}")
        failed = [
            name for name, state in self.ended.items() if state in FAILURES and not self._succeeded(name)
        ]
        if event.status is RunStatus.SUCCEEDED and (failed or self.stopping):
            self.findings.add(
                "INV-11", record, "the run succeeds, and was stopped, or a step of it has failed"
            )
        self.over = True
        unknown = [name for name in event.causes if name not in failed]
        self.findings.compare(record, "causes that did not fail", unknown, [])
        if not self.pipeline.outputs:
            self.findings.compare(record, "the outputs", event.outputs, {})
            self.findings.compare(record, "the models", event.models, [])

    def _check_generation(self, event: Message, record: Record) -> None:
        """Checks that an event is of the generation in which its step is."""
        generation, step = getattr(event, "generation", None), getattr(event, "step", "")
        if generation is not None:
            self.findings.compare(record, "the generation", generation, self.generations.get(step, 0))

    def _check_patch(self, event: RunRevived, record: Record) -> None:
        """Checks that a step has changed only where the patch says so."""
        for step in event.steps:
            before, after = agreement.plain(self.steps[step.name]), agreement.plain(step)
            patch = event.patch.get(step.name)
            given = set() if patch is None else {*patch.model_dump(mode="json", exclude_none=True), "needs"}
            said = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
            self.findings.compare(record, f"changes of {step.name} without a patch", sorted(said - given), [])

    def begun_by(self, command: Any, record: Record) -> None:
        """Checks the digest of the definition as it was given, and the parameters that were."""
        started = cast(RunStarted, record.message)
        if isinstance(command, StartPipelineRun):
            self.findings.compare(record, "the digest", started.sha256, digest(command.pipeline))
            schemas = command.pipeline.parameters.items()
            known = {name: schema["default"] for name, schema in schemas if "default" in schema}
            self.findings.compare(record, "the parameters", started.parameters, known | command.parameters)

    def accepted_alone(self, command: Any) -> str:
        """Returns that the run is not paused, archived or changed as a command asks."""
        match command:
            case PausePipelineRun() if not (self.paused or self.stopping):
                return "the run is not paused"
            case ArchiveRun() if not self.archived:
                return "the run is not archived"
            case UpdatePipelineRun():
                return "the run has no such change"
        return ""

    def ignored(self, event: Message) -> str:
        """Returns that an archival that was asked for has a time."""
        waits = isinstance(event, RunArchived) and bool(event.command_id) and event.due_ms is not None
        return "it is of a command, and has a time" if waits else ""
