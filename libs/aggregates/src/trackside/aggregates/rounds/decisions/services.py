"""What the dispatcher decides about the inference services of a job: their tasks, and their counts. Pure."""

from collections.abc import Iterator

from trackside.aggregates.rounds.job.deploy_messages import HardExamplesReported
from trackside.aggregates.rounds.job.referenced_streams import dataset_state
from trackside.aggregates.rounds.job.service_counts import (
    ProcessCounts,
    ServiceCounts,
    new_counts,
    unreported,
)
from trackside.aggregates.rounds.messages import JobStatus
from trackside.aggregates.rounds.stages.task_ids import service_targets, service_task
from trackside.aggregates.rounds.state import IncrementalJob, ServiceState
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.resources import ServicePolicy
from trackside.contracts.tasks.tasks import TaskStopRequested, TaskSubmitted
from trackside.domain.folding.lookup import Lookup
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream

RESERVED = "service"
"""The parameter of the task of a service that says which one it is, and what it serves."""


def lacking(stream: Stream[IncrementalJob], lookup: Lookup) -> Iterator[Proposal]:
    """Yields the services that a job lacks, those to stop, and what they have counted."""
    job, traceparent = stream.root, stream.traceparent
    wanted = service_targets(job.spec.deploy) if job.status is not JobStatus.DELETED else {}
    for target, service in job.services.items():
        if service.left is not None:  # the next task begins once that is reported
            counted = _reported(target, service, service.left)
            yield Proposal("count inferences", [counted], job.changed_at, traceparent)
            continue
        if not service.running:
            if target in wanted:
                begun = _task(job, target, service, lookup)
                yield Proposal("begin service", [begun], job.changed_at, traceparent)
            continue
        task = stream.tasks.get(service_task(job, target, service.tasks)[0])
        if task is None:
            continue
        if service.retired and not task.stop_reason:
            stop = TaskStopRequested(task_id=task.task_id, reason="user")
            yield Proposal("stop service", [stop], job.changed_at, traceparent)
        counts = unreported(task, service.counted, service.counted_by)
        if counts is not None:
            counted = _reported(target, service, counts)
            yield Proposal("count inferences", [counted], task.changed_at, traceparent)


def _task(job: IncrementalJob, target: str, service: ServiceState, lookup: Lookup) -> TaskSubmitted:
    """Returns the next task of a service, which begins with the model that is live."""
    spec = service.spec
    task_id, part = service_task(job, target)
    about: Json = {
        "job": job.job_id,
        "name": spec.name,
        "replica": part.number,
        "update": 0,
        "model": job.live.model_dump(mode="json"),
    }
    mining = spec.hard_examples
    if mining is not None:
        examples: Json = {"miner": mining.miner, "parameters": mining.parameters}
        dataset = None if mining.append_to is None else dataset_state(lookup, mining.append_to)
        if dataset is not None:
            examples["append_to"] = {"url": dataset.spec.url, "format": dataset.spec.format}
        about["hard_examples"] = examples
    return TaskSubmitted(
        task_id=task_id,
        task_type=spec.task_type,
        parameters={**spec.parameters, RESERVED: about},
        part=part,
        needs=spec.needs.model_copy(update={"service": spec.needs.service or ServicePolicy()}),
        inputs={**spec.inputs, "model": job.live.artifact},
    )


def all_counts(job: IncrementalJob) -> list[ServiceCounts]:
    """Returns what each service of a job has counted, and each that reports by a command."""
    return [*(service.counts for service in job.services.values()), *job.foreign.values()]


def _reported(target: str, service: ServiceState, counts: ProcessCounts) -> HardExamplesReported:
    """Returns what a process has counted since its last window.

    It says how much it has counted in all, so a report that is lost is in the next one.
    """
    inferences, hard = new_counts(counts, service.counted, service.counted_by) or (0, 0)
    return HardExamplesReported(
        service=target,
        window=service.counts.windows + 1,
        inferences=inferences,
        hard=hard,
        attempt=counts.attempt,
        placement=counts.placement,
        artifact=counts.artifact if hard else None,
    )
