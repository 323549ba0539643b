"""Compares a recorded search with the same search under other scenarios: cost and best value. Pure."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from trackside.aggregates.search.messages import TrialStatus
from trackside.aggregates.search.space.builtin_assessors import check_assessor
from trackside.replay.history.errors import BadScenarioError
from trackside.whatif.recording import Recording, TrialTrace
from trackside.whatif.resimulate import (
    PLACEMENT_ORDERS,
    PlacementOrder,
    Scenario,
    SimulatedSearch,
    resimulate,
)

AS_RECORDED = "as recorded"
AssessorOptions = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ScenarioGrid:
    """Each assessor with each fleet (workers, slots) and order is a scenario; empty: as recorded."""

    assessors: Sequence[AssessorOptions] = ()
    workers: Sequence[int] = ()
    slots: int = 1
    orders: Sequence[PlacementOrder] = ()
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One scenario compared with the recording; ratios are parts of 1.

    `value_lost` is by how much its best value is worse than the recorded one, None if no trial has a value.
    `rank_of_best` is the rank of its best trial among the recorded ones. `unknown_trials` counts those that
    the recorded assessor had stopped and this one doesn't: their final values are unknown.
    """

    search: SimulatedSearch
    makespan_saved: float
    device_saved: float
    stopped_trials: tuple[int, ...]
    unknown_trials: int
    best_trial_stopped: bool
    best: TrialTrace | None
    value_lost: float | None
    rank_of_best: int | None

    @property
    def mode(self) -> str:
        """Returns `freed` if freed slots are used, else `frozen`."""
        return "freed" if self.search.scenario.freed else "frozen"

    @property
    def stops(self) -> int:
        """How many trials were stopped early: by its assessor, or without one as many as in the record."""
        if self.search.scenario.assessor is not None:
            return len(self.stopped_trials)
        return sum(trial.trace.status is TrialStatus.EARLY_STOPPED for trial in self.search.trials)

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON form."""
        scenario = self.search.scenario
        return {
            "scenario": scenario.name,
            "mode": self.mode,
            "assessor": scenario.assessor,
            "devices": scenario.devices,
            "concurrency": scenario.concurrency,
            "policy": scenario.order,
            "makespan_s": self.search.makespan_ms / 1000,
            "makespan_saved": self.makespan_saved,
            "device_s": self.search.device_ms / 1000,
            "device_saved": self.device_saved,
            "stops": self.stops,
            "stopped_trials": list(self.stopped_trials),
            "unknown_trials": self.unknown_trials,
            "best_trial_killed": self.best_trial_stopped,
            "best_trial": None if self.best is None else self.best.number,
            "best_value": None if self.best is None else self.best.value,
            "value_lost": self.value_lost,
            "rank_of_best": self.rank_of_best,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """A recording and the results of its scenarios; the first one simulates the search as it was."""

    recording: Recording
    results: tuple[ScenarioResult, ...]
    best: TrialTrace | None
    assumptions: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON form."""
        recording = self.recording
        return {
            "stream": recording.stream_id,
            "direction": recording.direction,
            "recorded": {
                "trials": len(recording.traces),
                "makespan_s": recording.makespan_ms / 1000,
                "device_s": sum(t.busy_ms * t.devices for t in recording.traces) / 1000,
                "best_trial": None if self.best is None else self.best.number,
                "best_value": None if self.best is None else self.best.value,
                "assessor": recording.assessor,
                "devices": recording.devices,
                "concurrency": recording.concurrency,
            },
            "scenarios": [result.as_json() for result in self.results],
            "assumptions": list(self.assumptions),
        }


def parse_assessor(text: str) -> dict[str, Any]:
    """Reads `median:n_warmup_steps=5,interval_steps=2`; raises BadScenarioError with what is expected.

    A value is JSON where it is, else text. A comma within brackets separates nothing.
    """
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for part in _parts(rest):
        option, equals, value = part.partition("=")
        if not equals:
            raise BadScenarioError(f"{part!r} of {text!r} is not an option: expected NAME:option=value,...")
        try:
            options[option.strip()] = json.loads(value)
        except ValueError:
            options[option.strip()] = value.strip()
    found = {"name": name.strip(), "options": options}
    faults = check_assessor(found)
    if faults:
        raise BadScenarioError("\n  ".join(f"{path.removeprefix('$.')}: {why}" for path, why in faults))
    return found


def _parts(text: str) -> list[str]:
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def parse_placement_order(text: str) -> PlacementOrder:
    """Reads the name of a order; raises BadScenarioError."""
    if text not in PLACEMENT_ORDERS:
        raise BadScenarioError(f"{text!r} is not a placement order: expected {', '.join(PLACEMENT_ORDERS)}")
    return text


def assessor_name(assessor: AssessorOptions) -> str:
    """Formats an assessor as it is typed on the command line."""
    options = ",".join(f"{name}={_written(value)}" for name, value in assessor["options"].items())
    return f"{assessor['name']}:{options}" if options else str(assessor["name"])


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def compare(recording: Recording, grid: ScenarioGrid) -> Comparison:
    """Simulates the recording as it was and under each scenario of a grid; raises BadScenarioError."""
    plain = Scenario(AS_RECORDED, recording.devices, recording.concurrency)
    frozen = Scenario(AS_RECORDED, recording.devices, recording.concurrency, freed=False)
    base = {True: resimulate(recording, plain), False: resimulate(recording, frozen)}
    found = [base[True]]
    needed = max(trace.devices for trace in recording.traces)
    for scenario in scenarios(recording, grid):
        if scenario.devices < needed:
            raise BadScenarioError(f"a trial needs {needed} devices; {scenario.name} has {scenario.devices}")
        found.append(resimulate(recording, scenario))
    best = best_of(recording, recording.traces)
    results = tuple(_result(recording, search, base[search.scenario.freed], best) for search in found)
    return Comparison(recording, results, best, tuple(_assumptions(recording, results)))


def scenarios(recording: Recording, grid: ScenarioGrid) -> list[Scenario]:
    """Lists the scenarios of a grid; those with the recorded fleet are there frozen as well as freed."""
    fleets = [(f"{n} x {grid.slots} devices", n * grid.slots) for n in grid.workers]
    concurrency = recording.concurrency if grid.concurrency is None else grid.concurrency
    combinations = itertools.product(
        grid.assessors or (None,), fleets or (("", recording.devices),), grid.orders or ("",)
    )
    found = []
    for assessor, (fleet, devices), order in combinations:
        at_once = "" if grid.concurrency is None else f"{concurrency} at once"
        parts = ["" if assessor is None else assessor_name(assessor), fleet, at_once, order]
        name = ", ".join(filter(None, parts)) or AS_RECORDED
        if assessor is not None and not any(parts[1:]):
            found.append(Scenario(name, devices, concurrency, False, assessor))
        if any(parts):
            placement = cast(PlacementOrder, order or "first-come")
            found.append(Scenario(name, devices, concurrency, True, assessor, placement))
    return found


def best_of(recording: Recording, traces: Sequence[TrialTrace]) -> TrialTrace | None:
    """Returns the trial with the best value among those that succeeded, the first of equal ones."""
    return next(iter(_ranked(recording, traces)), None)


def _ranked(recording: Recording, traces: Sequence[TrialTrace]) -> list[TrialTrace]:
    sign = -1.0 if recording.direction == "maximize" else 1.0
    valued = [
        (sign * trace.value, trace.number, trace)
        for trace in traces
        if trace.status is TrialStatus.SUCCEEDED and trace.value is not None and math.isfinite(trace.value)
    ]
    return [trace for _, _, trace in sorted(valued, key=lambda item: item[:2])]


def _result(
    recording: Recording, search: SimulatedSearch, base: SimulatedSearch, best: TrialTrace | None
) -> ScenarioResult:
    finished = [trial.trace for trial in search.trials if not trial.stopped]
    left = best_of(recording, finished)
    stopped = tuple(sorted(trial.trace.number for trial in search.trials if trial.stopped))
    lost = rank = None
    if left is not None and best is not None:
        assert left.value is not None and best.value is not None
        lost = abs(best.value - left.value)
        rank = 1 + [trace.number for trace in _ranked(recording, recording.traces)].index(left.number)
    return ScenarioResult(
        search=search,
        makespan_saved=_saved(base.makespan_ms, search.makespan_ms),
        device_saved=_saved(base.device_ms, search.device_ms),
        stopped_trials=stopped,
        unknown_trials=0
        if search.scenario.assessor is None
        else sum(trace.status is TrialStatus.EARLY_STOPPED for trace in finished),
        best_trial_stopped=best is not None and best.number in stopped,
        best=left,
        value_lost=lost,
        rank_of_best=rank,
    )


def _saved(before_ms: int, after_ms: int) -> float:
    return (before_ms - after_ms) / before_ms if before_ms else 0.0


def _assumptions(recording: Recording, results: Sequence[ScenarioResult]) -> list[str]:
    """Lists the assumptions of the model, as sentences."""
    counted = "no stop was recorded"
    if recording.stops_recorded:
        counted = f"the median of {recording.stops_recorded} recorded stops"
    assumptions = [
        "Durations are as recorded, whichever device a trial runs on and whatever runs next to it.",
        "Values are as recorded: they depend neither on the device nor on the order of trials.",
        "The tuner is not asked again: trials, parameters and their order are the recorded ones, though "
        "other results could have led to other suggestions.",
        f"A stop takes effect {recording.stop_delay_ms} ms after its report ({counted}); "
        "a trial that is over by then counts as finished.",
        "frozen: every trial begins when it did, and the device of a stopped trial stays idle. freed: the "
        "next trial begins once a slot and devices are free; no other search uses them.",
    ]
    most = max(result.search.scenario.devices for result in results)
    slots = max(result.search.scenario.concurrency for result in results)
    needed = max(trace.devices for trace in recording.traces)
    if most > slots * needed:
        assumptions.append(
            f"The search has {slots} trials at once: more devices stay idle; --concurrency changes that."
        )
    stopped = sum(trace.status is TrialStatus.EARLY_STOPPED for trace in recording.traces)
    if stopped:
        assumptions.append(
            f"{stopped} trials were stopped early in the recording. Where an assessor doesn't stop one of "
            "them, it ends where it did, without a value: no more of it was recorded."
        )
    if recording.omitted_trials:
        assumptions.append(
            f"{recording.omitted_trials} trials that had not ended, or never had a device, are left out."
        )
    return assumptions
