"""How a run ends that nobody disturbs, as a function of its definition and the ends of its tasks alone.

It knows nothing of events, of time, or of how many tasks are open at once.
"""

from typing import Any

from tests.unit.aggregates.run.drawn import RETRIED, DrawnPipeline, DrawnStep
from trackside.contracts.envelope.ids import step_task_id
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.tasks import AttemptEnd

FAILURES = ("failed", "lost", "timed_out", "aborted")
"""Worst first."""
_STATES = {
    AttemptEnd.FINISHED: "succeeded",
    AttemptEnd.FAILED: "failed",
    AttemptEnd.LOST: "lost",
    AttemptEnd.TIMED_OUT_RUN: "timed_out",
}
_DECISIONS = {"approved": "succeeded", "rejected": "failed", "expired": "timed_out"}


def final_states(pipeline: DrawnPipeline, run_id: str) -> tuple[dict[str, str], str]:
    model = _Model(pipeline, run_id)
    for step in sorted(pipeline.steps, key=lambda step: step.name):  # s0, s1...: parents come first
        model.states[step.name] = model.end_of(step)
    failed = any(state in FAILURES and not model.is_good(name) for name, state in model.states.items())
    return model.states, "FAILED" if failed else "SUCCEEDED"


class _Model:
    def __init__(self, pipeline: DrawnPipeline, run_id: str) -> None:
        self.pipeline = pipeline
        self.run_id = run_id
        self.steps = {step.name: step for step in pipeline.steps}
        self.states: dict[str, str] = {}
        self.results: dict[str, Json] = {}

    def end_of(self, step: DrawnStep) -> str:
        if not all(map(self.is_good, step.all)) or (step.any_of and not any(map(self.is_good, step.any_of))):
            return "omitted"
        if step.when is not None:
            wanted = self._condition(*step.when)
            if wanted is None:
                return "failed"
            if not wanted:
                return "skipped"
        if step.kind == "gate":
            return _DECISIONS[self.pipeline.decision(step.name)]
        if step.kind == "child":
            return "succeeded"
        if step.refers_to and not step.has_default and self._found(step.refers_to, "n") is None:
            return "failed"
        return getattr(self, f"_{step.kind}")(step)  # type: ignore[no-any-return]

    def is_good(self, name: str) -> bool:
        state = self.states[name]
        return state == "succeeded" or (state in FAILURES and self.steps[name].on_end[state] == "continue")

    def _condition(self, what: str, name: str, value: Any) -> bool | None:
        if what == "flag":
            return bool(self.pipeline.flag is value)
        if what == "status":
            return bool(self.states[name] == value)
        found = self._found(name, "n")
        return None if found is None else bool(found > value)

    def _found(self, name: str, key: str) -> Any:
        return self.results.get(name, {}).get(key) if self.states[name] == "succeeded" else None

    def _item(self, step: DrawnStep, index: int | None) -> tuple[str, Json]:
        task_id = step_task_id(self.run_id, step.name, index, 0)
        end, result = AttemptEnd.FAILED, Json()
        for number in range(1, RETRIED + 2):
            end, result = self.pipeline.attempt(task_id, number)
            if end is not AttemptEnd.FAILED:
                break
        return _STATES[end], result

    def _task(self, step: DrawnStep) -> str:
        state, self.results[step.name] = self._item(step, None)
        return state

    def _each(self, step: DrawnStep) -> str:
        items = self._found(step.items_of, "items") if step.items_of else list(range(step.count))
        if not isinstance(items, list):
            return "failed"
        ends = [self._item(step, index)[0] for index in range(len(items))]
        good = ends.count("succeeded")
        if step.collect:
            holds = good > 0 if step.collect == "succeeded > 0" else len(ends) - good < 2
            return "succeeded" if holds else _worst(ends, "failed")
        return _worst(ends, "succeeded")

    def _repeat(self, step: DrawnStep) -> str:
        for index in range(step.count):
            state, self.results[step.name] = self._item(step, index)
            if state != "succeeded":
                return state
            found = self.results[step.name].get("n")
            if found is None or found > step.above:
                return "failed" if found is None else "succeeded"
        return "failed"


def _worst(ends: list[str], otherwise: str) -> str:
    return next((state for state in FAILURES if state in ends), otherwise)
