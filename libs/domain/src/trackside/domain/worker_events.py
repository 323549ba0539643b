"""Whose events about a placement or a worker count where events are signed: those of that worker alone."""

from trackside.contracts.message import Record
from trackside.contracts.trust import ANOTHER_WORKER, instance_of
from trackside.domain.stream import Stream


def distrust_of_placement(stream: Stream, record: Record) -> str:
    """Returns why an event of a worker is not trusted: another one has the placement that it is about."""
    event = record.message
    task = stream.tasks.get(getattr(event, "task_id", ""))
    if record.envelope.role != "worker" or task is None or not task.attempts:
        return ""
    newest = task.attempt
    place = (getattr(event, "attempt", 0), getattr(event, "placement", 0))
    if place != (newest.number, newest.placement) or newest.worker_id == instance_of(record):
        return ""
    return ANOTHER_WORKER


def distrust_of_member(record: Record) -> str:
    """Returns why an event of the fleet is not trusted: it is about another worker than wrote it."""
    about = getattr(record.message, "worker_id", "")
    return ANOTHER_WORKER if record.envelope.role == "worker" and about != instance_of(record) else ""
