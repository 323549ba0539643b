"""What a task asks for, as the scheduler compares it: who asks for the same fits in the same places. Pure."""

from dataclasses import dataclass
from typing import Literal

from trackside.domain.task import Task

KINDS = {"any": frozenset({"cpu", "gpu"}), "cpu": frozenset({"cpu"}), "gpu": frozenset({"gpu"})}


@dataclass(frozen=True, slots=True)
class Requirements:
    """All of a task that decides where it fits. `memory` and `cuda` are bytes, None if the user gave none.

    `worker_id` and `device_id` are the fixed device, empty for none; `preempts` is the priority that it may
    push others aside with, -1 for never; `may_wait` says that it may be placed behind a running task.
    `estimated_by` says whose word `memory` and `cuda` are.
    """

    queue: str
    task_type: str
    kind: Literal["any", "cpu", "gpu"] = "any"
    devices: int = 1
    worker_id: str = ""
    device_id: str = ""
    whole: bool = False
    memory: int | None = None
    cuda: int | None = None
    raised_memory: int = 0
    raised_cuda: int = 0
    preempts: int = -1
    may_wait: bool = True
    estimated_by: Literal["task", "group"] = "task"

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of devices that will do."""
        return KINDS[self.kind]


def requirements_of(task: Task) -> Requirements:
    """Reads what a task asks for.

    A task with a limit on its waiting is never placed behind another one: its wait would not be seen.
    """
    needs, wanted, raised = task.needs, task.needs.resources, task.raised
    worker_id, device_id = fixed_device(wanted.device)
    return Requirements(
        queue=needs.queue,
        task_type=task.task_type,
        kind=wanted.kind,
        devices=wanted.devices,
        worker_id=worker_id,
        device_id=device_id,
        whole=wanted.whole_device,
        memory=wanted.estimate_memory,
        cuda=wanted.estimate_cuda_memory,
        raised_memory=0 if raised is None else raised.memory_bytes,
        raised_cuda=0 if raised is None else raised.cuda_memory_bytes,
        preempts=needs.priority if needs.preempt else -1,
        estimated_by=task.estimated_by,
        may_wait=wanted.devices == 1 and needs.queue_timeout_s is None,
    )


def fixed_device(text: str) -> tuple[str, str]:
    """Reads a fixed device, `gpu-1`, `cuda:1` or `w1/gpu-1`, as (worker or "", device)."""
    worker_id, _, device_id = text.rpartition("/")
    name, colon, number = device_id.partition(":")
    if colon and name == "cuda":
        device_id = f"gpu-{number}"
    return worker_id, device_id


def waiting_since_ms(task: Task) -> int:
    """Gives since when a task has waited; one that was pushed aside waits anew, or it would push back."""
    since_ms = max(task.queued_at[0], task.not_before_ms)
    for past in task.attempt.past:
        if past.end == "preempted" and past.ended_ms > since_ms:
            since_ms = past.ended_ms
    return since_ms


def level_of(priority: int, waited_ms: int, ageing_ms: int) -> int:
    """Gives a priority as it counts: one more for each `ageing_ms` of waiting, so that nothing starves."""
    return priority + max(0, waited_ms) // ageing_ms
