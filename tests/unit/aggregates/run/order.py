"""A second reading of the events of a run: what began when, without the fold."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from trackside.aggregates.run.messages import RunEnded, RunRevived, RunStarted, RunUpdated
from trackside.aggregates.run.step_messages import GateDecided, GateOpened, StepEnded, StepSkipped, StepState
from trackside.contracts.envelope.message import Message
from trackside.contracts.streams.children import ChildEnded, ChildRequested
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.pipelines.definition import PipelineSpec, StepSpec, action_after


@dataclass
class Reading:
    """What is known from the events so far; `wrong` has what must not be."""

    ended: dict[str, StepState] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    gates: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    pipeline: PipelineSpec | None = None
    steps: dict[str, StepSpec] = field(default_factory=dict)
    room: int = 0

    def take(self, event: Message) -> None:
        match event:
            case RunStarted():
                self.pipeline, self.room = event.pipeline, event.pipeline.concurrency
                self.steps = {step.name: step for step in event.pipeline.steps}
            case RunUpdated():
                self.room = event.concurrency or self.room
            case RunRevived():
                for name in event.reset:
                    self.ended.pop(name, None)
            case TaskSubmitted() | ChildRequested():
                item = event.task_id if isinstance(event, TaskSubmitted) else event.child_id
                self._begins(item.split(".")[1])
                self.wrong += [f"{item} begins twice"] if item in self.begun else []
                self.begun.add(item)
                self.open.add(item)
                self.wrong += [f"{len(self.open)} are open"] if len(self.open) > self.room else []
            case GateOpened():
                self._begins(event.step)
                self.gates.add(event.step)
            case GateDecided():
                self.gates.discard(event.step)
            case ChildEnded():
                self.open.discard(event.child_id)
            case StepEnded():
                self._ends(event.step, event.status)
            case StepSkipped():
                self._ends(event.step, StepState.OMITTED if event.by == "upstream" else StepState.SKIPPED)
            case RunEnded():
                self.wrong += [f"the run ends with {sorted(self.open)}"] if self.open else []
                omitted = dict.fromkeys(self.steps.keys() - self.ended.keys(), StepState.OMITTED)
                self.ended |= omitted  # as a run that is stopped does, without an event for each

    def task_over(self, task_id: str) -> None:
        self.open.discard(task_id)

    def _begins(self, name: str) -> None:
        needs = self.steps[name].needs
        bad = [each for each in needs.all if not self._good(each)]
        bad += [each for each in needs.all_ended if each not in self.ended]
        bad += needs.any_of if needs.any_of and not any(map(self._good, needs.any_of)) else []
        self.wrong += [f"{name} begins before {bad}"] if bad else []
        self.wrong += [f"{name} begins after its end"] if name in self.ended else []

    def _good(self, name: str) -> bool:
        state = self.ended.get(name)
        if state in (None, StepState.SKIPPED, StepState.OMITTED):
            return False
        assert state is not None and self.pipeline is not None
        return state in ("succeeded", "cached") or (
            action_after(self.pipeline, self.steps[name], state.value) == "continue"
        )

    def _ends(self, name: str, state: StepState) -> None:
        self.wrong += [f"{name} ends twice"] if name in self.ended else []
        mine = [item for item in self.open if item.split(".")[1] == name]
        self.wrong += [f"{name} ends with {mine}"] if mine else []
        self.ended[name] = state
        self.gates.discard(name)


def read(events: Iterable[tuple[Message, bool]]) -> list[str]:
    """Returns what is wrong with events, each with whether its task has ended with it."""
    reading = Reading()
    for event, is_end in events:
        reading.take(event)
        if is_end:
            reading.task_over(getattr(event, "task_id", ""))
    return reading.wrong
