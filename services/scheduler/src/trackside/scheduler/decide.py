"""What the scheduler decides about workers and attempts, from folded state alone. Pure."""

from collections.abc import Callable, Iterable, Mapping

from trackside.contracts.envelope.message import Event
from trackside.contracts.fleet.fleet import WorkerLost
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAssigned,
    TaskError,
    TaskPreemptionRequested,
    TaskRecallRequested,
    TaskUnschedulable,
    TimeLimitReached,
)
from trackside.domain.fleet.fleet import LOST, Fleet, Worker
from trackside.domain.proposal import Proposal
from trackside.domain.tasks.task import Task, TaskState
from trackside.scheduler.lease import Leases
from trackside.scheduler.planning.actions import Action, Assign, MarkUnschedulable, Preempt, Recall
from trackside.scheduler.planning.cluster_state import ClusterState

LIMIT_RETRY_MS = 250
"""After how long a time limit is reported again that the log found too early: its clock may be slower."""
LIMIT_BUSY_MS = 20
"""After how long a time limit is checked again whose stream was busy."""


def lost_workers(fleet: Fleet, leases: Leases, lease_ms: int) -> list[tuple[Worker, Proposal]]:
    """Returns the workers that were silent for longer than their lease, each with its loss."""
    found = []
    for worker in fleet.workers.values():
        if worker.gone:
            continue
        silent_ms = leases.silent_ms(worker.incarnation)
        if silent_ms > lease_ms:
            lost = WorkerLost(worker_id=worker.worker_id, incarnation=worker.incarnation, silent_ms=silent_ms)
            found.append((worker, Proposal("lose worker", [lost], worker.joined_at)))
    return found


def lost_attempts(
    cluster: ClusterState,
    fleet: Fleet,
    positions: Mapping[int, int],
    live: frozenset[tuple[str, str]] = frozenset(),
    is_silent: Callable[[str, int], bool] = lambda *_: False,
) -> Iterable[tuple[Task, Proposal]]:
    """Yields the end of every attempt whose worker's incarnation is gone.

    Where a worker has joined again, the events that it wrote before joining must have been folded first:
    `positions` are the next offsets to fold, by partition of the events topic. `live` are (worker id,
    incarnation) of workers known to be present: if all attempts are on these, none is checked. An incarnation
    that has not joined may be about to, or its join may not be folded yet: it is gone once `is_silent` says
    that its lease has run out. So ends one that adopted an attempt and died before it joined.

    What runs on without its worker is lost only when that was silent for as long as its host needs for a
    start: `is_silent` says so for an incarnation and a time in ms, and for its lease where that is longer.
    """
    if live.issuperset(cluster.tasks_on):
        return
    for (worker_id, incarnation), task_ids in cluster.tasks_on.items():
        if fleet.current(worker_id, incarnation):
            continue
        worker = fleet.workers.get(worker_id)
        if worker is None or not (fleet.knows(incarnation) or is_silent(incarnation, 0)):
            continue
        if any(positions.get(partition, 0) < offset for partition, offset in worker.after.items()):
            continue
        starts = _may_start_again(fleet, worker, incarnation) and not is_silent(incarnation, worker.keep_ms)
        for task_id in task_ids:
            task = cluster.placed[task_id]
            if not (starts and _runs_on(task)):
                yield task, _about(task, "lose attempt", _ended(task, AttemptEnd.LOST, incarnation))


def _may_start_again(fleet: Fleet, worker: Worker, incarnation: str) -> bool:
    """Returns whether a next incarnation may still adopt what this one had, as its tasks run on."""
    is_newest = worker.incarnation == incarnation and worker.gone == LOST
    return worker.keep_ms > 0 and (is_newest or not fleet.knows(incarnation))


def _runs_on(task: Task) -> bool:
    """Returns whether a task runs on without its worker, and shall: an exclusive one ends with the lease."""
    is_to_end = task.stop_reason or task.attempt.stopping is not None
    return task.state is TaskState.ACTIVE and not task.needs.exclusive and not is_to_end


def give_up(task: Task) -> Proposal:
    """Returns the end of a task that was refused too often: the last refusal says why."""
    refusals = [past for past in task.attempt.past if past.end == "refused"]
    last = refusals[-1]
    message = f"refused {len(refusals)} times, last by {last.worker_id}: {last.code}: {last.message}"
    error = TaskError(stage="START", type="Refused", message=message)
    return _about(task, "give up task", _ended(task, AttemptEnd.REFUSED, "", error))


def _about(task: Task, span: str, event: Event) -> Proposal:
    """Returns a proposal about a task, which rests on the last event that changed it."""
    return Proposal(span, [event], task.changed_at, task.traceparent)


def _ended(task: Task, end: AttemptEnd, incarnation: str, error: TaskError | None = None) -> AttemptEnded:
    return AttemptEnded(
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement,
        incarnation=incarnation,
        end=end,
        error=error,
    )


def limits_reached(
    cluster: ClusterState, now_ms: int, is_busy: Callable[[str], bool]
) -> Iterable[tuple[Task, Proposal]]:
    """Yields the tasks that have waited or run for as long as they may."""
    for task_id in list(cluster.time_limits.pop_due(now_ms)):
        task = cluster.tasks.get(task_id)
        due_ms = None if task is None else task.due_ms
        if task is None or due_ms is None:
            continue
        if due_ms > now_ms:
            cluster.time_limits.set(task_id, due_ms)
        elif is_busy(cluster.stream_of[task_id]):
            cluster.time_limits.set(task_id, now_ms + LIMIT_BUSY_MS)
        else:
            cluster.time_limits.set(task_id, now_ms + LIMIT_RETRY_MS)
            reached = TimeLimitReached(
                task_id=task_id,
                attempt=task.attempt.number,
                limit="queue" if task.state is TaskState.QUEUED else "run",
                due_ms=due_ms,
            )
            yield task, _about(task, "limit task", reached)


def proposal_of(action: Action, seen: int) -> Proposal:
    """Returns the proposal of an action; `seen` is the position up to which the fleet topic was folded."""
    span = "assign task" if isinstance(action, Assign) else "move task"
    return _about(action.task, span, _event_of(action, seen))


def _event_of(action: Action, seen: int) -> Event:
    task = action.task
    attempt = task.attempt
    match action:
        case Assign():
            return _assigned(action, seen)
        case Preempt(by=by):
            return TaskPreemptionRequested(
                task_id=task.task_id, attempt=attempt.number, placement=attempt.placement, by=by
            )
        case Recall(reason=reason):
            return TaskRecallRequested(
                task_id=task.task_id, attempt=attempt.number, placement=attempt.placement, reason=reason
            )
        case MarkUnschedulable(message=message):
            return TaskUnschedulable(
                task_id=task.task_id,
                attempt=attempt.number,
                number=attempt.unschedulable + 1,
                message=message,
            )


def _assigned(action: Assign, seen: int) -> TaskAssigned:
    task, candidate = action.task, action.candidate
    return TaskAssigned(
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement + 1,
        worker_id=candidate.host.worker.worker_id,
        incarnation=candidate.host.worker.incarnation,
        device_ids=candidate.device_ids,
        reserved=candidate.reserved,
        behind=action.behind,
        seen=seen,
    )
