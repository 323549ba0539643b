"""What each event does to a dataset: the guards that every reader folds with."""

from trackside.aggregates.dataset.messages import (
    WATCH,
    DatasetChanged,
    DatasetDeleted,
    DatasetEnd,
    DatasetObserved,
    DatasetPaused,
    DatasetRefused,
    DatasetRegistered,
    DatasetReport,
    DatasetResumed,
    DatasetStatus,
    DatasetTruncated,
)
from trackside.aggregates.dataset.state import Dataset
from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.fleet.fleet import WATCH_DATASET
from trackside.contracts.tasks.instructions import InstructionGiven
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task


def begin(dataset_id: str, event: DatasetRegistered, record: Record) -> Dataset:
    """Makes the dataset of a DatasetRegistered event."""
    begun_ms = record.append_time_ms
    return Dataset(dataset_id, event.dataset, begun_ms, status_ms=begun_ms, changed_at=record.offset)


def evolve(dataset: Dataset, record: Record) -> Outcome:
    """Folds one event into the dataset; changes it only if it returns APPLIED."""
    before = dataset.status
    outcome = _evolve(dataset, record)
    if outcome is Outcome.APPLIED:
        dataset.changed_at = record.offset
        if dataset.status is not before:
            dataset.status_ms = record.append_time_ms
        if dataset.status is not DatasetStatus.ACTIVE:
            dataset.dismissed, dataset.told = dataset.watchers, (0, 0)
    return outcome


def admits(dataset: Dataset, event: TaskSubmitted) -> bool:
    """Returns whether a task is the next watcher of a dataset that nothing watches."""
    part = event.part
    if part is None or part.kind != WATCH or event.task_type != WATCH_DATASET:
        return False
    if dataset.status is not DatasetStatus.ACTIVE or dataset.watching:
        return False
    return part.number == dataset.watchers + 1 and event.task_id == dataset.watcher_id(part.number)


def watcher_submitted(dataset: Dataset, record: Record) -> None:
    """Takes in that another service watches it."""
    dataset.watchers += 1
    dataset.watching, dataset.told = True, (0, 0)
    dataset.changed_at = record.offset


def watcher_changed(dataset: Dataset, task: Task, record: Record) -> None:
    """Takes in what became of its watcher: what it was given or has reported, or that it has ended.

    An instruction with another end than the one that is known now doesn't count: it was decided too late, or
    is a user's.
    """
    if task.task_id != dataset.watcher_id():
        return
    if isinstance(record.message, InstructionGiven):
        given = dataset.served and record.message.body == instruction_body(dataset)
        dataset.told = (task.attempt.number, task.attempt.placement) if given else (0, 0)
    if task.end is not None and dataset.watching:
        dataset.watching = False
        dataset.settled.append(task.task_id)
    dataset.changed_at = record.offset


def instruction_body(dataset: Dataset) -> Json:
    """Returns the instruction that its watcher begins with: how far it was observed."""
    return {"end": dataset.end.model_dump(mode="json")}


def _evolve(dataset: Dataset, record: Record) -> Outcome:
    match record.message:
        case DatasetRegistered():
            return Outcome.DUPLICATE
        case DatasetObserved() as event:
            return _observed(dataset, event, record)
        case DatasetTruncated() | DatasetChanged() | DatasetRefused() as event:
            return _stopped(dataset, event)
        case DatasetPaused() | DatasetResumed() | DatasetDeleted() as event:
            return _changed(dataset, event)
        case _:
            return Outcome.OVERTAKEN


def _observed(dataset: Dataset, event: DatasetObserved, record: Record) -> Outcome:
    if event.end <= dataset.end.lines:
        return Outcome.DUPLICATE
    lines, size = event.end - event.begin, event.end_byte - event.begin_byte
    follows = (event.begin, event.begin_byte) == (dataset.end.lines, dataset.end.size)
    if not follows or not 0 < lines <= size or not _counts(dataset, event):
        return Outcome.OVERTAKEN
    dataset.end = DatasetEnd(lines=event.end, size=event.end_byte, sha256=event.sha256)
    dataset.metrics = dict(event.metrics)
    dataset.observed_at, dataset.observed_ms = record.offset, record.append_time_ms
    return Outcome.APPLIED


def _stopped(dataset: Dataset, event: DatasetTruncated | DatasetChanged | DatasetRefused) -> Outcome:
    if event.stop <= dataset.stops:
        return Outcome.DUPLICATE
    if event.stop != dataset.stops + 1 or not _counts(dataset, event):
        return Outcome.OVERTAKEN
    match event:
        case DatasetTruncated():
            if not 0 <= event.size_bytes < event.observed_bytes == dataset.end.size:
                return Outcome.OVERTAKEN
            status = DatasetStatus.TRUNCATED
            reason = f"it has {event.size_bytes:,} bytes, {event.observed_bytes:,} were observed"
        case DatasetChanged():
            if event.observed_sha256 != dataset.end.sha256:
                return Outcome.OVERTAKEN
            status = DatasetStatus.CHANGED
            reason = f"its first {dataset.end.size:,} bytes are other ones than were observed"
        case DatasetRefused():
            status = DatasetStatus.REFUSED
            sample = "" if event.line is None else f" at sample {event.line:,}"
            reason = f"{event.code}{sample}: {event.message}" if event.message else f"{event.code}{sample}"
    dataset.stops, dataset.status, dataset.reason = event.stop, status, reason
    return Outcome.APPLIED


def _counts(dataset: Dataset, event: DatasetReport) -> bool:
    """Returns whether a report is of the placement that was given the end, which begins with placement 1."""
    reported_by = (event.watcher, event.attempt, event.placement)
    return dataset.served and event.placement > 0 and reported_by == (dataset.watchers, *dataset.told)


def _changed(dataset: Dataset, event: DatasetPaused | DatasetResumed | DatasetDeleted) -> Outcome:
    if event.change <= dataset.changes:
        return Outcome.DUPLICATE
    if event.change != dataset.changes + 1 or dataset.status is DatasetStatus.DELETED:
        return Outcome.OVERTAKEN
    active = dataset.status is DatasetStatus.ACTIVE
    match event:
        case DatasetPaused() if active:
            dataset.status, dataset.reason = DatasetStatus.PAUSED, event.reason
        case DatasetResumed() if not active:
            dataset.status, dataset.reason = DatasetStatus.ACTIVE, ""
        case DatasetDeleted():
            dataset.status, dataset.reason = DatasetStatus.DELETED, event.reason
        case _:
            return Outcome.OVERTAKEN
    dataset.changes = event.change
    return Outcome.APPLIED
