"""What the scheduler decides and what it owes to workers, from folded state alone: pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from trackside.contracts.fleet import RunningPlacement, WorkerLost
from trackside.contracts.tasks import AttemptEnd, AttemptEnded, RunTask, StopTask, TaskAssigned
from trackside.domain import retries
from trackside.domain.fleet import Fleet
from trackside.domain.task import Task, TaskState
from trackside.scheduler.board import Board
from trackside.scheduler.lease import Leases
from trackside.scheduler.placement import Placement


@dataclass(frozen=True, slots=True)
class DeviceCommand:
    """A command that a device is owed until the log answers it; `key` names it among repeats."""

    worker_id: str
    device_id: str
    command: RunTask | StopTask
    traceparent: str

    @property
    def key(self) -> tuple[str, str, int, int]:
        """Says which placement of which task is to run or to stop."""
        command = self.command
        return (type(command).__name__, command.task_id, command.attempt, command.placement)


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
    board: Board, fleet: Fleet, positions: Mapping[int, int]
) -> Iterable[tuple[Task, AttemptEnded]]:
    """Gives the end of every attempt whose worker's incarnation is no more.

    Where a worker has joined anew, what it recovered of its past must have been folded before:
    `positions` are the next offsets to fold, by partition of the events topic.
    """
    for task in board.placed.values():
        place = task.place
        if place is None or fleet.current(place.worker_id, place.incarnation):
            continue
        worker = fleet.workers.get(place.worker_id)
        if worker is None or not fleet.knows(place.incarnation):
            continue
        if any(positions.get(partition, 0) < offset for partition, offset in worker.after.items()):
            continue
        yield (
            task,
            AttemptEnded(
                task_id=task.task_id,
                attempt=task.attempt.number,
                placement=task.attempt.placement,
                incarnation=place.incarnation,
                end=AttemptEnd.LOST,
            ),
        )


def assigned(placement: Placement, seen: int) -> TaskAssigned:
    """Gives the event of a placement; it follows the placement before it, or loses."""
    task = placement.task
    return TaskAssigned(
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement + 1,
        worker_id=placement.worker_id,
        incarnation=placement.incarnation,
        device_ids=[placement.device_id],
        seen=seen,
    )


def owed(board: Board, fleet: Fleet) -> Iterable[DeviceCommand]:
    """Gives every device command that the log has not answered: run what is placed, stop what shall end."""
    for task in board.placed.values():
        place = task.place
        if place is None or not fleet.current(place.worker_id, place.incarnation):
            continue
        stream = board.stream_of[task.task_id]
        command: RunTask | StopTask
        if task.stop_reason:
            command = stop_of(task, stream, place.incarnation)
        elif task.state is TaskState.PLACED:
            command = _run_of(task, stream, place.incarnation)
        else:
            continue
        yield DeviceCommand(place.worker_id, place.device_ids[0], command, task.traceparent)


def strays(
    running: Iterable[RunningPlacement],
    worker_id: str,
    incarnation: str,
    current: Callable[[RunningPlacement], bool],
) -> Iterable[DeviceCommand]:
    """Gives a stop for every placement that a worker runs although the log has moved on."""
    for placement in running:
        if current(placement):
            continue
        command = StopTask(
            stream=placement.stream,
            task_id=placement.task_id,
            attempt=placement.attempt,
            placement=placement.placement,
            incarnation=incarnation,
            reason="stray",
        )
        yield DeviceCommand(worker_id, placement.device_ids[0], command, "")


def stop_of(task: Task, stream: str, incarnation: str) -> StopTask:
    """Gives the command that ends a task's placement."""
    return StopTask(
        stream=stream,
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement,
        incarnation=incarnation,
        reason=task.stop_reason,
    )


def _run_of(task: Task, stream: str, incarnation: str) -> RunTask:
    return RunTask(
        stream=stream,
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement,
        incarnation=incarnation,
        task_type=task.task_type,
        parameters=task.parameters,
        device_ids=task.attempt.device_ids,
        reserved=task.attempt.reserved,
        whole_device=task.needs.resources.whole_device,
        exclusive=task.needs.exclusive,
        interrupts=retries.interrupts_left(task.needs.retry, task.attempts),
        wait=task.attempt.behind,
    )
