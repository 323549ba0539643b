"""What a worker that has nothing to do costs: processor time, and bytes between it and the broker.

A second worker joins the stack, with no slots busy and nothing to run; what the loopback device carries and
what the broker and the worker use is measured for some seconds without it and for as long with it.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, Findings
from bench.place import TOPICS
from bench.processor import tree_ms, used_ms
from bench.second import worker
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log


@dataclass(frozen=True, slots=True)
class _Use:
    """Per second: bytes on the loopback device, ms of processor time of the worker and of the stack."""

    bytes: float
    worker_ms: float
    stack_ms: float


async def measured(stack: Stack, log: Log, seconds: float) -> Findings:
    """Measures the stack without and with one more worker, each for so many seconds."""
    without = await _use(stack, None, seconds)
    async with worker(stack, log, TOPICS) as joined:
        beside = await _use(stack, joined.pid, seconds)
    more = beside.bytes - without.bytes
    figures = [
        Figure("-", "idle worker, on the wire", more / 1000, "kB/s", without.bytes / 1000, "idle stack"),
        Figure("-", "idle worker, processor", beside.worker_ms, "ms/s", without.stack_ms, "idle stack"),
    ]
    return Findings(figures, [], {"idle_broker_and_services_ms": beside.stack_ms - without.stack_ms})


async def _use(stack: Stack, pid: int | None, seconds: float) -> _Use:
    def now() -> tuple[float, float, float]:
        worker_ms = tree_ms(pid) if pid is not None else 0.0
        return _loopback_bytes(), worker_ms, sum(used_ms(stack).values())

    began, before = monotonic_s(), now()
    await asyncio.sleep(seconds)
    took_s, after = monotonic_s() - began, now()
    sent, worker_ms, stack_ms = ((late - early) / took_s for early, late in zip(before, after, strict=True))
    return _Use(sent, worker_ms, stack_ms)


def _loopback_bytes() -> float:
    """Gives how many bytes the loopback device has carried; each is counted once, as received."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return float(counts.split()[0])
    return 0.0
