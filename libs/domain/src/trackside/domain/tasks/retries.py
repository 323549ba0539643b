"""Which ends of attempts are followed by another attempt, and after how long: pure, from the log alone."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

from trackside.contracts.tasks.resources import Retry, RetryPolicy
from trackside.contracts.tasks.tasks import AttemptEnd, Reservation
from trackside.domain.tasks.task import Attempt, Task

_RESOURCES = {AttemptEnd.OOM_HOST: "host", AttemptEnd.OOM_DEVICE: "device"}
_NAMED = {end: end.value for end in AttemptEnd if end.value in RetryPolicy.model_fields}
_NEVER = Retry()
_AGAIN = Retry(backoff_s=10.0, max_backoff_s=360.0)
SERVED_MS = 600_000
"""How long a service must have been ready for its attempts to be counted anew."""
KEPT_ATTEMPTS = 20
"""How many attempts of a service are kept; the wait is the longest long before."""


def wait_after(task: Task, end: AttemptEnd) -> int | None:
    """Returns how long the next attempt of a task waits, ms; None if it gets none after such an end."""
    if task.needs.service is not None:
        return service_wait_ms(task.attempts, task.task_id)
    if not allows(task.needs.retry, task.attempts, end):
        return None
    return wait_ms(task.needs.retry, task.attempts, end, task.task_id)


def allows(policy: RetryPolicy, attempts: Sequence[Attempt], end: AttemptEnd) -> bool:
    """Returns whether a task whose newest attempt has ended so gets another one."""
    if 0 < attempts[-1].reserved.largest_limit_bytes <= exceeded_limit(policy, attempts[-1:]):
        return False
    return _count(attempts, end) <= _rule(policy, end).times


def exceeded_limit(policy: RetryPolicy, attempts: Sequence[Attempt]) -> int:
    """Returns the largest memory limit that attempts were killed at, bytes; more is needed to try again.

    0 if there was none, or if the policy allows another attempt with the same limit.
    """
    return 0 if policy.at_memory_limit else max(attempt.limit_bytes for attempt in attempts)


def interrupts_left(task: Task) -> int:
    """Returns how often the newest attempt may still run out of memory in training without ending."""
    if task.needs.service is not None:
        return 0
    policy, attempts = task.needs.retry, task.attempts
    return min(_rule(policy, end).times - _count(attempts, end) for end in _RESOURCES)


def wait_ms(policy: RetryPolicy, attempts: Sequence[Attempt], end: AttemptEnd, task_id: str) -> int:
    """Returns how long the next attempt waits: exponential, with a jitter that every reader draws alike."""
    return _drawn_ms(_rule(policy, end), _count(attempts, end), attempts[-1], task_id)


def service_wait_ms(attempts: Sequence[Attempt], task_id: str) -> int:
    """Returns how long the next attempt of a service waits: longer after each, until one has served well."""
    count = 0
    for attempt in reversed(attempts[-KEPT_ATTEMPTS:]):
        count += 1
        if attempt.ready_ms and attempt.ended_ms - attempt.ready_ms >= SERVED_MS:
            break
    return _drawn_ms(_AGAIN, count, attempts[-1], task_id)


def backoff_ms(failures: int) -> int:
    """Returns how long to wait after so many failures in a row, as a service does, but without jitter.

    10 s, doubled with each failure up to 360 s; 0 for 0.
    """
    return int(_backoff_s(_AGAIN, min(failures, KEPT_ATTEMPTS)) * 1000) if failures else 0


def _drawn_ms(rule: Retry, count: int, attempt: Attempt, task_id: str) -> int:
    wait_s = _backoff_s(rule, count)
    digest = blake2b(f"{task_id}/{attempt.number}".encode(), digest_size=8).digest()
    drawn = int.from_bytes(digest, "big") / 2**64
    return int(wait_s * (1 + rule.jitter * (2 * drawn - 1)) * 1000)


def _backoff_s(rule: Retry, count: int) -> float:
    return min(rule.backoff_s * rule.factor ** (count - 1), rule.max_backoff_s)


def _rule(policy: RetryPolicy, end: AttemptEnd) -> Retry:
    """Returns the rule of an end; ends that no policy names are never followed by another attempt."""
    name = _NAMED.get(end)
    rule: Retry = _NEVER if name is None else getattr(policy, name)
    return rule


def _count(attempts: Sequence[Attempt], end: AttemptEnd) -> int:
    """Counts the attempts that ended so; running out of memory in training counts without an end too."""
    resource, count = _RESOURCES.get(end, ""), 0
    for attempt in attempts:
        count += (attempt.end is end) + attempt.interrupts.get(resource, 0)
    return count


GROWTH = 1.5
HEADROOM = 1.1


def raised(reserved: Reservation, resource: Literal["host", "device"], peak_bytes: int) -> Reservation:
    """Returns what an attempt shall have that ran out of memory: half as much again, and 10% over its peak.

    The scheduler and the worker cut it to what a host or a device has: then it runs alone there.
    """
    had = reserved.memory_bytes if resource == "host" else reserved.cuda_memory_bytes
    wanted = max(int(had * GROWTH), int(peak_bytes * HEADROOM))
    field = "memory_bytes" if resource == "host" else "cuda_memory_bytes"
    return reserved.model_copy(update={field: wanted, "estimated_by": "raised"})
