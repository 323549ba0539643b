"""What a recorded search would have cost and lost under other scenarios, beside what it did. Pure."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from trackside.contracts.searches import TrialStatus
from trackside.dispatcher.assessors.builtin_assessors import check_assessor
from trackside.replay.history.errors import BadScenarioError
from trackside.whatif.recording import Recording, Trace
from trackside.whatif.resimulate import POLICIES, Outcome, Policy, Scenario, run

AS_RECORDED = "as recorded"
Asked = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What is compared: each assessor with each fleet (workers, slots) and policy; empty: as recorded."""

    assessors: Sequence[Asked] = ()
    workers: Sequence[int] = ()
    slots: int = 1
    policies: Sequence[Policy] = ()
    concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario beside the record; ratios are parts of 1, values those of the search's direction.

    `lost` is by how much its best value is worse than the recorded one, None if no trial has a value.
    `rank` is the place of its best trial among the recorded ones. `unknown` counts the trials that the
    recorded assessor had stopped, and this one lets go on: what they would have come to isn't known.
    """

    outcome: Outcome
    makespan_saved: float
    device_saved: float
    stopped: tuple[int, ...]
    unknown: int
    best_killed: bool
    best: Trace | None
    lost: float | None
    rank: int | None

    @property
    def mode(self) -> str:
        """Says whether freed slots are used."""
        return "freed" if self.outcome.scenario.freed else "frozen"

    @property
    def stops(self) -> int:
        """How many trials were stopped early: by its assessor, or without one as many as in the record."""
        if self.outcome.scenario.assessor is not None:
            return len(self.stopped)
        return sum(fate.trace.status is TrialStatus.EARLY_STOPPED for fate in self.outcome.fates)

    def as_json(self) -> dict[str, Any]:
        """Gives it for programs."""
        scenario = self.outcome.scenario
        return {
            "scenario": scenario.name,
            "mode": self.mode,
            "assessor": scenario.assessor,
            "devices": scenario.places,
            "concurrency": scenario.concurrency,
            "policy": scenario.policy,
            "makespan_s": self.outcome.makespan_ms / 1000,
            "makespan_saved": self.makespan_saved,
            "device_s": self.outcome.device_ms / 1000,
            "device_saved": self.device_saved,
            "stops": self.stops,
            "stopped_trials": list(self.stopped),
            "unknown_trials": self.unknown,
            "best_trial_killed": self.best_killed,
            "best_trial": None if self.best is None else self.best.number,
            "best_value": None if self.best is None else self.best.value,
            "value_lost": self.lost,
            "rank_of_best": self.rank,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The record, the model's own run of it, and what was asked; the first row is as recorded."""

    recording: Recording
    rows: tuple[Row, ...]
    best: Trace | None
    assumptions: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Gives it for programs."""
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
                "devices": recording.places,
                "concurrency": recording.concurrency,
            },
            "scenarios": [row.as_json() for row in self.rows],
            "assumptions": list(self.assumptions),
        }


def parse_assessor(text: str) -> dict[str, Any]:
    """Reads `median:n_warmup_steps=5,interval_steps=2`; raises BadScenarioError with what is expected.

    A value is JSON where it is, else text. A comma within brackets parts nothing.
    """
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for part in _parts(rest):
        option, equals, value = part.partition("=")
        if not equals:
            raise BadScenarioError(f"{part!r} of {text!r} is no option: expected NAME:option=value,...")
        try:
            options[option.strip()] = json.loads(value)
        except ValueError:
            options[option.strip()] = value.strip()
    found = {"name": name.strip(), "options": options}
    fault = check_assessor(found)
    if fault is not None:
        raise BadScenarioError(f"{fault[0].removeprefix('$.')}: {fault[1]}")
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


def parse_policy(text: str) -> Policy:
    """Reads the name of a policy; raises BadScenarioError."""
    if text not in POLICIES:
        raise BadScenarioError(f"{text!r} is no order of placement: expected {', '.join(POLICIES)}")
    return text


def assessor_name(assessor: Asked) -> str:
    """Writes an assessor as one types it."""
    options = ",".join(f"{name}={_written(value)}" for name, value in assessor["options"].items())
    return f"{assessor['name']}:{options}" if options else str(assessor["name"])


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def compare(recording: Recording, question: Question) -> Comparison:
    """Runs the record as it was and under everything that is asked; raises BadScenarioError."""
    plain = Scenario(AS_RECORDED, recording.places, recording.concurrency)
    frozen = Scenario(AS_RECORDED, recording.places, recording.concurrency, freed=False)
    base = {True: run(recording, plain), False: run(recording, frozen)}
    found = [base[True]]
    needed = max(trace.devices for trace in recording.traces)
    for scenario in scenarios(recording, question):
        if scenario.places < needed:
            raise BadScenarioError(f"a trial needs {needed} devices; {scenario.name} has {scenario.places}")
        found.append(run(recording, scenario))
    best = best_of(recording, recording.traces)
    rows = tuple(_row(recording, outcome, base[outcome.scenario.freed], best) for outcome in found)
    return Comparison(recording, rows, best, tuple(_assumptions(recording, rows)))


def scenarios(recording: Recording, question: Question) -> list[Scenario]:
    """Lists every scenario that a question asks for: each once frozen, if its fleet is the recorded one."""
    fleets = [(f"{n} x {question.slots} devices", n * question.slots) for n in question.workers]
    concurrency = recording.concurrency if question.concurrency is None else question.concurrency
    asked = itertools.product(
        question.assessors or (None,), fleets or (("", recording.places),), question.policies or ("",)
    )
    found = []
    for assessor, (fleet, places), policy in asked:
        at_once = "" if question.concurrency is None else f"{concurrency} at once"
        parts = ["" if assessor is None else assessor_name(assessor), fleet, at_once, policy]
        name = ", ".join(filter(None, parts)) or AS_RECORDED
        if assessor is not None and not any(parts[1:]):
            found.append(Scenario(name, places, concurrency, False, assessor))
        if any(parts):
            order = cast(Policy, policy or "first-come")
            found.append(Scenario(name, places, concurrency, True, assessor, order))
    return found


def best_of(recording: Recording, traces: Sequence[Trace]) -> Trace | None:
    """Gives the trial with the best value among those that succeeded; the first, of equal ones."""
    return next(iter(_ranked(recording, traces)), None)


def _ranked(recording: Recording, traces: Sequence[Trace]) -> list[Trace]:
    sign = -1.0 if recording.direction == "maximize" else 1.0
    valued = [
        (sign * trace.value, trace.number, trace)
        for trace in traces
        if trace.status is TrialStatus.SUCCEEDED and trace.value is not None and math.isfinite(trace.value)
    ]
    return [trace for _, _, trace in sorted(valued, key=lambda item: item[:2])]


def _row(recording: Recording, outcome: Outcome, base: Outcome, best: Trace | None) -> Row:
    kept = [fate.trace for fate in outcome.fates if not fate.stopped]
    left = best_of(recording, kept)
    stopped = tuple(sorted(fate.trace.number for fate in outcome.fates if fate.stopped))
    lost = rank = None
    if left is not None and best is not None:
        assert left.value is not None and best.value is not None
        lost = abs(best.value - left.value)
        rank = 1 + [trace.number for trace in _ranked(recording, recording.traces)].index(left.number)
    return Row(
        outcome=outcome,
        makespan_saved=_saved(base.makespan_ms, outcome.makespan_ms),
        device_saved=_saved(base.device_ms, outcome.device_ms),
        stopped=stopped,
        unknown=0
        if outcome.scenario.assessor is None
        else sum(trace.status is TrialStatus.EARLY_STOPPED for trace in kept),
        best_killed=best is not None and best.number in stopped,
        best=left,
        lost=lost,
        rank=rank,
    )


def _saved(before_ms: int, after_ms: int) -> float:
    return (before_ms - after_ms) / before_ms if before_ms else 0.0


def _assumptions(recording: Recording, rows: Sequence[Row]) -> list[str]:
    """Says what the numbers rest on."""
    counted = "no stop was recorded"
    if recording.stops_recorded:
        counted = f"the median of {recording.stops_recorded} recorded stops"
    said = [
        "Durations are as recorded: a trial holds its devices as long as it did, wherever and beside whom.",
        "Values are as recorded: they depend neither on the device nor on the order of trials.",
        "The tuner is not asked again: trials, parameters and their order are the recorded ones, though "
        "other ends could have led to other suggestions.",
        f"A stop takes effect {recording.stop_ms} ms after its report ({counted}); "
        "a trial that is over by then has ended by itself.",
        "frozen: every trial begins when it did, what a stopped one leaves idle stays idle. freed: the next "
        "trial begins once a slot and devices are free; nobody else uses them.",
    ]
    most = max(row.outcome.scenario.places for row in rows)
    slots = max(row.outcome.scenario.concurrency for row in rows)
    needed = max(trace.devices for trace in recording.traces)
    if most > slots * needed:
        said.append(
            f"The search has {slots} trials at once: more devices idle; --concurrency asks about more."
        )
    stopped = sum(trace.status is TrialStatus.EARLY_STOPPED for trace in recording.traces)
    if stopped:
        said.append(
            f"{stopped} trials were stopped early in the record. Where an assessor lets one of them go on, "
            "it ends where it did, without a value: the record has no more of it."
        )
    if recording.left_out:
        said.append(f"{recording.left_out} trials that had not ended, or never had a device, are left out.")
    return said
