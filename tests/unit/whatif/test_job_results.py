"""The results of scenarios of a long job stay those that were recorded before they were computed faster."""

import json
import random
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.unit.whatif.recorded_rounds import recorded_rounds
from trackside.aggregates.rounds.job.trigger_messages import MetricCondition
from trackside.whatif.job_comparison import JobComparison, JobGrid, compare_job
from trackside.whatif.job_recording import JobRecording
from trackside.whatif.job_scenario import parse_deploy_trigger
from trackside.whatif.job_simulation import SimulatedRound

DEPLOY = Path(__file__).parents[3] / "deploy"
ROUNDS, SEED = 120, 18


@pytest.fixture
def eventful() -> JobRecording:
    """Returns a job of 120 rounds: some fail, are forced, or not evaluated; three models are taken back."""
    recording, source = recorded_rounds(ROUNDS, SEED), random.Random(SEED)
    began_ms, spec = recording.specs[0]
    often = MetricCondition(type="condition", metric="num_of_samples", operator=">=", threshold=80)
    spec = spec.model_copy(update={"train": spec.train.model_copy(update={"trigger": often})})
    recording.specs = [(began_ms, spec)]
    for trace in recording.rounds:
        trace.spec = spec
        recording.samples.append((trace.fired_ms - 1_000, *trace.train, {}))
        what = source.randrange(24)
        if what == 0:
            trace.status, trace.decided_ms, trace.live_ms, trace.metrics = "failed", 0, 0, {}
        elif what == 1:
            trace.metrics = {}
        elif what == 2 and trace.deploy:
            trace.status, trace.live_ms = "failed", 0
        elif what < 6:
            trace.forced, trace.deploy, trace.live_ms = True, True, trace.ended_ms - 1_000
    for number in (20, 55, 90):
        trace = recording.rounds[number]
        recording.rollbacks.append((trace.decided_ms - 5_000, recording.rounds[number - 9].trained))
    return recording


def above(metric: str, threshold: float) -> dict[str, Any]:
    return {"type": "condition", "metric": metric, "operator": ">", "threshold": threshold}


def digest(found: JobComparison) -> str:
    said = [([_numbers(each) for each in result.rounds], result.live) for result in found.results]
    return sha256(repr(said).encode()).hexdigest()[:16]


def _numbers(each: SimulatedRound) -> tuple[Any, ...]:
    values = {name: seen.value for name, seen in each.values.items()}
    times = each.fired_ms, each.ended_ms, each.device_ms
    return (each.number, times, each.train, each.trained, each.recorded, each.verdict, values, each.live)


@pytest.mark.thorough
def test_scenarios_give_the_results_that_were_recorded(eventful: JobRecording) -> None:
    triggers = [
        above("accuracy", 0.7),
        {"type": "any_of", "triggers": [above("accuracy", 0.75), above("accuracy_delta", 0.05)]},
        {"type": "all_of", "triggers": [above("accuracy", 0.6), above("accuracy_delta", -0.01)]},
        {"type": "any_of", "triggers": [above("accuracy", 0.7), {"type": "manual"}]},
    ]
    parsed = [parse_deploy_trigger(json.dumps(each)) for each in triggers]
    trained: dict[str, Any] = {"train_thresholds": [80, 100, 200], "train_probs": [0.8, 0.9]}
    for grid, expected in (
        (JobGrid(thresholds=[0.005 * number for number in range(40)]), "01f662026b79d12a"),
        (JobGrid(deploy_triggers=parsed), "6eb90c51ab807911"),
        (JobGrid(thresholds=[0.0, 0.05], **trained), "d265a0077b23f6b6"),
    ):
        assert digest(compare_job(eventful, grid)) == expected
