"""Whose events about a placement or a worker count: those of the worker that has it alone. Pure.

A rule of the format, for types of events to come as well: what a worker writes to a stream in which it has no
placement has no effect, and an event of a worker names its task, attempt and placement.
"""

from typing import Final

from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.streams.parking import UnknownRecord
from trackside.contracts.tasks.tasks import AttemptEnded, TaskInterrupted, TaskRefused, TaskReturned
from trackside.contracts.trust.encryption import PUBLIC_KEY
from trackside.contracts.trust.trust import ANOTHER_WORKER, instance_of
from trackside.domain.streams.parking import Parked
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Place
from trackside.domain.tasks.task_events import task_of

_ENDS: Final = (AttemptEnded, TaskInterrupted, TaskRefused, TaskReturned)


def move_placement(stream: Stream, before: Place | None, after: Place | None) -> None:
    """Counts that a task of a stream has another placement than before, None for none."""
    placed = stream.placed
    if before is not None:
        placed[before.worker_id] -= 1
        if not placed[before.worker_id]:
            del placed[before.worker_id]
    if after is not None:
        placed[after.worker_id] = placed.get(after.worker_id, 0) + 1


def distrust_of_placement(stream: Stream, record: Record) -> str:
    """Returns why an event of a worker is not trusted: it has not the placement that it is about."""
    if record.envelope.role != "worker":
        return ""
    if is_unplaced(stream, record):
        return ANOTHER_WORKER
    event = record.message
    task = stream.tasks.get(getattr(event, "task_id", ""))
    if task is None or not task.attempts:
        return ""
    newest = task.attempt
    place = (getattr(event, "attempt", 0), getattr(event, "placement", 0))
    if place != (newest.number, newest.placement) or newest.worker_id == instance_of(record):
        return ""
    return ANOTHER_WORKER


def is_unplaced(stream: Stream, record: Record) -> bool:
    """Returns whether an event of an unknown type is of a worker without a placement in its stream.

    It has no effect then, whatever it means. In a parked stream the placements that it has by then are not
    known, and no event counts.
    """
    if type(record.message) is not UnknownRecord or record.envelope.role != "worker":
        return False
    if stream.parked is not None:
        return False
    return stream.closed or instance_of(record) not in stream.placed


def note_heard(stream: Stream, parked: Parked, event: Message) -> None:
    """Notes that a worker has written about a placement in a parked stream, and whether that has ended."""
    task = stream.tasks.get(task_of(event))
    if task is None or task.place is None or "worker" not in getattr(event, "written_by", ()):
        return
    current = (task.attempt.number, task.attempt.placement)
    is_end = isinstance(event, _ENDS) and (event.attempt, event.placement) == current
    parked.heard[task.task_id] = is_end or parked.heard.get(task.task_id, False)


def has_another_key(stream: Stream, record: Record) -> bool:
    """Returns whether an event that only its stream's workers write is encrypted for another stream.

    Whoever lacks that key could not tell what it is, and would wait for the key.
    """
    if record.envelope.role not in ("worker", "summary-indexer"):
        return False
    return record.envelope.text(PUBLIC_KEY) != stream.public_key


def distrust_of_member(record: Record) -> str:
    """Returns why an event of the fleet is not trusted: it is about another worker than wrote it."""
    about = getattr(record.message, "worker_id", "")
    return ANOTHER_WORKER if record.envelope.role == "worker" and about != instance_of(record) else ""
