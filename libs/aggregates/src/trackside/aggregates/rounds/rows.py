"""Rows of incremental jobs and of their inference services, from their state."""

from collections.abc import Iterable

from trackside.aggregates.rounds.decisions.services import all_counts
from trackside.aggregates.rounds.display.deployment_rows import DeploymentRows, HardExampleRows, TriggerRows
from trackside.aggregates.rounds.display.history_rows import (
    DefinitionRows,
    RoundRows,
    SampleRangeRows,
    StageRows,
)
from trackside.aggregates.rounds.display.trigger_display import trigger_rows
from trackside.aggregates.rounds.job.split import count
from trackside.aggregates.rounds.state import IncrementalJob, job_of
from trackside.contracts.envelope.message import Event
from trackside.domain.rows.cells import json_text, time_or_null, without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream

RECORD_ROWS = (
    DefinitionRows(),
    RoundRows(),
    StageRows(),
    SampleRangeRows(),
    TriggerRows(),
    DeploymentRows(),
    HardExampleRows(),
)
"""Rows of what a job forgets after a round."""


class IncrementalJobRows:
    """One row per job: where it is, its samples, what is live."""

    table = Table(
        "incremental_jobs",
        (
            *("job_id", "name", "status", "reason", "dataset", "model"),
            *("round", "ended_rounds", "failed_rounds", "stage", "stage_state", "stage_since_ms"),
            *("blocked", "blocked_message"),
            *("samples", "waiting_samples", "round_samples", "evaluation_samples", "new_evaluation_samples"),
            *("waiting_range", "evaluation_ranges", "triggers"),
            *("live_model", "live_version", "live_sha256", "trained_version"),
            *("update_number", "update_version", "update_open", "was_live"),
            *("waits_for_approval", "approval_due_ms"),
            *("services", "inferences", "hard_examples", "new_hard_examples"),
            *("started_ms", "last_round_ms", "ended_ms"),
        ),
        key_width=1,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the job of any event of its stream."""
        return self.keys(stream)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream's job, if it has one."""
        return () if job_of(stream) is None else ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the job."""
        job = job_of(stream)
        assert job is not None
        going, pool, live, last = job.round, job.pool, job.live, job.last_trained
        return (
            *key,
            without_nul(job.spec.name),
            job.status.value,
            without_nul(job.reason),
            job.spec.dataset.name,
            job.spec.model,
            *(job.rounds, job.ended_rounds, job.failed_rounds),
            *(job.stage, job.stage_state.value, job.stage_since_ms),
            without_nul(job.blocked),
            without_nul(job.blocked_message),
            *_sample_cells(job),
            json_text([pool.first, pool.end]),
            json_text(pool.versions),
            json_text(trigger_rows(job)),
            *(live.model, live.version, live.artifact.sha256),
            None if last is None else last.version,
            job.updates,
            None if job.update is None else job.update.model.version,
            json_text([] if job.update is None else list(job.update.open)),
            json_text(job.newest_live),
            going is not None and going.waits_for_approval,
            None if going is None or not going.waits_for_approval else going.approval_due_ms,
            sum(not service.retired for service in job.services.values()),
            sum(counts.inferences for counts in all_counts(job)),
            sum(counts.hard for counts in all_counts(job)),
            job.hard_examples,
            job.created_ms,
            time_or_null(job.last_round_ms) if job.ended_rounds else None,
            job.clock_ms if job.over else None,
        )


def _sample_cells(job: IncrementalJob) -> tuple[int, int, int, int, int]:
    """Returns how many samples there are: of the dataset, that wait, in the round, to evaluate with, new."""
    pool, going = job.pool, job.round
    held = 0 if going is None else count(going.segments, *going.train, "train")
    samples = max(0, pool.end - job.spec.dataset.begin)
    return samples, pool.training, held, pool.evaluation, pool.newest


class InferenceServiceRows:
    """One row per replica of a job's inference services."""

    table = Table(
        "inference_services",
        (
            *("job_id", "target", "name", "replica", "task_type", "task_id", "running", "retired"),
            *("update_number", "sha256", "windows", "inferences", "hard_examples"),
        ),
        key_width=2,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns all services of the job: there are few."""
        return self.keys(stream)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the services of the stream's job."""
        job = job_of(stream)
        return () if job is None else ((stream.stream_id, target) for target in tuple(job.services))

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a service."""
        job, target = job_of(stream), str(key[1])
        assert job is not None
        service = job.services[target]
        return (
            *key,
            service.spec.name,
            int(target.rpartition(".")[2]),
            without_nul(service.spec.task_type),
            f"{job.job_id}.{target}.{service.tasks}" if service.tasks else "",
            service.running,
            service.retired,
            service.serves,
            without_nul(service.sha256),
            *(service.counts.windows, service.counts.inferences, service.counts.hard),
        )
