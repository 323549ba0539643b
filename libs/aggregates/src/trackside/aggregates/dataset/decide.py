"""What the dispatcher decides about datasets: answers to commands, its watcher, what that has seen. Pure."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from trackside.aggregates.dataset.messages import (
    WATCH_DATASET,
    DatasetChanged,
    DatasetDeleted,
    DatasetEnd,
    DatasetObserved,
    DatasetPaused,
    DatasetRefused,
    DatasetRegistered,
    DatasetResumed,
    DatasetSpec,
    DatasetStatus,
    DatasetTruncated,
    DeleteDataset,
    PauseDataset,
    RegisterDataset,
    ResumeDataset,
)
from trackside.aggregates.dataset.state import WATCH, Dataset, dataset_of
from trackside.contracts.instructions import InstructionGiven
from trackside.contracts.message import Event, Json
from trackside.contracts.parts import Part
from trackside.contracts.refusals import Problem
from trackside.contracts.resources import Needs, Resources, ServicePolicy
from trackside.contracts.tasks import TaskStopRequested, TaskSubmitted
from trackside.domain.aggregate import Decided
from trackside.domain.lookup import Lookup
from trackside.domain.proposal import Proposal
from trackside.domain.stream import Stream, check_not_begun, no_aggregate
from trackside.domain.task import Task
from trackside.domain.task_instructions import is_ready

WATCHER_MEMORY_BYTES = 268_435_456
"""What the service reserves that watches a dataset: it holds one line at a time."""


def register(stream: Stream, wanted: RegisterDataset, command_id: str, lookup: Lookup) -> Decided:
    """Begins a dataset, unless its stream is taken, or its workers lack the credential."""
    spec = DatasetSpec(**{name: getattr(wanted, name) for name in DatasetSpec.model_fields})
    problem = check_not_begun(stream)
    return problem or [DatasetRegistered(command_id=command_id, dataset=spec)]


def pause(stream: Stream, wanted: PauseDataset, command_id: str, lookup: Lookup) -> Decided:
    """Pauses a dataset; one that nothing is taken from stays as it is."""
    dataset = _changeable(stream)
    if isinstance(dataset, Problem):
        return dataset
    if dataset.status is not DatasetStatus.ACTIVE:
        return []
    return [DatasetPaused(command_id=command_id, change=dataset.changes + 1, reason=wanted.reason)]


def resume(stream: Stream, wanted: ResumeDataset, command_id: str, lookup: Lookup) -> Decided:
    """Has a dataset watched again; one that is watched stays as it is."""
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


def _changeable(stream: Stream) -> Dataset | Problem:
    dataset = dataset_of(stream)
    if dataset is None:
        return no_aggregate(stream, "dataset")
    if dataset.status is DatasetStatus.DELETED:
        message = f"dataset {dataset.dataset_id} was deleted; register another one, under another id"
        return Problem(code="already_terminal", path="$partitionkey", message=message)
    return dataset


def lacking(stream: Stream[Dataset]) -> Iterator[Proposal]:
    """Yields what a dataset lacks now: its watcher, what that must know, what it has seen, its stop."""
    dataset, traceparent = stream.root, stream.traceparent
    if not dataset.watching:
        if dataset.status is DatasetStatus.ACTIVE:
            yield Proposal("watch dataset", [_watcher(dataset)], dataset.changed_at, traceparent)
        return
    watcher = stream.tasks[dataset.watcher_id()]
    if dataset.status is not DatasetStatus.ACTIVE:
        if not watcher.stop_reason:
            stop = TaskStopRequested(task_id=watcher.task_id, reason="user")
            yield Proposal("stop watcher", [stop], dataset.changed_at, traceparent)
        return
    if not is_ready(watcher) or watcher.stop_reason:
        return
    if dataset.told != (watcher.attempt.number, watcher.attempt.placement):
        yield Proposal("tell watcher", [_instruction(dataset, watcher)], dataset.changed_at, traceparent)
        return
    event = _seen(dataset, watcher.attempt.ready)
    if event is not None:
        yield Proposal("observe dataset", [event], dataset.changed_at, traceparent)


def _watcher(dataset: Dataset) -> TaskSubmitted:
    number, spec = dataset.watchers + 1, dataset.spec
    return TaskSubmitted(
        task_id=dataset.watcher_id(number),
        task_type=WATCH_DATASET,
        parameters=spec.model_dump(mode="json", include={"url", "format", "credential", "look_s"}),
        part=Part(kind=WATCH, number=number),
        needs=Needs(
            queue=spec.queue,
            resources=Resources(devices=0, estimate_memory=WATCHER_MEMORY_BYTES),
            service=ServicePolicy(),
        ),
    )


def _instruction(dataset: Dataset, watcher: Task) -> InstructionGiven:
    number = 1 if watcher.instruction is None else watcher.instruction.number + 1
    body = {"end": dataset.end.model_dump(mode="json")}
    return InstructionGiven(command_id="", task_id=watcher.task_id, number=number, body=body)


def _seen(dataset: Dataset, said: Json) -> Event | None:
    """Returns the event of what the watcher has seen last; None if that is known, or nothing yet.

    It says how far the dataset goes (`end`), or what is wrong with it (`problem`).
    """
    problem: Any = said.get("problem")
    if isinstance(problem, dict):
        return _stop(dataset, problem)
    try:
        end = DatasetEnd.model_validate(said.get("end"))
    except ValidationError:
        return None
    if end.lines <= dataset.end.lines or end.size <= dataset.end.size:
        return None
    return DatasetObserved(
        begin=dataset.end.lines,
        end=end.lines,
        begin_byte=dataset.end.size,
        end_byte=end.size,
        sha256=end.sha256,
    )


def _stop(dataset: Dataset, problem: Json) -> Event:
    number, code = dataset.stops + 1, str(problem.get("code", ""))
    match code:
        case "truncated":
            size = int(problem.get("size", 0))
            return DatasetTruncated(stop=number, observed_bytes=dataset.end.size, size_bytes=size)
        case "changed":
            sha256 = str(problem.get("sha256", ""))
            return DatasetChanged(stop=number, observed_sha256=dataset.end.sha256, sha256=sha256)
        case _:
            line, message = int(problem.get("line", -1)), str(problem.get("message", ""))
            return DatasetRefused(stop=number, code=code, line=line, message=message)
