"""What schedulers and workers of a cluster may write next about a task."""

from functools import partial

from tests.unit.verify.random_cluster import running_moves
from tests.unit.verify.random_cluster.cluster import Cluster, Move
from tests.unit.verify.random_cluster.tokens import token
from tests.unit.verify.random_cluster.workers import GIB, Usage, Worker, amount, fits
from trackside.contracts.message import Message
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    ParametersRequested,
    ParametersTaken,
    Reservation,
    TaskAccepted,
    TaskAssigned,
    TaskError,
    TaskInterrupted,
    TaskPreemptionRequested,
    TaskRecallRequested,
    TaskRefused,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
    TimeLimitReached,
)
from trackside.domain.reservation_growth import raised
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState

ERROR = TaskError(stage="TRAIN", type="OutOfMemoryError", message="CUDA out of memory")
ENDS = (AttemptEnd.FINISHED, AttemptEnd.FINISHED, AttemptEnd.FAILED, AttemptEnd.OOM_HOST)
ROOM = {"host": 8 * GIB, "device": 6 * GIB}
"""More than that is never reserved for one task here, so that it can run."""


def of_task(cluster: Cluster, stream: Stream, task: Task) -> list[Move]:
    """Returns the events that may follow about a task."""
    found: list[Move] = []
    if task.due_ms is not None and cluster.now_ms >= task.due_ms:
        found += [lambda: time_limit(cluster, stream, task)] * 3
    if task.state is TaskState.QUEUED:
        if cluster.now_ms >= task.not_before_ms or cluster.omits("backoff"):
            found += [lambda: assign(cluster, stream, task)] * 2
        return found
    place = task.place
    if place is None:
        return found
    if cluster.fleet.current(place.worker_id, place.incarnation):
        found += of_scheduler(cluster, stream, task)
    else:
        found += [lambda: append(cluster, stream, task, "scheduler", end(task, AttemptEnd.LOST))] * 2
    if place.incarnation in cluster.alive():
        found += of_worker(cluster, stream, task)
    return found


def assign(cluster: Cluster, stream: Stream, task: Task) -> None:
    """Places a task where it fits, or after another one on a CPU slot."""
    random = cluster.random
    reserved = task.raised or amount(random.randint(1, 4), random.randint(1, 4))
    attempt = task.attempt
    workers = [*cluster.there.values(), *(cluster.zombies if cluster.omits("fleet") else ())]
    for worker in random.sample(workers, len(workers)):
        for device in random.sample(worker.devices, len(worker.devices)):
            behind = free_behind(cluster, worker, device.device_id, reserved, task)
            if behind is None:
                continue
            event = TaskAssigned(
                task_id=task.task_id,
                attempt=attempt.number,
                placement=attempt.placement + 1,
                worker_id=worker.worker_id,
                incarnation=worker.incarnation,
                device_ids=[device.device_id],
                reserved=reserved,
                behind=behind,
                seen=cluster.fleet.position,
            )
            cluster.append("scheduler", stream.stream_id, event)
            return


def free_behind(
    cluster: Cluster, worker: Worker, device_id: str, reserved: Reservation, task: Task
) -> bool | None:
    """Returns whether a task would wait for another one on a device; None if it doesn't fit there."""
    if cluster.omits("devices"):
        return False
    there = [
        other for _, other in cluster.tasks() if other.place and other.place.worker_id == worker.worker_id
    ]
    on_device = [other for other in there if other.place and device_id in other.place.device_ids]
    if device_id.startswith("cpu"):
        if len(on_device) == 1 and not on_device[0].attempt.behind and cluster.random.random() < 0.3:
            return True
        return None if on_device else False
    whole = task.needs.resources.whole_device
    held = [
        Usage(
            worker=(worker.worker_id, ""),
            device_ids=[device_id],
            whole=other.needs.resources.whole_device,
            cuda=other.attempt.reserved.cuda_memory_bytes,
            on_device=True,
        )
        for other in on_device
    ]
    return False if fits(worker.worker_id, device_id, whole, reserved.cuda_memory_bytes, held) else None


def of_scheduler(cluster: Cluster, stream: Stream, task: Task) -> list[Move]:
    """Returns what a scheduler may request of a placement."""
    attempt, random = task.attempt, cluster.random
    named = {"task_id": task.task_id, "attempt": attempt.number, "placement": attempt.placement}
    found: list[Move] = []
    if task.state is TaskState.PLACED and not attempt.recalled and random.random() < 0.1:
        recall = TaskRecallRequested(**named, reason="free")
        found.append(lambda: append(cluster, stream, task, "scheduler", recall))
    if attempt.stopping is None and not task.stop_reason and random.random() < 0.05:
        preemption = TaskPreemptionRequested(**named, by="urgent")
        found.append(lambda: append(cluster, stream, task, "scheduler", preemption))
    return found


def of_worker(cluster: Cluster, stream: Stream, task: Task) -> list[Move]:
    """Returns what the worker of a placement may report."""
    if task.state is TaskState.PLACED:
        return [lambda: begin(cluster, stream, task)] * 3
    attempt = task.attempt
    asked = AttemptEnd.CANCELLED if task.stop_reason else attempt.stopping
    ends = [end(task, asked)] if asked is not None else [end(task, how) for how in ENDS]
    found: list[Move] = []
    if asked is not None or cluster.random.random() < 0.3:
        found += [partial(append, cluster, stream, task, "worker", ending) for ending in ends]
    found += [lambda: phase(cluster, stream, task)] * 3
    found += running_moves.of_worker(cluster, stream, task)
    if attempt.reached is TaskStatus.TRAINING:
        found += [lambda: report(cluster, stream, task)] * 4 if not task.idle else []
        found += requests(cluster, stream, task)
        found += [lambda: interrupt(cluster, stream, task)] * (cluster.random.random() < 0.5)
    return found


def begin(cluster: Cluster, stream: Stream, task: Task) -> None:
    """Accepts a placement, refuses it, or gives it back."""
    attempt = task.attempt
    if attempt.recalled or (task.stop_reason and cluster.random.random() < 0.5):
        append(cluster, stream, task, "worker", TaskReturned(**token(task)))
    elif cluster.random.random() < 0.1 or not has_room(cluster, stream, task, not attempt.behind):
        refused = TaskRefused(**token(task), code="out_of_memory", message="")
        append(cluster, stream, task, "worker", refused)
    else:
        append(cluster, stream, task, "worker", TaskAccepted(**token(task)))


def has_room(cluster: Cluster, stream: Stream, task: Task, with_device: bool) -> bool:
    """Asks the worker's ledger, unless the cluster omits this rule."""
    if cluster.omits("ledger"):
        return True
    return cluster.workers.has_room(stream.stream_id, task, with_device)


def phase(cluster: Cluster, stream: Stream, task: Task) -> None:
    """Enters the next phase; training once its devices are free."""
    attempt = task.attempt
    phases = [TaskStatus.LOADING, TaskStatus.WAITING, TaskStatus.TRAINING]
    later = [status for status in phases if status > attempt.reached]
    if not later:
        return
    status = later[0]
    if status is TaskStatus.TRAINING and not has_room(cluster, stream, task, with_device=True):
        return
    changed = TaskStatusChanged(**token(task), status=status, interrupts=interrupts(task))
    append(cluster, stream, task, "worker", changed)


def requests(cluster: Cluster, stream: Stream, task: Task) -> list[Move]:
    """Asks for another trial, or takes the answer."""
    if task.answered > task.taken:
        took = ParametersTaken(**token(task), request=task.answered)
        return [lambda: append(cluster, stream, task, "worker", took)] * 6
    if task.asks or cluster.random.random() < 0.7:
        return []
    asks = ParametersRequested(**token(task), request=task.requested + 1)
    return [lambda: append(cluster, stream, task, "worker", asks)] * 2


def report(cluster: Cluster, stream: Stream, task: Task) -> None:
    """Reports the next value."""
    attempt = task.attempt
    step = task.reports[-1][0] + 1 if task.reports else 0
    final = cluster.random.random() < 0.2 and not task.has_final
    event = MetricReported(
        task_id=task.task_id,
        attempt=attempt.number,
        placement=attempt.placement,
        kind="FINAL" if final else "PERIODICAL",
        step=step,
        value=0.5,
        interrupts=interrupts(task),
        requests=task.taken,
    )
    append(cluster, stream, task, "worker", event)


def interrupt(cluster: Cluster, stream: Stream, task: Task) -> None:
    """Runs out of memory and goes on with more, as far as there is more."""
    grown = raised(task.attempt.reserved, "device", 0)
    cut = grown.model_copy(update={"cuda_memory_bytes": min(grown.cuda_memory_bytes, ROOM["device"])})
    event = TaskInterrupted(
        **token(task), interrupt=interrupts(task) + 1, resource="device", reserved=cut, error=ERROR
    )
    append(cluster, stream, task, "worker", event)


def time_limit(cluster: Cluster, stream: Stream, task: Task) -> None:
    """Appends that a time limit is reached."""
    event = TimeLimitReached(
        task_id=task.task_id,
        attempt=task.attempt.number,
        limit="queue" if task.state is TaskState.QUEUED else "run",
        due_ms=task.due_ms or 0,
    )
    append(cluster, stream, task, "scheduler", event)


def append(cluster: Cluster, stream: Stream, task: Task, role: str, event: Message) -> None:
    """Appends one event about a task."""
    cluster.append(role, stream.stream_id, event)


def interrupts(task: Task) -> int:
    """Counts the interrupts of the attempt."""
    return task.attempt.interrupted


def end(task: Task, how: AttemptEnd) -> AttemptEnded:
    """Returns the end of the placement that a task has."""
    return AttemptEnded(**token(task), end=how)
