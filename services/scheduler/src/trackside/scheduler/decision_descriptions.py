"""What the spans of the scheduler's decisions say, and the waits and lost attempts that end with them."""

from trackside.contracts.tasks.tasks import AttemptEnded, TaskAssigned
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task
from trackside.domain.tasks.task_events import task_of
from trackside.eventlog.reactor.decision_spans import NS_PER_MS, Description
from trackside.eventlog.reactor.task_spans import (
    end_attributes,
    failure_of,
    placement_attributes,
    task_attributes,
)
from trackside.telemetry import context
from trackside.telemetry.context import Span


def describe(stream: Stream | None, proposal: Proposal) -> Description:
    """Describes a decision about a task, or about a worker, by the state that it was made on."""
    first = proposal.events[0]
    task = None if stream is None else stream.tasks.get(task_of(first))
    if stream is None or task is None:
        worker_id = getattr(first, "worker_id", "")
        return Description({"trackside.worker": worker_id} if worker_id else {})
    match first:
        case TaskAssigned():
            assigned = {
                **task_attributes(stream.stream_id, task),
                **placement_attributes(first.attempt, first.placement, first.worker_id, first.device_ids),
            }
            return Description(assigned, ending=(_wait(stream, task, assigned),))
        case AttemptEnded():
            ended = task_attributes(stream.stream_id, task)
            failure = failure_of(first.end, first.error)
            return Description(ended, failure=failure, ending=_attempt(task, first, ended))
        case _:
            return Description(task_attributes(stream.stream_id, task))


def _wait(stream: Stream, task: Task, assigned: dict[str, str | int]) -> Span:
    """Returns the span of a wait in the queue: since the submission, or the end of what was before."""
    since_ms = max([task.queued_at[0], *(past.ended_ms for past in task.attempt.past[-1:])])
    return Span(
        name="wait in queue",
        traceparent=context.child_of(task.traceparent),
        parent=task.traceparent,
        start_ns=since_ms * NS_PER_MS,
        end_ns=0,
        attributes={**assigned, "trackside.queue": task.needs.queue},
    )


def _attempt(task: Task, event: AttemptEnded, ended: dict[str, str | int]) -> tuple[Span, ...]:
    """Returns the span of an attempt that its worker can't report, from its acceptance on."""
    attempt = task.attempt
    if task.place is None:
        return ()
    attributes = end_attributes(task.task_id, task.task_type, attempt.number, attempt.worker_id, event.end)
    return (
        Span(
            name="run task",
            traceparent=context.child_of(task.traceparent),
            parent=task.traceparent,
            start_ns=(attempt.accepted_ms or attempt.assigned_ms) * NS_PER_MS,
            end_ns=0,
            attributes={**ended, **attributes},
            failure=failure_of(event.end, event.error),
        ),
    )
