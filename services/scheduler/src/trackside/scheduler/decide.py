"""What the scheduler decides about workers and attempts, from folded state alone: pure."""

from collections.abc import Callable, Iterable, Mapping

from trackside.contracts.fleet import WorkerLost
from trackside.contracts.message import Event
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAssigned,
    TaskError,
    TaskPreemptionRequested,
    TaskRecallRequested,
    TaskUnschedulable,
    TimeLimitReached,
)
from trackside.domain.fleet import Fleet
from trackside.domain.task import Task, TaskState
from trackside.scheduler.board import Board
from trackside.scheduler.lease import Leases
from trackside.scheduler.moves import Assign, Move, PushAside, Recall, SayNever

AGAIN_MS = 250
"""After how long a time limit is said again that the log found too early: its clock is behind ours."""
BUSY_MS = 20
"""After how long a time limit is looked at again that couldn't be decided about."""


def lost_workers(fleet: Fleet, leases: Leases, lease_ms: int) -> list[WorkerLost]:
    """Gives the workers that were silent for longer than their lease."""
    lost = []
    for worker in fleet.workers.values():
        if worker.gone:
            continue
        silent_ms = leases.silent_ms(worker.incarnation)
        if silent_ms > lease_ms:
            lost.append(
                WorkerLost(worker_id=worker.worker_id, incarnation=worker.incarnation, silent_ms=silent_ms)
            )
    return lost


def lost_attempts(
    board: Board,
    fleet: Fleet,
    positions: Mapping[int, int],
    there: frozenset[tuple[str, str]] = frozenset(),
) -> Iterable[tuple[Task, AttemptEnded]]:
    """Gives the end of every attempt whose worker's incarnation is no more.

    Where a worker has joined anew, what it recovered of its past must have been folded before:
    `positions` are the next offsets to fold, by partition of the events topic. `there` are workers with
    their incarnations of which the fleet is known to say that they are there: where they have all, it is
    not looked at each of a thousand.
    """
    if there.issuperset(board.on):
        return
    for (worker_id, incarnation), task_ids in board.on.items():
        if fleet.current(worker_id, incarnation):
            continue
        worker = fleet.workers.get(worker_id)
        if worker is None or not fleet.knows(incarnation):
            continue
        if any(positions.get(partition, 0) < offset for partition, offset in worker.after.items()):
            continue
        for task_id in task_ids:
            task = board.placed[task_id]
            yield task, _ended(task, AttemptEnd.LOST, incarnation)


def given_up(task: Task) -> AttemptEnded:
    """Gives the end of a task that was refused too often: the last refusal says why."""
    refusals = [past for past in task.attempt.past if past.end == "refused"]
    last = refusals[-1]
    message = f"refused {len(refusals)} times, last by {last.worker_id}: {last.code}: {last.message}"
    error = TaskError(stage="START", type="Refused", message=message)
    return _ended(task, AttemptEnd.REFUSED, "", error)


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
    board: Board, now_ms: int, busy: Callable[[str], bool]
) -> Iterable[tuple[Task, TimeLimitReached]]:
    """Gives the tasks that have waited or run for as long as they may."""
    for task_id in list(board.limits.pop_due(now_ms)):
        task = board.tasks.get(task_id)
        due_ms = None if task is None else task.due_ms
        if task is None or due_ms is None:
            continue
        if due_ms > now_ms:
            board.limits.set(task_id, due_ms)
        elif busy(board.stream_of[task_id]):
            board.limits.set(task_id, now_ms + BUSY_MS)
        else:
            board.limits.set(task_id, now_ms + AGAIN_MS)
            yield (
                task,
                TimeLimitReached(
                    task_id=task_id,
                    attempt=task.attempt.number,
                    limit="queue" if task.state is TaskState.QUEUED else "run",
                    due_ms=due_ms,
                ),
            )


def event_of(move: Move, seen: int) -> Event:
    """Gives the event of a move; `seen` is the position in the fleet topic that it rests on."""
    task = move.task
    attempt = task.attempt
    match move:
        case Assign():
            return assigned(move, seen)
        case PushAside(by=by):
            return TaskPreemptionRequested(
                task_id=task.task_id, attempt=attempt.number, placement=attempt.placement, by=by
            )
        case Recall(reason=reason):
            return TaskRecallRequested(
                task_id=task.task_id, attempt=attempt.number, placement=attempt.placement, reason=reason
            )
        case SayNever(message=message):
            return TaskUnschedulable(
                task_id=task.task_id,
                attempt=attempt.number,
                number=attempt.unschedulable + 1,
                message=message,
            )


def assigned(move: Assign, seen: int) -> TaskAssigned:
    """Gives the event of a placement; it follows the placement before it, or loses."""
    task, spot = move.task, move.spot
    return TaskAssigned(
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement + 1,
        worker_id=spot.host.worker.worker_id,
        incarnation=spot.host.worker.incarnation,
        device_ids=spot.device_ids,
        reserved=spot.reserved,
        behind=move.behind,
        seen=seen,
    )
