"""The commands that devices are owed until the log has answered them: pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from trackside.contracts.fleet import RunningPlacement
from trackside.contracts.tasks import AttemptEnd, NextParameters, RecallTask, RunTask, StopTask
from trackside.domain import retries
from trackside.domain.fleet import Fleet
from trackside.domain.task import Task, TaskState
from trackside.scheduler.board import Board

Key = tuple[str, str, int, int]
HOST = "host"
STOPS: dict[AttemptEnd, tuple[str, Literal["preempted", "timed_out_run"]]] = {
    AttemptEnd.PREEMPTED: ("makes room for a task of higher priority", "preempted"),
    AttemptEnd.TIMED_OUT_RUN: ("has run for as long as it may", "timed_out_run"),
}


@dataclass(frozen=True, slots=True)
class DeviceCommand:
    """A command that a device is owed until the log answers it; `key` names it among repeats.

    `held` says that the worker keeps it for later: as long as that is so, no answer is expected.
    """

    worker_id: str
    device_id: str
    command: RunTask | StopTask | RecallTask | NextParameters
    traceparent: str
    held: bool = False

    @property
    def key(self) -> Key:
        """Says which placement of which task is to run, to stop, to be given back or to go on."""
        command = self.command
        name = type(command).__name__
        if isinstance(command, NextParameters):
            name += f" {command.request}"
        return (name, command.task_id, command.attempt, command.placement)


def owed(board: Board, fleet: Fleet) -> Iterable[DeviceCommand]:
    """Gives every device command that the log has not answered.

    What is placed shall run, what shall end is stopped, what was asked back is given back, and what asked
    for another trial's parameters is answered.
    """
    for task in board.owing.values():
        place = task.place
        if place is None or not fleet.current(place.worker_id, place.incarnation):
            continue
        stream = board.stream_of[task.task_id]
        command: RunTask | StopTask | RecallTask | NextParameters
        held = False
        if task.stop_reason or task.attempt.stopping is not None:
            command = stop_of(task, stream, place.incarnation)
        elif task.attempt.recalled:
            command = _recall_of(task, stream, place.incarnation)
        elif task.state is TaskState.PLACED:
            command = _run_of(task, stream, place.incarnation, board.policy.lease_s)
            held = task.attempt.behind and board.is_waiting(task.task_id)
        elif task.answered > task.taken:
            command = _next_of(task, stream, place.incarnation)
        else:
            continue
        yield DeviceCommand(place.worker_id, topic_of(place.device_ids), command, task.traceparent, held)


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
        yield DeviceCommand(worker_id, topic_of(placement.device_ids), command, "")


def topic_of(device_ids: Sequence[str]) -> str:
    """Gives whose topic the commands to a placement go to: the device's, or the host's for several."""
    return device_ids[0] if len(device_ids) == 1 else HOST


def stop_of(task: Task, stream: str, incarnation: str) -> StopTask:
    """Gives the command that ends a task's placement: a user's word counts more than the scheduler's."""
    reason = task.stop_reason
    end: Literal["cancelled", "preempted", "timed_out_run"] = "cancelled"
    if not reason and task.attempt.stopping is not None:
        reason, end = STOPS[task.attempt.stopping]
    return StopTask(
        stream=stream,
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement,
        incarnation=incarnation,
        reason=reason,
        end=end,
    )


def _recall_of(task: Task, stream: str, incarnation: str) -> RecallTask:
    return RecallTask(
        stream=stream,
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement,
        incarnation=incarnation,
    )


def _next_of(task: Task, stream: str, incarnation: str) -> NextParameters:
    return NextParameters(
        stream=stream,
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement,
        incarnation=incarnation,
        request=task.answered,
        parameters=None if task.withheld else task.parameters,
    )


def _run_of(task: Task, stream: str, incarnation: str, lease_s: float) -> RunTask:
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
        interrupted=task.attempt.interrupted,
        wait=task.attempt.behind,
        lease_s=lease_s,
    )
