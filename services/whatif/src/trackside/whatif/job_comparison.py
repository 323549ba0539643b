"""Compares a recorded incremental job with the same job under other triggers. Pure."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.rounds.job.trigger_messages import Trigger
from trackside.aggregates.rounds.stages import triggers
from trackside.replay.history.errors import BadScenarioError, NotRecordedError
from trackside.whatif.compare import AS_RECORDED
from trackside.whatif.job_recording import JobRecording
from trackside.whatif.job_scenario import (
    JobScenario,
    check_train_prob,
    check_train_threshold,
    deploy_metric,
)
from trackside.whatif.job_simulation import (
    ANY,
    MOST_LIVE,
    Measured,
    SimulatedJob,
    SimulatedRound,
    simulate_job,
)

MOST_SCENARIOS = 10_000
_ASSUMED = (
    "Samples, hard examples, pauses and commands are as recorded, whichever model is live.",
    "The same samples and the same base give the same model; a model has the metrics that were recorded of "
    "it with the same samples. Nothing else is known of models: a round that depends on more is unknown.",
    f"If more than {MOST_LIVE} models may be live, which one is live is unknown.",
    "A round takes as long as recorded, deployed or not; a deployment that was not recorded succeeds.",
    "A deployment that was not recorded doesn't wait for deploy.check_period_s.",
)


@dataclass(frozen=True, slots=True)
class JobGrid:
    """Each value is combined with each of the other kinds; empty: as recorded."""

    thresholds: Sequence[float] = ()
    metric: str = ""
    deploy_triggers: Sequence[Trigger] = ()
    train_thresholds: Sequence[float] = ()
    train_probs: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class JobComparison:
    """A recording and the results of its scenarios; the first one is the job as it was."""

    recording: JobRecording
    results: tuple[SimulatedJob, ...]
    assumptions: tuple[str, ...]

    def name_of(self, digest: str) -> str:
        """Returns the name of a model: a version, or of which round of a scenario it is."""
        if digest == ANY.digest:
            return "unknown"
        if digest.startswith("?"):
            return f"unknown (round {digest[1:]})"
        return self.recording.names.get(digest, digest[:12])

    def saved_ms(self, result: SimulatedJob) -> int:
        """Returns how much device time a scenario saves; negative: it adds."""
        return self.results[0].device_ms - result.device_ms

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON form."""
        base = self.results[0]
        return {
            "stream": self.recording.stream_id,
            "recorded": {
                "rounds": len(self.recording.rounds),
                "deployed": sum(bool(each.live_ms) for each in self.recording.rounds),
                "device_s": base.device_ms / 1000,
            },
            "scenarios": [self._scenario(result) for result in self.results],
            "assumptions": list(self.assumptions),
        }

    def _scenario(self, result: SimulatedJob) -> dict[str, Any]:
        scenario = result.scenario
        trigger = scenario.deploy_trigger
        return {
            "scenario": scenario.name,
            "threshold": scenario.threshold,
            "deploy_trigger": None if trigger is None else trigger.model_dump(mode="json"),
            "train_threshold": scenario.train_threshold,
            "train_prob": scenario.train_prob,
            "rounds": len(result.rounds),
            "unknown_models": result.unknown_models,
            "deployed": result.count("deploy"),
            "kept": result.count("keep"),
            "failed": result.count("failed"),
            "unknown": result.count("unknown"),
            "device_s": result.device_ms / 1000,
            "device_s_saved": self.saved_ms(result) / 1000,
            "live": [
                {"from_ms": ms, "models": [self.name_of(each) for each in models]}
                for ms, models in result.live
            ],
            "by_round": [self._round(each) for each in result.rounds],
        }

    def _round(self, round_: SimulatedRound) -> dict[str, Any]:
        return {
            "round": round_.number,
            "fired_ms": round_.fired_ms,
            "train": list(round_.train),
            "recorded_round": round_.recorded,
            "model": self.name_of(round_.trained) if round_.trained in self.recording.names else None,
            "result": round_.verdict,
            "reason": round_.reason or None,
            "values": {name: each.model_dump(mode="json") for name, each in round_.values.items()},
            "live": [self.name_of(each) for each in round_.live],
        }


def compare_job(recording: JobRecording, grid: JobGrid) -> JobComparison:
    """Replays the rounds of a job as it was, and under each scenario of a grid; raises BadScenarioError."""
    if not recording.rounds:
        raise NotRecordedError(f"{recording.stream_id} has no rounds at that moment; what-if needs one")
    scenarios = [JobScenario(AS_RECORDED), *job_scenarios(recording, grid)]
    measured = Measured(recording)
    results = tuple(simulate_job(recording, scenario, measured) for scenario in scenarios)
    return JobComparison(recording, results, (*_ASSUMED, *_gaps(recording, results)))


def job_scenarios(recording: JobRecording, grid: JobGrid) -> list[JobScenario]:
    """Lists the scenarios of a grid; raises BadScenarioError for one that changes nothing of the job."""
    spec = recording.specs[-1][1]
    if grid.deploy_triggers and grid.thresholds:
        raise BadScenarioError("give thresholds or whole triggers of deploy, not both")
    metric = deploy_metric(spec, grid.metric) if grid.thresholds or grid.metric else ""
    if grid.train_thresholds:
        check_train_threshold(spec)
    for train_prob in grid.train_probs:
        check_train_prob(train_prob)
    kinds: list[Sequence[Any]] = [
        grid.thresholds,
        grid.deploy_triggers,
        grid.train_thresholds,
        grid.train_probs,
    ]
    combinations = list(itertools.product(*(kind or (None,) for kind in kinds)))
    if len(combinations) > MOST_SCENARIOS:
        raise BadScenarioError(f"{len(combinations):,} scenarios; expected at most {MOST_SCENARIOS:,}")
    found = []
    for threshold, trigger, train_threshold, train_prob in combinations:
        words = [] if threshold is None else [f"{metric} {threshold:g}"]
        words += [] if trigger is None else [trigger_name(trigger)]
        words += [] if train_threshold is None else [f"{train_threshold:g} samples"]
        words += [] if train_prob is None else [f"train_prob {train_prob:g}"]
        if words:
            name = ", ".join(words)
            found.append(JobScenario(name, threshold, metric, trigger, train_threshold, train_prob))
    return found


def trigger_name(trigger: Trigger) -> str:
    """Returns a trigger in short: its conditions, or its type."""
    conditions = [f"{c.metric} {c.operator} {c.threshold:g}" for c in triggers.conditions_of(trigger)]
    if not conditions:
        return trigger.type
    return f" {'or' if trigger.type == 'any_of' else 'and'} ".join(conditions)


def _gaps(recording: JobRecording, results: Sequence[SimulatedJob]) -> list[str]:
    lines = []
    if any(result.unknown_models for result in results):
        lines.append(
            "A round whose model was never trained takes the median time and device time of those recorded."
        )
    kinds = {stage.kind for _, spec in recording.specs for stage in (spec.train, spec.eval) if stage.kind}
    if kinds:
        lines.append("The device time of searches and pipelines that are stages is not counted.")
    base = results[0]
    different = [
        each.number
        for each, was in zip(base.rounds, recording.rounds, strict=False)
        if each.verdict in ("deploy", "keep") and (each.verdict == "deploy") is not bool(was.live_ms)
    ]
    if different:
        listed = ", ".join(map(str, different[:5]))
        lines.append(f"Rounds {listed} are decided otherwise here than in the record.")
    return lines
