"""The numbers of a job that monitoring follows: samples, rounds, stage, metrics, what is live. Pure."""

from collections.abc import Iterator

from trackside.aggregates.rounds.decisions.services import all_counts
from trackside.aggregates.rounds.display.round_display import as_number
from trackside.aggregates.rounds.state import IncrementalJob
from trackside.domain.folding.signals import GaugeReading

PREFIX = "trackside.dispatcher"
MAX_METRICS = 20
"""How many metrics of each model are followed, the first ones by name."""


def readings(job: IncrementalJob) -> Iterator[GaugeReading]:
    """Yields the numbers of a job; none once it is over."""
    if job.over:
        return
    pool, counts = job.pool, all_counts(job)
    numbers: dict[str, float] = {
        "job_training.samples": pool.training,
        "job_evaluation.samples": pool.evaluation,
        "job_begun.rounds": job.rounds,
        "job_failed.rounds": job.failed_rounds,
        "job_blocked.stages": int(bool(job.blocked)),
        "job_live.versions": job.live.version,
        "job_updating.targets": 0 if job.update is None else len(job.update.open),
        "job_inferences.requests": sum(each.inferences for each in counts),
        "job_hard.requests": sum(each.hard for each in counts),
    }
    for name, value in numbers.items():
        yield GaugeReading(f"{PREFIX}.{name}", (job.job_id,), value)
    place = (job.job_id, job.stage, job.stage_state.value)
    yield GaugeReading(f"{PREFIX}.job_stage.jobs", place, 1)
    yield from _metrics(job)


def _metrics(job: IncrementalJob) -> Iterator[GaugeReading]:
    found = {} if job.round is None else job.round.metrics
    for model, metrics in sorted(found.items()):
        for metric in sorted(metrics)[:MAX_METRICS]:
            value = as_number(metrics[metric])
            if value is not None:
                labels = (job.job_id, model, metric)
                yield GaugeReading(f"{PREFIX}.job_metric.values", labels, value, lasting=True)
