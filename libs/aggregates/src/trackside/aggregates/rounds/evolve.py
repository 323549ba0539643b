"""What each event does to a job of incremental learning: the guards that every reader folds with."""

from collections.abc import Callable
from typing import Any

from trackside.aggregates.rounds import messages
from trackside.aggregates.rounds.job import deploy_messages
from trackside.aggregates.rounds.job.split import added, count
from trackside.aggregates.rounds.messages import (
    IncrementalJobCreated,
    IncrementalJobDeleted,
    IncrementalJobPaused,
    IncrementalJobResumed,
    IncrementalJobUpdated,
    JobStatus,
    SamplesAssigned,
)
from trackside.aggregates.rounds.stages import deletion, deploy_events, stage_events
from trackside.aggregates.rounds.stages.task_ids import service_targets, targets_of
from trackside.aggregates.rounds.state import ConfigRemoval, IncrementalJob, SamplePool, ServiceState
from trackside.contracts.envelope.message import Message, Record
from trackside.domain.outcome import Outcome


def begin(job_id: str, event: IncrementalJobCreated, record: Record) -> IncrementalJob:
    """Makes the job of an IncrementalJobCreated event."""
    created_ms = record.append_time_ms
    job = IncrementalJob(
        job_id,
        event.job,
        created_ms,
        dataset=event.dataset,
        initial=event.initial,
        initial_eval=event.initial_eval,
        live=event.initial,
        last_round_ms=created_ms,
        stage_since_ms=created_ms,
        clock_ms=created_ms,
        changed_at=record.offset,
    )
    job.pool = _new_pool(job)
    _define_services(job)
    return job


def evolve(job: IncrementalJob, record: Record) -> Outcome:
    """Folds one of its events into the job; changes it only if it returns APPLIED."""
    handler = HANDLERS.get(type(record.message))
    if handler is None:
        return Outcome.DUPLICATE
    outcome = handler(job, record.message, record)
    if outcome is Outcome.APPLIED:
        job.changed_at, job.clock_ms = record.offset, record.append_time_ms
    return outcome


def _changed(job: IncrementalJob, change: int) -> Outcome | None:
    """Counts a change by a person; returns what becomes of its event if it is not the next one."""
    if change <= job.changes:
        return Outcome.DUPLICATE
    if change != job.changes + 1 or job.status is JobStatus.DELETED:
        return Outcome.OVERTAKEN
    job.changes = change
    return None


def _updated(job: IncrementalJob, event: IncrementalJobUpdated, record: Record) -> Outcome:
    if (found := _changed(job, event.change)) is not None:
        return found
    before, job.spec, job.dataset = job.spec, event.job, event.dataset
    if job.spec.dataset.name != before.dataset.name:
        job.pool = _new_pool(job)
    _define_services(job)
    return Outcome.APPLIED


def _paused(job: IncrementalJob, event: IncrementalJobPaused, record: Record) -> Outcome:
    if (found := _changed(job, event.change)) is not None:
        return found
    job.status, job.reason = JobStatus.PAUSED, event.reason
    return Outcome.APPLIED


def _resumed(job: IncrementalJob, event: IncrementalJobResumed, record: Record) -> Outcome:
    if (found := _changed(job, event.change)) is not None:
        return found
    job.status, job.reason = JobStatus.ACTIVE, ""
    return Outcome.APPLIED


def _deleted(job: IncrementalJob, event: IncrementalJobDeleted, record: Record) -> Outcome:
    if (found := _changed(job, event.change)) is not None:
        return found
    job.status, job.reason = JobStatus.DELETED, event.reason
    job.blocked = job.blocked_message = ""
    if job.spec.deploy.config is not None and job.updates:  # before the first update nothing was written
        job.removal = ConfigRemoval(record.append_time_ms)
    for service in job.services.values():
        service.retired = True
    return Outcome.APPLIED


def _new_pool(job: IncrementalJob) -> SamplePool:
    first = job.spec.dataset.begin
    return SamplePool(first=first, end=first, version_begin=first)


def _define_services(job: IncrementalJob) -> None:
    """Sets the definitions of services; one that runs with another definition is to end."""
    wanted = service_targets(job.spec.deploy)
    for target, spec in wanted.items():
        service = job.services.setdefault(target, ServiceState(spec))
        service.retired = service.running and (service.retired or service.spec != spec)
        service.spec = spec
    for target in job.services.keys() - wanted.keys():
        job.services[target].retired = True
    if job.update is not None:  # it waits for no target that the job has no more
        kept = targets_of(job.spec.deploy)
        job.update.open = {target: None for target in job.update.open if target in kept}


def _assigned(job: IncrementalJob, event: SamplesAssigned, record: Record) -> Outcome:
    pool = job.pool
    if event.end <= pool.end:
        return Outcome.DUPLICATE
    if event.begin != pool.end or event.size_bytes <= pool.size_bytes or job.status is JobStatus.DELETED:
        return Outcome.OVERTAKEN
    try:
        segments = added(pool.segments, event.begin, event.share)
        carry = segments[-1].carry_at(event.begin)
        trained = count(segments, event.begin, event.end, "train")
    except (ValueError, ZeroDivisionError):
        return Outcome.OVERTAKEN  # no share can be like that
    evaluated = event.end - event.begin - trained
    if (carry, trained, evaluated) != (event.carry, event.train, event.evaluation):
        return Outcome.OVERTAKEN
    pool.segments, pool.end, pool.metrics = segments, event.end, dict(event.metrics)
    pool.size_bytes, pool.sha256 = event.size_bytes, event.sha256
    if job.blocked == stage_events.NO_SAMPLES and (trained if job.stage == "train" else evaluated):
        job.blocked = job.blocked_message = ""
    return Outcome.APPLIED


HANDLERS: dict[type[Message], Callable[[IncrementalJob, Any, Record], Outcome]] = {
    IncrementalJobUpdated: _updated,
    IncrementalJobPaused: _paused,
    IncrementalJobResumed: _resumed,
    IncrementalJobDeleted: _deleted,
    SamplesAssigned: _assigned,
    messages.TriggerEvaluated: stage_events.trigger_evaluated,
    messages.SampleManifestWritten: stage_events.manifest_written,
    messages.RoundStarted: stage_events.round_started,
    messages.StageBlocked: stage_events.stage_blocked,
    messages.ModelTrained: stage_events.model_trained,
    messages.StageEnded: stage_events.stage_ended,
    messages.RoundEnded: stage_events.round_ended,
    deploy_messages.DeployDecided: deploy_events.deploy_decided,
    deploy_messages.DeployApproved: deploy_events.deploy_approved,
    deploy_messages.DeployRejected: deploy_events.deploy_rejected,
    deploy_messages.ModelUpdatePublished: deploy_events.update_published,
    deploy_messages.ModelCopied: deploy_events.model_copied,
    deploy_messages.ModelUpdateConfirmed: deploy_events.update_confirmed,
    deploy_messages.ModelUpdateFailed: deploy_events.update_failed,
    deploy_messages.ModelUpdateTimedOut: deploy_events.update_timed_out,
    deploy_messages.ModelDeployed: deploy_events.model_deployed,
    deploy_messages.ModelRolledBack: deploy_events.rolled_back,
    deploy_messages.ConfigRemovalEnded: deletion.removal_ended,
    deploy_messages.HardExamplesReported: deploy_events.hard_examples_reported,
}
"""What folds each of its events, but the first."""
