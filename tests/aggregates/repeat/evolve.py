"""What each event does to a repeat."""

from tests.aggregates.repeat import messages
from tests.aggregates.repeat.state import GOES_ON, Repeat
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.tasks import AttemptEnd, TaskSubmitted
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task


def begin(repeat_id: str, event: messages.RepeatStarted, record: Record) -> Repeat:
    """Makes the repeat of a RepeatStarted event."""
    return Repeat(
        repeat_id, event.repeat, event.repeat.times, record.append_time_ms, changed_at=record.offset
    )


def admits(repeat: Repeat, event: TaskSubmitted) -> bool:
    """Returns whether a task is the next run, and has its turn."""
    return repeat.has_room and event.task_id == repeat.task_of(repeat.submitted)


def note_submitted(repeat: Repeat, task: Task) -> None:
    """Counts a run that was submitted."""
    repeat.submitted += 1
    repeat.open.add(task.task_id)


def note_changed(repeat: Repeat, task: Task, record: Record) -> None:
    """Counts a run that has ended."""
    if task.end is not None and task.task_id in repeat.open:
        repeat.open.discard(task.task_id)
        repeat.finished += task.end is AttemptEnd.FINISHED
        repeat.settled.append(task.task_id)
        repeat.changed_at = record.offset


def evolve(repeat: Repeat, record: Record) -> Outcome:
    """Folds one event into the repeat; changes it only if it returns APPLIED."""
    outcome = _evolve(repeat, record)
    if outcome is Outcome.APPLIED:
        repeat.changed_at = record.offset
    return outcome


def _evolve(repeat: Repeat, record: Record) -> Outcome:
    event = record.message
    match event:
        case messages.RepeatExtended():
            return _extended(repeat, event)
        case messages.RepeatStopRequested():
            return _stop_requested(repeat, event, record)
        case messages.RepeatEnded():
            return _ended(repeat, event, record)
        case messages.RepeatExtensionAnswered():
            return _extension_answered(repeat, event)
        case messages.RepeatArchived():
            if event.due_ms != repeat.due_ms or record.append_time_ms < event.due_ms:
                return Outcome.OVERTAKEN
            repeat.archived = True
            return Outcome.APPLIED
        case _:
            return Outcome.DUPLICATE


def _extended(repeat: Repeat, event: messages.RepeatExtended) -> Outcome:
    if repeat.status not in GOES_ON or event.times <= repeat.times:
        return Outcome.OVERTAKEN
    repeat.times = event.times
    repeat.status = messages.RepeatStatus.RUNNING
    repeat.ended_at, repeat.extension = -1, None
    return Outcome.APPLIED


def _stop_requested(repeat: Repeat, event: messages.RepeatStopRequested, record: Record) -> Outcome:
    if repeat.status is not messages.RepeatStatus.RUNNING:
        return Outcome.OVERTAKEN
    repeat.status = messages.RepeatStatus.STOPPING
    repeat.stop_reason = event.reason or "user"
    repeat.stopped_at = record.offset
    return Outcome.APPLIED


def _ended(repeat: Repeat, event: messages.RepeatEnded, record: Record) -> Outcome:
    if repeat.over or repeat.open or event.status is not end_of(repeat):
        return Outcome.OVERTAKEN
    repeat.status = event.status
    repeat.ended_ms, repeat.ended_at = record.append_time_ms, record.offset
    return Outcome.APPLIED


def _extension_answered(repeat: Repeat, event: messages.RepeatExtensionAnswered) -> Outcome:
    if not repeat.asks or event.asked_at != repeat.ended_at:
        return Outcome.OVERTAKEN
    repeat.extension = event.refused
    return Outcome.APPLIED


def end_of(repeat: Repeat) -> messages.RepeatStatus | None:
    """Returns how a repeat without open runs ends now; None if it goes on."""
    if repeat.submitted == repeat.times:
        return messages.RepeatStatus.DONE
    return messages.RepeatStatus.STOPPED if repeat.status is messages.RepeatStatus.STOPPING else None
