"""INV-11 and INV-10 of runs: no step before those that it needs, none twice, an end with nothing open."""

from collections.abc import Mapping
from typing import cast

from trackside.aggregates.run.messages import RunEnded, RunRevived, RunStarted
from trackside.aggregates.run.step_messages import (
    ENDED,
    SUCCESSES,
    StepEnded,
    StepReady,
    StepSkipped,
    StepState,
)
from trackside.contracts.message import Message, Record
from trackside.contracts.tasks import TaskSubmitted
from trackside.domain.findings import Findings
from trackside.domain.invariants import AggregateInvariants, CheckedTask
from trackside.domain.pipelines.definition import STEP, action_after


class RunInvariants(AggregateInvariants):
    """Keeps how each step has ended, which are ready, and the tasks and children that are open."""

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of RunStarted."""
        super().__init__(record, tasks, findings)
        self.pipeline = cast(RunStarted, record.message).pipeline
        self.steps = {step.name: step for step in self.pipeline.steps}
        self.generations = dict.fromkeys(self.steps, 0)
        taken = cast(RunStarted, record.message).taken
        self.ended: dict[str, StepState] = dict.fromkeys(taken, StepState.CACHED)
        self.ready: set[str] = set()
        self.open: dict[str, str] = {}

    def take(self, event: Message, record: Record) -> None:
        """Checks an event of the run after its first one."""
        match event:
            case StepReady():
                self._ready(event, record)
            case StepSkipped() | StepEnded():
                self._ended(event, record)
            case RunRevived():
                self.steps |= {step.name: step for step in event.steps}
                for name in event.reset:
                    self.generations[name] = event.revival
                    self.ended.pop(name, None)
                    self.ready.discard(name)
            case RunEnded():
                if self.open:
                    self.findings.illegal(record, f"{len(self.open)} tasks and children are open")

    def task_submitted(self, event: TaskSubmitted, record: Record) -> None:
        """Checks that the step of a task is ready."""
        name = event.part.name if event.part is not None and event.part.kind == STEP else ""
        self._begun(name, event.task_id, record)

    def child_requested(self, child_id: str, record: Record) -> None:
        """Checks that the step of a child is ready."""
        name = child_id.removeprefix(f"{self.stream_id}.").partition(".")[0]
        self._begun(name, child_id, record)

    def child_ended(self, child_id: str) -> None:
        """Takes in that a child has ended."""
        self.open.pop(child_id, None)

    def task_ended(self, task_id: str) -> None:
        """Takes in that a task has ended."""
        self.open.pop(task_id, None)

    def _begun(self, name: str, item_id: str, record: Record) -> None:
        self.findings.checked["INV-11"] += 1
        if name not in self.ready or name in self.ended:
            self.findings.add("INV-11", record, f"{item_id} begins, and its step is not ready")
        self.open[item_id] = name

    def _ready(self, event: StepReady, record: Record) -> None:
        self.findings.checked["INV-11"] += 1
        if event.step in self.ready:
            self.findings.add("INV-11", record, f"step {event.step} is ready already")
        self.ready.add(event.step)
        needs = self.steps[event.step].needs
        unmet = [name for name in needs.all if not self._succeeded(name)]
        unmet += [name for name in needs.all_ended if name not in self.ended]
        if needs.any_of and not any(map(self._succeeded, needs.any_of)):
            unmet += needs.any_of
        if unmet:
            listed = ", ".join(unmet[:10])
            message = f"step {event.step} is ready before the steps that it needs: {listed}"
            self.findings.add("INV-11", record, message)

    def _succeeded(self, name: str) -> bool:
        state = self.ended.get(name)
        if state is None:
            return False
        action = action_after(self.pipeline, self.steps[name], state.value)
        wanted = state in ENDED - {StepState.SKIPPED, StepState.OMITTED} and action == "continue"
        return state in SUCCESSES or wanted

    def _ended(self, event: StepSkipped | StepEnded, record: Record) -> None:
        if event.step in self.ended:
            self.findings.add("INV-11", record, f"step {event.step} ends a second time")
        if isinstance(event, StepEnded):
            self.ended[event.step] = event.status
            open_items = [item for item, name in self.open.items() if name == event.step]
            if open_items:
                message = f"step {event.step} ends with {len(open_items)} tasks or children that go on"
                self.findings.add("INV-11", record, message)
        else:
            self.ended[event.step] = StepState.OMITTED if event.by == "upstream" else StepState.SKIPPED
