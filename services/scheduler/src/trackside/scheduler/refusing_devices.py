"""Devices that have refused a task get none like it for a while. Pure."""

from trackside.contracts.tasks import TaskRefused
from trackside.domain.task import Task
from trackside.scheduler.hosts import Hosts
from trackside.scheduler.requirements import requirements_of

AVOID_MS = 1_000
"""How long a device that refused a task is avoided; twice as long after each refusal of the attempt."""
MAX_AVOID_MS = 30_000


def avoid_refusing_devices(hosts: Hosts, refused: TaskRefused, task: Task, now_ms: int) -> None:
    """Avoids the devices that refused a task; for equal tasks only if they lacked memory."""
    past = task.attempt.past[-1]
    count = sum(other.end == "refused" for other in task.attempt.past)
    until_ms = now_ms + min(AVOID_MS * 2 ** (count - 1), MAX_AVOID_MS)
    requirements = requirements_of(task) if refused.code == "out_of_memory" else None
    if requirements is None:
        until_ms = now_ms + AVOID_MS
    hosts.avoid(past.worker_id, past.device_ids, requirements, until_ms)
