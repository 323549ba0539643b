"""What a task needs in order to be placed; tasks with equal requirements fit in the same places. Pure."""

from dataclasses import dataclass
from typing import Literal

from trackside.domain.tasks import retries
from trackside.domain.tasks.task import Task

DEVICE_KINDS = {"any": frozenset({"cpu", "gpu"}), "cpu": frozenset({"cpu"}), "gpu": frozenset({"gpu"})}


@dataclass(frozen=True, slots=True)
class Requirements:
    """All of a task that decides where it fits.

    `memory_bytes` and `cuda_memory_bytes` are estimates of a user, None if there is none; `estimated_by` says
    whether the task or its group has them. The raised ones are lower bounds after it ran out of memory, 0 for
    none. `exceeded_bytes` is the memory limit that it was killed at, 0 for none: only a worker that allows
    more may run it. `worker_id` and `device_id` are the fixed device, empty for none. `preempts_below`: it
    may preempt tasks whose effective priority is lower than this, -1 for none. `allows_look_ahead`: it may be
    placed after a running task. `credentials` are the names of those that its host needs for its inputs. With
    a `device_count` of 0 it takes memory of a host only.
    """

    queue: str
    task_type: str
    kind: Literal["any", "cpu", "gpu"] = "any"
    device_count: int = 1
    worker_id: str = ""
    device_id: str = ""
    whole_device: bool = False
    memory_bytes: int | None = None
    cuda_memory_bytes: int | None = None
    raised_memory_bytes: int = 0
    raised_cuda_memory_bytes: int = 0
    exceeded_bytes: int = 0
    preempts_below: int = -1
    allows_look_ahead: bool = True
    estimated_by: Literal["task", "group"] = "task"
    credentials: frozenset[str] = frozenset()

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of devices that it can run on."""
        return DEVICE_KINDS[self.kind]


def requirements_of(task: Task) -> Requirements:
    """Returns the requirements of a task.

    A task with a limit on its time in the queue is never placed after a running one: it would no longer
    count as queued while it waits.
    """
    needs, wanted, raised = task.needs, task.needs.resources, task.raised
    worker_id, device_id = fixed_device(wanted.device)
    return Requirements(
        queue=needs.queue,
        task_type=task.task_type,
        kind=wanted.kind,
        device_count=wanted.devices,
        worker_id=worker_id,
        device_id=device_id,
        whole_device=wanted.whole_device,
        memory_bytes=wanted.estimate_memory,
        cuda_memory_bytes=wanted.estimate_cuda_memory,
        raised_memory_bytes=0 if raised is None else raised.memory_bytes,
        raised_cuda_memory_bytes=0 if raised is None else raised.cuda_memory_bytes,
        exceeded_bytes=_exceeded_bytes(task),
        preempts_below=needs.priority if needs.preempt else -1,
        estimated_by=task.estimated_by,
        allows_look_ahead=wanted.devices == 1 and needs.queue_timeout_s is None,
        credentials=frozenset(needs.credentials).union(
            each.credential for each in task.inputs.values() if each.credential
        ),
    )


def _exceeded_bytes(task: Task) -> int:
    """Returns the memory limit that a task was killed at, 0 if that doesn't matter: a service goes on."""
    if task.raised is None or task.needs.service is not None:
        return 0
    return retries.exceeded_limit(task.needs.retry, task.attempts)


def fixed_device(text: str) -> tuple[str, str]:
    """Parses a fixed device, `gpu-1`, `cuda:1` or `w1/gpu-1`; returns (worker or "", device)."""
    worker_id, _, device_id = text.rpartition("/")
    name, colon, number = device_id.partition(":")
    if colon and name == "cuda":
        device_id = f"gpu-{number}"
    return worker_id, device_id


def waiting_since_ms(task: Task) -> int:
    """Returns since when a task waits, ms since 1970; after a preemption since then."""
    # A preempted task that kept its seniority would preempt the other one back.
    since_ms = max(task.queued_at[0], task.not_before_ms)
    for past in task.attempt.past:
        if past.end == "preempted" and past.ended_ms > since_ms:
            since_ms = past.ended_ms
    return since_ms


def effective_priority(priority: int, waited_ms: int, ageing_ms: int) -> int:
    """Returns the priority plus one for each `ageing_ms` of waiting, so that no task starves."""
    return priority + max(0, waited_ms) // ageing_ms
