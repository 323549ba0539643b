"""What a worker that has nothing to do costs: processor time, and bytes between it and the broker.

A second worker joins the stack, with no slots busy and nothing to run; what the loopback device carries and
what the broker and the worker use is measured for some seconds without it and for as long with it.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figures import Figure, Findings
from bench.place import SLOTS, TASKS, TOPICS
from bench.processor import tree_ms, used_ms
from bench.watching import watched
from trackside.contracts.fleet import WorkerJoined, WorkerLeft
from trackside.contracts.message import Record
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log

WORKER = "idle"
LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class _Use:
    """Per second: bytes on the loopback device, ms of processor time of the worker and of the stack."""

    bytes: float
    worker_ms: float
    stack_ms: float


async def measured(stack: Stack, log: Log, seconds: float) -> Findings:
    """Measures the stack without and with one more worker, each for so many seconds."""
    without = await _use(stack, None, seconds)
    async with _idle_worker(stack, log) as pid:
        beside = await _use(stack, pid, seconds)
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


@asynccontextmanager
async def _idle_worker(stack: Stack, log: Log) -> AsyncIterator[int]:
    """Gives the pid of a worker that has joined."""
    with TemporaryDirectory(prefix="trackside-bench-idle-") as folder:
        variables = {
            **os.environ,
            "TRACKSIDE_KAFKA_BOOTSTRAP": stack.bootstrap_servers,
            "TRACKSIDE_POSTGRES_DSN": stack.postgres_dsn,
            "TRACKSIDE_WORKER_ID": WORKER,
            "TRACKSIDE_WORKER_CATALOGUE": str(TASKS),
            "TRACKSIDE_WORKER_CPU_SLOTS": str(SLOTS),
            "TRACKSIDE_WORKER_DATA_DIR": folder,
        }
        async with watched(log, TOPICS.fleet) as watch:
            process = subprocess.Popen(  # noqa: ASYNC220
                [sys.executable, "-m", "trackside.worker"], env=variables, stderr=subprocess.DEVNULL
            )
            try:
                await watch.until(lambda record: _is(record, WorkerJoined), LIMIT_S)
                yield process.pid
                process.terminate()
                await watch.until(lambda record: _is(record, WorkerLeft), LIMIT_S)
            finally:
                process.kill()
                process.wait()


def _is(record: Record, kind: type[WorkerJoined] | type[WorkerLeft]) -> bool:
    message = record.message
    return isinstance(message, kind) and message.worker_id == WORKER
