"""What the dispatcher decides about datasets: answers to commands, their watchers, what is observed. Pure."""

import re
from collections.abc import Iterator, Mapping

from trackside.aggregates.dataset.evolve import instruction_body
from trackside.aggregates.dataset.messages import (
    WATCH,
    DatasetDeleted,
    DatasetPaused,
    DatasetRegistered,
    DatasetResumed,
    DatasetSpec,
    DatasetStatus,
    DeleteDataset,
    PauseDataset,
    RegisterDataset,
    ResumeDataset,
)
from trackside.aggregates.dataset.report import reported_event
from trackside.aggregates.dataset.state import Dataset, dataset_of, watcher_id
from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.parts import Part
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.fleet.fleet import WATCH_DATASET
from trackside.contracts.tasks.instructions import InstructionGiven
from trackside.contracts.tasks.resources import Needs, Resources, ServicePolicy
from trackside.contracts.tasks.tasks import TaskStopRequested, TaskSubmitted
from trackside.domain.fleet.capabilities import credential_problem
from trackside.domain.folding.aggregate import Decided
from trackside.domain.folding.lookup import Lookup
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream, check_not_begun, no_aggregate
from trackside.domain.tasks.task import Task
from trackside.domain.tasks.task_instructions import is_ready

WATCHER_MEMORY_BYTES = 268_435_456
"""What the service reserves that watches a dataset: it holds one line at a time, and samples for drift."""
_USABLE = re.compile(r"/[^/]|file:///[^/]|s3://[^/]+/[^/]")
_LAST_WATCHER = 10**10
"""More watchers than a dataset ever has: their ids must be identifiers."""


def register(stream: Stream, wanted: RegisterDataset, command_id: str, lookup: Lookup) -> Decided:
    """Begins a dataset, unless its stream is taken, or it can't be watched as it is described."""
    spec = DatasetSpec(**{name: getattr(wanted, name) for name in DatasetSpec.model_fields})
    problems = tuple(_problems(stream, spec, lookup))
    return problems or [DatasetRegistered(command_id=command_id, dataset=spec)]


def pause(stream: Stream, wanted: PauseDataset, command_id: str, lookup: Lookup) -> Decided:
    """Pauses a dataset; one that nothing is taken from stays as it is."""
    dataset = _changeable(stream)
    if isinstance(dataset, Problem):
        return dataset
    if dataset.status is not DatasetStatus.ACTIVE:
        return []
    return [DatasetPaused(command_id=command_id, change=dataset.changes + 1, reason=wanted.reason)]


def resume(stream: Stream, wanted: ResumeDataset, command_id: str, lookup: Lookup) -> Decided:
    """Gets a dataset watched again; one that is watched stays as it is."""
    dataset = _changeable(stream)
    if isinstance(dataset, Problem):
        return dataset
    if dataset.status is DatasetStatus.ACTIVE:
        return []
    return [DatasetResumed(command_id=command_id, change=dataset.changes + 1)]


def delete(stream: Stream, wanted: DeleteDataset, command_id: str, lookup: Lookup) -> Decided:
    """Deletes a dataset; one that was deleted stays so."""
    dataset = dataset_of(stream)
    if dataset is None:
        return no_aggregate(stream, "dataset")
    if dataset.status is DatasetStatus.DELETED:
        return []
    return [DatasetDeleted(command_id=command_id, change=dataset.changes + 1, reason=wanted.reason)]


def _problems(stream: Stream, spec: DatasetSpec, lookup: Lookup) -> Iterator[Problem]:
    """Yields why a dataset can't begin."""
    begun = check_not_begun(stream)
    if begun is not None:
        yield begun
    if not is_identifier(watcher_id(stream.stream_id, _LAST_WATCHER)):
        message = "the id is too long, the services that watch the dataset are named after it"
        yield Problem(code="bad_identifier", path="$partitionkey", message=message)
    if _USABLE.match(spec.url) is None:
        message = "expected a file of the workers' hosts, as /FOLDER/FILE or file:///..., or s3://BUCKET/KEY"
        yield Problem(code="bad_url", path="$.url", message=message)
    if spec.format == "txt" and spec.drift is not None and spec.drift.columns is not None:
        message = "a txt has no columns: leave them out, or write `format: csv` or `format: jsonl`"
        yield Problem(code="unknown_field", path="$.drift.columns", message=message)
    missing = credential_problem(lookup.capabilities, spec.credential, "$.credential")
    if missing is not None:
        yield missing


def _changeable(stream: Stream) -> Dataset | Problem:
    dataset = dataset_of(stream)
    if dataset is None:
        return no_aggregate(stream, "dataset")
    if dataset.status is DatasetStatus.DELETED:
        message = f"dataset {dataset.dataset_id} was deleted; register another one, under another id"
        return Problem(code="already_terminal", path="$partitionkey", message=message)
    return dataset


def lacking(stream: Stream[Dataset]) -> Iterator[Proposal]:
    """Yields what a dataset lacks now: its watcher, the end that this begins with, its report, its stop."""
    dataset = stream.root
    found = _next(dataset, stream.tasks)
    if found is not None:
        span, event = found
        yield Proposal(span, [event], dataset.changed_at, stream.traceparent)


def _next(dataset: Dataset, tasks: Mapping[str, Task]) -> tuple[str, Event] | None:
    if not dataset.watching:
        active = dataset.status is DatasetStatus.ACTIVE
        return ("watch dataset", _submitted(dataset)) if active else None
    watcher = tasks[dataset.watcher_id()]
    if watcher.stop_reason:
        return None
    if not dataset.served:
        return "stop watcher", TaskStopRequested(task_id=watcher.task_id, reason="user")
    if not is_ready(watcher):
        return None
    if dataset.told != (watcher.attempt.number, watcher.attempt.placement):
        return "instruct watcher", _instruction(dataset, watcher)
    event = reported_event(dataset, watcher)
    return None if event is None else ("observe dataset", event)


def _submitted(dataset: Dataset) -> TaskSubmitted:
    number, spec = dataset.watchers + 1, dataset.spec
    return TaskSubmitted(
        task_id=dataset.watcher_id(number),
        task_type=WATCH_DATASET,
        parameters=spec.model_dump(mode="json", include={"url", "format", "credential", "look_s", "drift"}),
        part=Part(kind=WATCH, number=number),
        needs=Needs(
            queue=spec.queue,
            resources=Resources(devices=0, estimate_memory=WATCHER_MEMORY_BYTES),
            service=ServicePolicy(),
            credentials=[] if spec.credential is None else [spec.credential],
        ),
    )


def _instruction(dataset: Dataset, watcher: Task) -> InstructionGiven:
    number = 1 if watcher.instruction is None else watcher.instruction.number + 1
    body = instruction_body(dataset)
    return InstructionGiven(command_id="", task_id=watcher.task_id, number=number, body=body)
