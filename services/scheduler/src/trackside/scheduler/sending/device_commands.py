"""The commands that are sent to devices until an event answers them. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypedDict

from trackside.contracts.envelope.topics import command_target
from trackside.contracts.fleet.fleet import RunningPlacement
from trackside.contracts.tasks.device_commands import (
    GiveInstruction,
    NextParameters,
    RecallTask,
    RunTask,
    StopTask,
)
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.fleet.fleet import Fleet
from trackside.domain.tasks import retries, task_artifacts, task_instructions
from trackside.domain.tasks.task import Task, TaskState
from trackside.scheduler.planning.cluster_state import ClusterState

DeviceMessage = RunTask | StopTask | RecallTask | NextParameters | GiveInstruction
CommandKey = tuple[str, str, int, int]
OrphanKey = tuple[str, str, int, int]
"""Stream, task id, attempt and placement."""
STOP_REASONS: dict[AttemptEnd, tuple[str, Literal["preempted", "timed_out_run"]]] = {
    AttemptEnd.PREEMPTED: ("makes room for a task of higher priority", "preempted"),
    AttemptEnd.TIMED_OUT_RUN: ("has run for as long as it may", "timed_out_run"),
}


@dataclass(slots=True)
class PendingCommand:
    """A command that no event has answered yet; `build` makes the message from the present state of its task.

    `key` is the command, task id, attempt and placement, `follows` the offset of its cause. `deferred`: the
    worker keeps it until its device is free, so no answer is expected until then.
    """

    worker_id: str
    device_id: str
    key: CommandKey
    build: Callable[[], DeviceMessage]
    traceparent: str
    follows: int = -1
    deferred: bool = False


def with_key(command: DeviceMessage, public_key: str) -> DeviceMessage:
    """Returns a command with the key of its stream, if that is encrypted."""
    return command.model_copy(update={"public_key": public_key}) if public_key else command


def pending_commands(cluster: ClusterState, fleet: Fleet) -> Iterable[PendingCommand]:
    """Returns every device command that no event has answered.

    A placed task is started, one that must end is stopped, a recalled one is given back, and one that asked
    for the parameters of another trial gets them. A running one gets its newest instruction.
    """
    for task in cluster.unanswered.values():
        place = task.place
        if place is None or not fleet.current(place.worker_id, place.incarnation):
            continue
        attempt = task.attempt
        commands: list[tuple[str, Callable[..., DeviceMessage], int]] = []
        deferred = False
        if task.stop_reason or attempt.stopping is not None:
            commands.append(("StopTask", stop_command, task.asked_at))
        elif attempt.recalled:
            commands.append(("RecallTask", _recall_command, task.changed_at))
        elif task.state is TaskState.PLACED:
            run = partial(_run_command, lease_s=cluster.policy.lease_s)
            commands.append(("RunTask", run, task.changed_at))
            deferred = attempt.behind and cluster.is_waiting(task.task_id)
        else:
            commands += _commands_of_running(task)
        target = command_target(place.device_ids)
        for name, command, follows in commands:
            key = (name, task.task_id, attempt.number, attempt.placement)
            build = partial(command, task, cluster.stream_of[task.task_id], place.incarnation)
            yield PendingCommand(place.worker_id, target, key, build, task.traceparent, follows, deferred)


def _commands_of_running(task: Task) -> Iterable[tuple[str, Callable[..., DeviceMessage], int]]:
    """Yields what a running task has not received yet: name, how it is built, and offset of its cause."""
    if task.answered > task.taken:
        yield f"NextParameters {task.answered}", _next_parameters_command, task.changed_at
    if task.instruction is not None and task_instructions.is_unacknowledged(task):
        yield _instruction_name(task.instruction.number), _instruction_command, task.changed_at


def _instruction_name(number: int) -> str:
    return f"GiveInstruction {number}"


def instruction_key(task_id: str, attempt: int, placement: int, number: int) -> CommandKey:
    """Returns the key of the command that gives a placement an instruction."""
    return _instruction_name(number), task_id, attempt, placement


def commands_for_orphans(
    orphans: Iterable[RunningPlacement],
    worker_id: str,
    incarnation: str,
    changed_at: Callable[[RunningPlacement], int] = lambda _: -1,
) -> Iterable[PendingCommand]:
    """Returns a stop for every placement that a worker runs although the log has replaced or ended it.

    `changed_at` returns the offset of the event that did, or of a later one; -1 if it isn't known.
    """
    for placement in orphans:
        key = ("StopTask", placement.task_id, placement.attempt, placement.placement)
        build = partial(_stop_orphan, placement, incarnation)
        target = command_target(placement.device_ids)
        yield PendingCommand(worker_id, target, key, build, "", changed_at(placement))


def orphan_key(placement: RunningPlacement) -> OrphanKey:
    """Returns what identifies a placement."""
    return placement.stream, placement.task_id, placement.attempt, placement.placement


def _stop_orphan(placement: RunningPlacement, incarnation: str) -> StopTask:
    return StopTask(
        stream=placement.stream,
        task_id=placement.task_id,
        attempt=placement.attempt,
        placement=placement.placement,
        incarnation=incarnation,
        reason="stray",
    )


class _PlacementFields(TypedDict):
    """The fields by which each device command names its placement."""

    stream: str
    task_id: str
    attempt: int
    placement: int
    incarnation: str


def _placement_fields(task: Task, stream: str, incarnation: str) -> _PlacementFields:
    return _PlacementFields(
        stream=stream,
        task_id=task.task_id,
        attempt=task.attempt.number,
        placement=task.attempt.placement,
        incarnation=incarnation,
    )


def stop_command(task: Task, stream: str, incarnation: str) -> StopTask:
    """Returns the command that stops a placement: a user's reason goes before the scheduler's.

    One that goes on later, or whose checkpoint another task begins with, is asked for a checkpoint first; its
    worker knows whether it ever saves one.
    """
    reason = task.stop_reason
    end: Literal["cancelled", "preempted", "timed_out_run"] = "cancelled"
    if not reason and task.attempt.stopping is not None:
        reason, end = STOP_REASONS[task.attempt.stopping]
    asks = task.needs.resume and (end == "preempted" or reason == "step_limit")
    return StopTask(
        **_placement_fields(task, stream, incarnation),
        reason=reason,
        end=end,
        checkpoint_s=task.needs.checkpoint_grace_s if asks else 0,
    )


def _recall_command(task: Task, stream: str, incarnation: str) -> RecallTask:
    return RecallTask(**_placement_fields(task, stream, incarnation))


def _next_parameters_command(task: Task, stream: str, incarnation: str) -> NextParameters:
    return NextParameters(
        **_placement_fields(task, stream, incarnation),
        request=task.answered,
        parameters=None if task.withheld else task.parameters,
    )


def _instruction_command(task: Task, stream: str, incarnation: str) -> GiveInstruction:
    assert task.instruction is not None
    return GiveInstruction(**_placement_fields(task, stream, incarnation), instruction=task.instruction)


def _run_command(task: Task, stream: str, incarnation: str, lease_s: float) -> RunTask:
    return RunTask(
        **_placement_fields(task, stream, incarnation),
        task_type=task.task_type,
        parameters=task.parameters,
        device_ids=task.attempt.device_ids,
        reserved=task.attempt.reserved,
        whole_device=task.needs.resources.whole_device,
        exclusive=task.needs.exclusive,
        interrupts=retries.interrupts_left(task),
        interrupted=task.attempt.interrupted,
        wait=task.attempt.behind,
        lease_s=lease_s,
        inputs=task.inputs,
        service=task.needs.service is not None,
        unresponsive_s=None if task.needs.service is None else task.needs.service.unresponsive_s,
        instruction=task.instruction,
        step_limit=task.step_limit,
        part=task.part,
        checkpoints=task_artifacts.offered(task),
        saved=task_artifacts.versions(task),
    )
