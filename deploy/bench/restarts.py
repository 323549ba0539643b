"""R6: the time from kill -9 of a process of the stack until it has an effect again, quiet and under load.

At the moment of each kill a task is submitted. What is waited for is the first event or row about it that the
killed process writes, or that can't be written without it.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from statistics import median

import asyncpg

from bench.command_latency import publish, search
from bench.fresh_stack import TOPICS
from bench.log_watch import LogWatch, watch_topic
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count
from trackside.aggregates.batch.messages import BatchEnded, GroupSpec, SubmitTasks, TaskSpec
from trackside.aggregates.search.messages import StopSearch
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.tasks.resources import Resources, Retry, RetryPolicy
from trackside.contracts.tasks.tasks import TaskAccepted, TaskAssigned, TaskSubmitted
from trackside.embedded.stack import Stack
from trackside.embedded.supervision.spares import AFTER_S
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log
from trackside.eventlog.retry import retry_until_reachable

LIMIT_S, POLL_S = 90.0, 0.005
STEADY_S = AFTER_S + 15.0
TRIALS = 1_000_000
"""More than can end while the load lasts."""
SERVICE = Goal(5, 1, at_most=True)
TASK_ROW = "SELECT count(*) FROM trackside.tasks WHERE stream_id = $1"
POINT_ROW = "SELECT count(*) FROM dashboards.metrics WHERE stream_id = $1"
AGAIN = RetryPolicy(lost=Retry(times=5))
"""More than one: the task may be placed on a worker that was killed just now."""


@dataclass(frozen=True, slots=True)
class KilledPart:
    """A process of the stack, and what shows that it works: an event about the task, or a row."""

    name: str
    effect: str
    shown_by: type[Event] | str
    goal: Goal = SERVICE


PARTS = (
    KilledPart("dispatcher", "task submitted", TaskSubmitted),
    KilledPart("scheduler", "task assigned", TaskAssigned),
    KilledPart("worker", "task accepted", TaskAccepted),
    KilledPart("summary-indexer", "point in Postgres", POINT_ROW),
    KilledPart("kafka", "task submitted", TaskSubmitted, Goal(6, 3, at_most=True)),
    KilledPart("postgres", "row of the task", TASK_ROW, Goal(2, 0.5, at_most=True)),
)


async def measure(stack: Stack, log: Log, runs: int) -> Measurements:
    """Kills each part so many times, in turn: first on a quiet stack, then with a search and busy loops."""
    kills = _Kills(stack, log)
    quiet_s = await kills.times(runs)
    async with _searching(log):
        with _busy_loops(os.cpu_count() or 1):
            loaded_s = await kills.times(runs)
    figures = [
        Figure(
            "R6", f"{part.name} killed{with_load}", median(times_s[part.name]), "s",
            max(times_s[part.name]), f"worst of {runs}", part.goal,
        )
        for part in PARTS
        for with_load, times_s in (("", quiet_s), (", loaded", loaded_s))
    ]  # fmt: skip
    killed = sum(map(len, [*quiet_s.values(), *loaded_s.values()]))
    counted = [check_count("kills, each followed by a new effect", killed, 2 * runs * len(PARTS))]
    return Measurements(figures, counted, {"restarts_s": {"quiet": quiet_s, "loaded": loaded_s}})


class _Kills:
    """Kills the parts of a stack in turn, and takes the times."""

    def __init__(self, stack: Stack, log: Log) -> None:
        self._stack = stack
        self._log = log
        self._steady_at_s = dict.fromkeys((part.name for part in PARTS), monotonic_s() + STEADY_S)

    async def times(self, runs: int) -> dict[str, list[float]]:
        """Returns the times of all kills in seconds, by the name of the process."""
        times_s: dict[str, list[float]] = {part.name: [] for part in PARTS}
        async with watch_topic(self._log, TOPICS.events) as watch:
            for _ in range(runs):
                for part in PARTS:
                    times_s[part.name].append(await self._time(part, watch))
        return times_s

    async def _time(self, part: KilledPart, watch: LogWatch) -> float:
        # One that ends soon after its start has no spare yet, or is started later: crashes are not measured.
        await asyncio.sleep(max(0.0, self._steady_at_s[part.name] - monotonic_s()))
        pid = self._stack.pid(part.name)
        if pid is None:
            raise MissingError(f"the stack has no {part.name}")
        stream_id, start = f"bench-restart-{new_id()[:8]}", len(watch.seen)
        os.kill(pid, signal.SIGKILL)
        began_s = monotonic_s()
        publishing = asyncio.create_task(self._publish(stream_id))
        try:
            if isinstance(part.shown_by, str):
                shown_s = await self._until_row(part.shown_by, stream_id)
            else:
                shown_s = (await watch.until(_about(stream_id, part.shown_by), LIMIT_S, start)).at_s
            self._steady_at_s[part.name] = monotonic_s() + STEADY_S
            await publishing
            await watch.until(_about(stream_id, BatchEnded), LIMIT_S, start)
        except TimeoutError as error:
            raise MissingError(f"{part.name} was killed: no {part.effect} after {LIMIT_S:g} s") from error
        return shown_s - began_s

    async def _publish(self, stream_id: str) -> None:
        """Submits one task that needs no device and reports a point, once Kafka takes the command."""
        task = TaskSpec(
            task_type="reporting",
            parameters={"points": 1, "seed": 1},
            resources=Resources(devices=0),
            priority=9,
            retry=AGAIN,
        )
        command, command_id = SubmitTasks(groups=[GroupSpec(tasks=[task])]), new_id()
        await retry_until_reachable(
            lambda: publish(self._log, command, stream_id, command_id), _ignore, POLL_S, LIMIT_S
        )

    async def _until_row(self, query: str, stream_id: str) -> float:
        """Returns when a query first finds a row of the stream, in s of the monotonic clock."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                try:
                    connection = await asyncpg.connect(self._stack.postgres_dsn)
                    try:
                        while not await connection.fetchval(query, stream_id):  # noqa: ASYNC110
                            await asyncio.sleep(POLL_S)
                        return monotonic_s()
                    finally:
                        connection.terminate()
                except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    await asyncio.sleep(POLL_S)  # it starts


def _about(stream_id: str, kind: type[Event]) -> Callable[[Record], bool]:
    return lambda record: isinstance(record.message, kind) and record.envelope.stream == stream_id


def _ignore(_: str) -> None:
    pass


@asynccontextmanager
async def _searching(log: Log) -> AsyncIterator[None]:
    """Runs a search of trials that do nothing while the block runs."""
    stream_id = f"bench-load-{new_id()[:8]}"
    await publish(log, search(TRIALS, concurrency=2), stream_id, new_id())
    try:
        yield
    finally:
        await publish(log, StopSearch(), stream_id, new_id())


@contextmanager
def _busy_loops(count: int) -> Iterator[None]:
    """Runs so many processes that use a whole core each while the block runs."""
    loops = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
