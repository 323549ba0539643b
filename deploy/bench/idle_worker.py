"""The cost of an idle worker: processor time, and bytes between it and the broker.

A second worker joins the stack, with no slots busy and nothing to run; what the loopback device carries and
what the broker and the worker use is measured for some seconds without it and for as long with it.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from bench.cpu_time import tree_ms, used_ms
from bench.extra_worker import worker
from bench.fresh_stack import TOPICS
from bench.measurements import Figure, Measurements
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log


@dataclass(frozen=True, slots=True)
class _Usage:
    """Per second: bytes on the loopback device, ms of processor time of the worker and of the stack."""

    bytes: float
    worker_ms: float
    stack_ms: float


async def measure(stack: Stack, log: Log, seconds: float) -> Measurements:
    """Measures the stack without and with a second worker, for `seconds` each."""
    without = await _usage(stack, None, seconds)
    async with worker(stack, log, TOPICS) as joined:
        with_worker = await _usage(stack, joined.pid, seconds)
    added_bytes = with_worker.bytes - without.bytes
    figures = [
        Figure(
            "-", "idle worker, on the wire", added_bytes / 1000, "kB/s", without.bytes / 1000, "idle stack"
        ),
        Figure("-", "idle worker, processor", with_worker.worker_ms, "ms/s", without.stack_ms, "idle stack"),
    ]
    return Measurements(figures, [], {"idle_broker_and_services_ms": with_worker.stack_ms - without.stack_ms})


async def _usage(stack: Stack, pid: int | None, seconds: float) -> _Usage:
    def now() -> tuple[float, float, float]:
        worker_ms = tree_ms(pid) if pid is not None else 0.0
        return _loopback_bytes(), worker_ms, sum(used_ms(stack).values())

    began, before = monotonic_s(), now()
    await asyncio.sleep(seconds)
    took_s, after = monotonic_s() - began, now()
    sent, worker_ms, stack_ms = ((late - early) / took_s for early, late in zip(before, after, strict=True))
    return _Usage(sent, worker_ms, stack_ms)


def _loopback_bytes() -> float:
    """Returns how many bytes the loopback device has carried; each is counted once, as received."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return float(counts.split()[0])
    return 0.0
