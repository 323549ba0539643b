"""What-if of an incremental job: 100 thresholds of deploy over 500 recorded rounds, in memory."""

import hashlib
import random

from bench.measurements import Figure, Goal, Measurements, check_count
from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.garbage import collecting_seldom
from trackside.whatif.job_comparison import JobGrid, compare_job
from trackside.whatif.job_recording import JobRecording, RoundTrace

ROUNDS, THRESHOLDS = 500, 100
SAMPLES = 100
SEED = 17
BEGAN_MS, MINUTE_MS = 1_767_225_600_000, 60_000
LIMIT_S, AIM_S = 1.0, 0.5


def measure() -> Measurements:
    """Decides 500 rounds again with each of 100 thresholds; garbage is collected as `replay whatif` does."""
    recording = recorded_rounds(ROUNDS, SEED)
    thresholds = [0.001 * number for number in range(THRESHOLDS)]
    with collecting_seldom():
        began = monotonic_s()
        comparison = compare_job(recording, JobGrid(thresholds=thresholds))
        seconds = monotonic_s() - began
    goal = Goal(LIMIT_S, AIM_S, at_most=True)
    figure = Figure("S3", f"{THRESHOLDS} thresholds over {ROUNDS} rounds", seconds, "s", goal=goal)
    decided = sum(len(result.rounds) for result in comparison.results)
    counted = [check_count("rounds decided again", (THRESHOLDS + 1) * ROUNDS, decided)]
    return Measurements([figure], counted, {"back_test_s": seconds})


def recorded_rounds(count: int, seed: int) -> JobRecording:
    """Returns a job of so many rounds, a minute each, whose accuracies are random around a rising mean."""
    source = random.Random(seed)
    spec = JobSpec.model_validate(
        {
            "dataset": {"name": "feed", "train_prob": 0.8},
            "model": "digits",
            "initial_model": {"model": "digits", "version": 1},
            "train": {"task_type": "train"},
            "eval": {"task_type": "evaluate"},
            "deploy": {
                "trigger": {
                    "type": "condition",
                    "metric": "accuracy_delta",
                    "operator": ">",
                    "threshold": 0.05,
                }
            },
            "output": {"url": "/srv/out"},
        }
    )
    live, base = _digest(0), _digest(0)
    recording = JobRecording("digits", BEGAN_MS, live, live, specs=[(BEGAN_MS, spec)])
    recording.names[live] = "digits@1"
    live_accuracy = 0.5
    for number in range(1, count + 1):
        trained, accuracy = _digest(number), 0.5 + 0.4 * number / count + source.gauss(0, 0.05)
        fired_ms, end = BEGAN_MS + number * MINUTE_MS, number * SAMPLES
        deploy = accuracy - live_accuracy > 0.05
        recording.names[trained] = f"digits@{number + 1}"
        trace = RoundTrace(number, fired_ms, spec, (end - SAMPLES, end), base=base, trained=trained)
        trace.evaluation = "feed", max(0, end - 5 * SAMPLES), end
        trace.compared, trace.evaluated_ms, trace.decided_ms = live, fired_ms + 20_000, fired_ms + 30_000
        trace.metrics = {"trained": {"accuracy": accuracy}, "deployed": {"accuracy": live_accuracy}}
        trace.deploy, trace.live_ms = deploy, fired_ms + 31_000 if deploy else 0
        trace.ended_ms, trace.status, trace.device_ms = fired_ms + 32_000, "completed", 25_000
        recording.rounds.append(trace)
        recording.last_ms, base = trace.ended_ms, trained
        live, live_accuracy = (trained, accuracy) if deploy else (live, live_accuracy)
    return recording


def _digest(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()
