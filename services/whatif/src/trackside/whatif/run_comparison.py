"""Compares a recorded run with the same run under other scenarios, or predicts one of a definition. Pure."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.run.messages import RunStarted
from trackside.domain.pipelines import references
from trackside.domain.pipelines.compiling import digest
from trackside.domain.pipelines.definition import EndAction, PipelineSpec, StepSpec
from trackside.whatif.compare import AS_RECORDED
from trackside.whatif.resimulate import PlacementOrder
from trackside.whatif.run_recording import ItemKey, ItemTrace, RunRecording, median_duration_ms
from trackside.whatif.run_simulation import RunScenario, SimulatedRun, simulate_run

ON_END: tuple[EndAction, ...] = ("continue", "skip", "fail")
_ASSUMED = (
    "Durations and results are as recorded, whichever device a task runs on and whatever runs next to it.",
    "All devices are alike and of one queue; no other stream uses them.",
    "Children of the run take as long as recorded, with devices of their own.",
)


@dataclass(frozen=True, slots=True)
class RunGrid:
    """Each number of workers with each order and each policy is a scenario; empty: as recorded."""

    workers: Sequence[int] = ()
    slots: int = 1
    orders: Sequence[PlacementOrder] = ()
    on_end: Sequence[EndAction] = ()
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """A recording and the results of its scenarios; the first one simulates the run as it was."""

    recording: RunRecording
    results: tuple[SimulatedRun, ...]
    assumptions: tuple[str, ...]

    def saved(self, result: SimulatedRun) -> float:
        """Returns which part of the makespan of the first scenario another one saves; negative: it adds."""
        base = self.results[0].makespan_ms
        return (base - result.makespan_ms) / base if base else 0.0

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON form."""
        recording = self.recording
        recorded_s = None if recording.makespan_ms is None else recording.makespan_ms / 1000
        return {
            "stream": recording.stream_id,
            "recorded": {
                "status": recording.status,
                "makespan_s": recorded_s,
                "devices": recording.devices,
                "critical_path": [
                    {"step": each.step, "duration_s": each.duration_s} for each in recording.path
                ],
            },
            "scenarios": [result.as_json() | {"saved": self.saved(result)} for result in self.results],
            "assumptions": list(self.assumptions),
        }


def compare_run(recording: RunRecording, grid: RunGrid) -> RunComparison:
    """Simulates a recorded run as it was, and under each scenario of a grid; raises BadScenarioError."""
    base = RunScenario(AS_RECORDED, recording.devices)
    scenarios = [base, *(each for each in _scenarios(recording, grid) if each is not None)]
    results = tuple(simulate_run(recording, scenario) for scenario in scenarios)
    return RunComparison(recording, results, (*_ASSUMED, *_gaps(results)))


def _scenarios(recording: RunRecording, grid: RunGrid) -> list[RunScenario]:
    if not (grid.workers or grid.orders or grid.on_end or grid.concurrency):
        return []
    found = []
    for workers, order, on_end in itertools.product(
        grid.workers or (None,), grid.orders or ("first-come",), grid.on_end or (None,)
    ):
        devices = recording.devices if workers is None else workers * grid.slots
        words = [] if workers is None else [f"{workers} x {grid.slots} devices"]
        words += [order] if grid.orders else []
        words += [] if on_end is None else [f"on_end {on_end}"]
        words += [] if grid.concurrency is None else [f"{grid.concurrency} at once"]
        found.append(RunScenario(", ".join(words), devices, order, grid.concurrency, on_end))
    return found


def _gaps(results: Sequence[SimulatedRun]) -> list[str]:
    """Returns what was assumed of items that were not recorded."""
    guessed = dict.fromkeys(name for result in results for name in result.guessed)
    unknown = dict.fromkeys(name for result in results for name in result.unknown)
    lines = []
    if guessed:
        lines.append(f"Items that were not recorded take the median of their step: {', '.join(guessed)}.")
    if unknown:
        lines.append(f"Nothing was recorded of these steps, they take no time: {', '.join(unknown)}.")
    return lines


def dry_run(
    pipeline: PipelineSpec, durations_ms: Mapping[str, int], like: RunRecording | None, grid: RunGrid
) -> RunComparison:
    """Predicts how long a run of a compiled definition takes, from given durations or a recorded run's.

    What depends on results is assumed: conditions hold, a step with `each` over a reference has as many items
    as were recorded, or one, and a repeated step runs once.
    """
    counts = {} if like is None else _counts(like)
    steps = [_without_values(step, counts.get(step.name, 1)) for step in pipeline.steps]
    plain = pipeline.model_copy(update={"steps": steps, "outputs": {}})
    recording = RunRecording(
        pipeline.name or "pipeline",
        RunStarted(command_id="", pipeline=plain, sha256=digest(plain)),
        _traces(plain, durations_ms, like),
        devices=max(1, *(_devices(pipeline, step) for step in steps)) if like is None else like.devices,
    )
    scenarios = _scenarios(recording, grid) or [RunScenario("any number of devices", 10**9)]
    results = tuple(simulate_run(recording, scenario) for scenario in scenarios)
    assumed = (
        "Conditions (when) hold, and every step succeeds at its first attempt.",
        "Gates are approved at once unless they have a duration.",
        "A step with each has the items that it lists or that were recorded, else one; repeat is once.",
    )
    return RunComparison(recording, results, (*assumed, *_gaps(results)))


def _counts(like: RunRecording) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name, index in like.traces:
        counts[name] = max(counts.get(name, 0), index + 1)
    return counts


def _devices(pipeline: PipelineSpec, step: StepSpec) -> int:
    return (step.resources or pipeline.defaults.resources).devices


def _without_values(step: StepSpec, count: int) -> StepSpec:
    """Returns a step that needs what it needed, without what depends on the results of others."""
    changed: dict[str, Any] = {"parameters": {}, "inputs": {}, "when": "", "collect": "", "repeat": None}
    if step.each is not None:
        listed = references.source(step.each)
        changed["each"] = references.parse([0] * (len(listed) if isinstance(listed, list) else count))
    if step.spec is not None:
        changed["spec"] = {}
    if step.queue is not None:
        changed["queue"] = None
    return step.model_copy(update=changed)


def _traces(
    pipeline: PipelineSpec, durations_ms: Mapping[str, int], like: RunRecording | None
) -> dict[ItemKey, ItemTrace]:
    found: dict[ItemKey, ItemTrace] = {}
    for step in pipeline.steps:
        own = None if like is None else median_duration_ms(like, step.name)
        busy_ms = durations_ms.get(step.name, own if own is not None or step.gate is None else 0)
        if busy_ms is not None:
            end = "approved" if step.gate is not None else "DONE" if step.kind is not None else "finished"
            count = len(step.each) if isinstance(step.each, list) else 1
            for index in range(count):
                found[step.name, index] = ItemTrace(0, busy_ms=busy_ms, end=end)
    return found
