"""A recorded job of incremental learning, for what-if."""

import hashlib
import random

from trackside.aggregates.rounds.job.job_spec import JobSpec
from trackside.whatif.job_recording import JobRecording, RoundTrace

SAMPLES = 100
BEGAN_MS, MINUTE_MS = 1_767_225_600_000, 60_000


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
