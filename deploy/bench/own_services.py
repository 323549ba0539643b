"""Dispatchers and schedulers of a measurement's own: other topics and another database than the stack's."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import asyncpg

from bench.cpu_time import tree_ms
from bench.measurements import MissingError
from bench.recovery import SNAPSHOT
from trackside.embedded.ports import free_ports
from trackside.embedded.processes import children_of
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.settings.settings import StackSettings
from trackside.worker.own_memory import KIB, numbers

NAMES = ("dispatcher", "scheduler")
READY_S, QUIET_S, STOP_S = 600.0, 600.0, 60.0
PAUSE_S, LOOK_S = 0.1, 2.0
QUIET_MS = 120.0
"""A service that uses at most so many ms of processor time in `LOOK_S` has nothing left to do."""
MB = 1_000_000


@dataclass(frozen=True, slots=True)
class ServiceMemory:
    """The memory of a service in MB: resident, proportional, and proportional with all of its processes."""

    resident: float
    proportional: float
    tree: float


class OwnService:
    """The process of one service."""

    def __init__(self, name: str, settings: StackSettings) -> None:
        self.name = name
        [self._port] = free_ports(1)
        self._environment = variables_of(settings) | {"TRACKSIDE_HEALTH_PORT": str(self._port)}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it."""
        command = [sys.executable, "-m", f"trackside.{self.name}"]
        self._process = subprocess.Popen(command, env=self._environment, stderr=subprocess.DEVNULL)

    async def stop(self, number: int = signal.SIGTERM) -> None:
        """Stops it and waits for its end."""
        if self._process is not None:
            self._process.send_signal(number)
            try:
                await asyncio.to_thread(self._process.wait, STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                await asyncio.to_thread(self._process.wait)

    @property
    def pid(self) -> int:
        """The id of its process; MissingError if it doesn't run."""
        if self._process is None or self._process.poll() is not None:
            raise MissingError(f"the {self.name} has ended")
        return self._process.pid

    async def until_ready(self) -> None:
        """Waits until it has folded the log and decides."""
        deadline = monotonic_s() + READY_S
        async with aiohttp.ClientSession() as session:
            while monotonic_s() < deadline:
                assert self.pid
                try:
                    async with session.get(f"http://127.0.0.1:{self._port}/ready") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(PAUSE_S)
        raise MissingError(f"the {self.name} is not ready after {READY_S:g} s")

    async def until_quiet(self) -> None:
        """Waits until it has written its rows and snapshots: it uses no more than an idle one does."""
        deadline, before = monotonic_s() + QUIET_S, tree_ms(self.pid)
        while monotonic_s() < deadline:
            await asyncio.sleep(LOOK_S)
            now = tree_ms(self.pid)
            if now - before <= QUIET_MS:
                return
            before = now
        raise MissingError(f"the {self.name} is still busy after {QUIET_S:g} s")

    def memory(self) -> ServiceMemory:
        """Returns its memory now."""
        resident, proportional = _memory_mb(self.pid)
        below = [_memory_mb(pid)[1] for pid in _all_below(self.pid)]
        return ServiceMemory(resident, proportional, proportional + sum(below))


def variables_of(settings: StackSettings) -> dict[str, str]:
    """Returns the environment of a process of these topics and this database."""
    return {
        **os.environ,
        "TRACKSIDE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "TRACKSIDE_POSTGRES_DSN": settings.postgres_dsn,
        "TRACKSIDE_TOPIC_PREFIX": settings.topic_prefix,
    }


@asynccontextmanager
async def running(services: Sequence[OwnService]) -> AsyncIterator[float]:
    """Runs services for a block, ready and quiet at its beginning; yields the s until all were ready."""
    began_s = monotonic_s()
    try:
        for service in services:
            service.start()
        for service in services:
            await service.until_ready()
        ready_s = monotonic_s() - began_s
        for service in services:
            await service.until_quiet()
        yield ready_s
    finally:
        await asyncio.gather(*(service.stop() for service in services))


async def until_saved(settings: StackSettings, stream_id: str, offset: int) -> None:
    """Waits until the snapshot of a stream includes an offset."""
    connection = await asyncpg.connect(settings.postgres_dsn)
    try:
        async with asyncio.timeout(QUIET_S):
            while not await connection.fetchval(SNAPSHOT, stream_id, offset):  # noqa: ASYNC110
                await asyncio.sleep(PAUSE_S)
    finally:
        await connection.close()


def _all_below(pid: int) -> list[int]:
    return [each for child in children_of(pid) for each in (child, *_all_below(child))]


def _memory_mb(pid: int) -> tuple[float, float]:
    """Returns the resident and the proportional memory of one process, MB; 0 for one that is gone."""
    found = numbers(Path(f"/proc/{pid}/smaps_rollup"), KIB)
    return found.get("Rss", 0) / MB, found.get("Pss", 0) / MB
