"""The gauges of incremental jobs: they follow the state, and go with it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from prometheus_client import REGISTRY

from tests.unit.aggregates.rounds.history import JobHistory
from trackside.aggregates.rounds.aggregate import ROUNDS
from trackside.aggregates.rounds.messages import JobStatus
from trackside.dispatcher.monitoring import stream_gauges
from trackside.dispatcher.monitoring.stream_gauges import StreamGauges
from trackside.domain.folding.aggregate import Aggregates

JOB = {"job": "digits-1"}


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"trackside_dispatcher_{name}", JOB | labels)


@dataclass
class Followed:
    told: JobHistory = field(default_factory=JobHistory)
    gauges: StreamGauges = field(default_factory=lambda: StreamGauges(Aggregates([ROUNDS])))

    def update(self) -> None:
        self.gauges.update(self.told.stream)

    def end(self) -> None:
        self.told.job.status = JobStatus.DELETED
        self.update()


@pytest.fixture
def followed() -> Iterator[Followed]:
    """Returns a job; its gauges are of the process, so they go with it."""
    made = Followed()
    yield made
    made.end()


def test_the_numbers_of_a_job_are_exported(followed: Followed) -> None:
    """I41: samples to train and to evaluate with, the round, the state, metrics of both models."""
    told = followed.told
    told.whole_round(0.9, 0.8)
    told.assign(50)
    told.report_hard_examples(100, 7)
    followed.update()
    assert (value("job_training_samples"), value("job_evaluation_samples")) == (40, 20)
    assert (value("job_begun_rounds"), value("job_live_versions")) == (1, 2)
    assert (value("job_inferences_requests"), value("job_hard_requests")) == (100, 7)
    assert value("job_stage_jobs", stage="train", state="Waiting") == 1


def test_only_the_present_stage_has_a_gauge_and_metrics_stay_until_the_next(followed: Followed) -> None:
    told = followed.told
    followed.update()
    told.assign(100)
    told.train()
    followed.update()
    assert value("job_stage_jobs", stage="train", state="Waiting") is None
    assert value("job_stage_jobs", stage="eval", state="Waiting") == 1
    # I41: new and old metrics; what is read between two rounds is that of the last one.
    told.evaluate(0.9, 0.8)
    followed.update()
    told.decide(deploy=False)
    told.end_round(deployed=False)
    followed.update()
    assert value("job_metric_values", model="trained", metric="accuracy") == 0.9
    assert value("job_metric_values", model="deployed", metric="accuracy") == 0.8


def test_jobs_that_are_over_or_many_have_none(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    told = followed.told
    told.whole_round(0.9, 0.8)
    followed.update()
    followed.end()
    assert value("job_begun_rounds") is None
    assert value("job_metric_values", model="trained", metric="accuracy") is None
    monkeypatch.setattr(stream_gauges, "MAX_STREAMS", 0)
    followed.update()
    assert value("job_begun_rounds") is None
