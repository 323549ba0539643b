"""The commands that devices are owed until the log has answered them: pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypedDict

from trackside.contracts.fleet import RunningPlacement
from trackside.contracts.tasks import AttemptEnd, NextParameters, RecallTask, RunTask, StopTask
from trackside.contracts.topics import HOST
from trackside.domain import retries
from trackside.domain.fleet import Fleet
from trackside.domain.task import Task, TaskState
from trackside.scheduler.cluster_state import ClusterState

DeviceMessage = RunTask | StopTask | RecallTask | NextParameters
CommandKey = tuple[str, str, int, int]
STOPS: dict[AttemptEnd, tuple[str, Literal["preempted", "timed_out_run"]]] = {
    AttemptEnd.PREEMPTED: ("makes room for a task of higher priority", "preempted"),
    AttemptEnd.TIMED_OUT_RUN: ("has run for as long as it may", "timed_out_run"),
}


@dataclass(slots=True)
class PendingCommand:
    """A command that a device is owed until the log answers it; `make` makes it from what its task is now.

    `key` says which placement of which task is to run, to stop or to be given back. `held` says that the
    worker keeps it for later: as long as that is so, no answer is expected.
    """

    worker_id: str
    device_id: str
    key: CommandKey
    make: Callable[[], DeviceMessage]
    traceparent: str
    held: bool = False


def pending_commands(cluster: ClusterState, fleet: Fleet) -> Iterable[PendingCommand]:
    """Gives every device command that the log has not answered.

    What is placed shall run, what shall end is stopped, what was asked back is given back, and what asked
    for another trial's parameters is answered.
    """
    for task in cluster.owing.values():
        place = task.place
        if place is None or not fleet.current(place.worker_id, place.incarnation):
            continue
        attempt = task.attempt
        make: Callable[..., DeviceMessage]
        held = False
        if task.stop_reason or attempt.stopping is not None:
            name, make = "StopTask", stop_of
        elif attempt.recalled:
            name, make = "RecallTask", _recall_of
        elif task.state is TaskState.PLACED:
            name, make = "RunTask", partial(_run_of, lease_s=cluster.policy.lease_s)
            held = attempt.behind and cluster.is_waiting(task.task_id)
        elif task.answered > task.taken:
            name, make = f"NextParameters {task.answered}", _next_of
        else:
            continue
        key = (name, task.task_id, attempt.number, attempt.placement)
        made = partial(make, task, cluster.stream_of[task.task_id], place.incarnation)
        yield PendingCommand(place.worker_id, topic_of(place.device_ids), key, made, task.traceparent, held)


def commands_for_orphans(
    running: Iterable[RunningPlacement],
    worker_id: str,
    incarnation: str,
    current: Callable[[RunningPlacement], bool],
) -> Iterable[PendingCommand]:
    """Gives a stop for every placement that a worker runs although the log has moved on."""
    for placement in running:
        if current(placement):
            continue
        key = ("StopTask", placement.task_id, placement.attempt, placement.placement)
        made = partial(_stop_of_stray, placement, incarnation)
        yield PendingCommand(worker_id, topic_of(placement.device_ids), key, made, "")


def _stop_of_stray(placement: RunningPlacement, incarnation: str) -> StopTask:
    return StopTask(
        stream=placement.stream,
        task_id=placement.task_id,
        attempt=placement.attempt,
        placement=placement.placement,
        incarnation=incarnation,
        reason="stray",
    )


def topic_of(device_ids: Sequence[str]) -> str:
    """Gives whose topic the commands to a placement go to: the device's, or the host's for several."""
    return device_ids[0] if len(device_ids) == 1 else HOST


class _Placement(TypedDict):
    """What each command to a device says of the placement it is about."""

    stream: str
    task_id: str
    attempt: int
    placement: int
    incarnation: str


def _placement_of(task: Task, stream: str, incarnation: str) -> _Placement:
    return _Placement(
        stream=stream,
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement,
        incarnation=incarnation,
    )


def stop_of(task: Task, stream: str, incarnation: str) -> StopTask:
    """Gives the command that ends a task's placement: a user's word counts more than the scheduler's."""
    reason = task.stop_reason
    end: Literal["cancelled", "preempted", "timed_out_run"] = "cancelled"
    if not reason and task.attempt.stopping is not None:
        reason, end = STOPS[task.attempt.stopping]
    return StopTask(
        **_placement_of(task, stream, incarnation),
        reason=reason,
        end=end,
    )


def _recall_of(task: Task, stream: str, incarnation: str) -> RecallTask:
    return RecallTask(**_placement_of(task, stream, incarnation))


def _next_of(task: Task, stream: str, incarnation: str) -> NextParameters:
    return NextParameters(
        **_placement_of(task, stream, incarnation),
        request=task.answered,
        parameters=None if task.withheld else task.parameters,
    )


def _run_of(task: Task, stream: str, incarnation: str, lease_s: float) -> RunTask:
    return RunTask(
        **_placement_of(task, stream, incarnation),
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
