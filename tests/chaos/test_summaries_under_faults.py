"""Ten event files grow while what reads them is killed: each point is there once, and rows equal a rebuild.

Two summary-indexers watch their directory. One test does so longer.
"""

import asyncio
import logging
import math
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

from tests.chaos.growing_files import GrowingFile, GrowingFiles, PointKey, flip
from tests.chaos.history import TIMEOUT_S, History
from tests.chaos.settings import RUNS
from tests.polling import poll_until
from trackside.aggregates.summary.messages import RetrySummaryFile
from trackside.aggregates.summary.state import SummaryFile, summary_of
from trackside.contracts.envelope.topics import Topics
from trackside.embedded import stack
from trackside.embedded.kafka.kafka import FAST_START
from trackside.embedded.options import ServiceSpec, StackOptions
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.projections.reading.reads import open_read_models
from trackside.projections.tables.owners import DISPATCHER, OWNERS, SUMMARY_INDEXER
from trackside.sdk import Client
from trackside.verify.postgres import verify_with_postgres

INDEXERS = ("summary-indexer", "summary-indexer-2")
FAULTS: tuple[tuple[str, ...], ...] = (INDEXERS, ("dispatcher", "postgres"), ("kafka",))
"""What is killed at once."""
MORE_FAULTS = (
    *FAULTS,
    (INDEXERS[0],),
    ("dispatcher",),
    ("postgres",),
    ("kafka", INDEXERS[1]),
    ("postgres", INDEXERS[0]),
    (INDEXERS[1], "dispatcher"),
)
SETUP = ((sys.executable, "-m", "trackside.cli.setup"),)
GROW_EVERY_S = 0.1
ROWS = "SELECT task_id, attempt, tag, step, value, non_finite, counts FROM dashboards.metrics"


@dataclass
class Scene:
    """A stack, the files that its indexers watch, and what the log has of them."""

    running: Stack
    files: GrowingFiles
    log: KafkaLog
    history: History
    rng: random.Random
    kills: list[str] = field(default_factory=list)
    grown_s: float = -math.inf

    def grow(self) -> None:
        """Lets a few files grow, unless they have just now: what reads them needs the processors, too."""
        if monotonic_s() - self.grown_s >= GROW_EVERY_S:
            self.files.grow()
            self.grown_s = monotonic_s()

    def known(self, file: GrowingFile) -> SummaryFile | None:
        """Returns what the log has of a file."""
        stream = self.history.streams.by_id.get(file.job_id)
        job = None if stream is None else summary_of(stream)
        return None if job is None else job.files.get(file.path.name)

    def read_bytes(self) -> int:
        """Returns how many bytes of the files the log has."""
        return sum(known.end for file in self.files.files if (known := self.known(file)) is not None)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Waits while the files grow, and the log is read."""

        async def grow_and_look() -> bool:
            self.grow()
            return holds()

        await poll_until(grow_and_look)

    async def until_more_is_read(self) -> None:
        """Waits until the log has more of the files than now."""
        before = self.read_bytes()
        await self.until(lambda: self.read_bytes() > before)

    async def until_points_follow(self) -> None:
        """Waits for records of points, of which the log may not say yet how far they reach."""
        topic = Topics().metrics.name
        before = sum((await self.log.ends(topic)).values())
        count = self.rng.randrange(1, 6)

        async def grow_and_look() -> bool:
            self.grow()
            try:
                return sum((await self.log.ends(topic)).values()) >= before + count
            except TransientError:
                return False

        await poll_until(grow_and_look)

    async def kill(self, names: tuple[str, ...]) -> None:
        """Kills processes at once, and waits until their successors are ready."""
        victims = {name: self.running.pid(name) for name in names}
        for name, pid in victims.items():
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            self.kills.append(f"SIGKILL {name} ({pid}) when {self.read_bytes():,} bytes were read")

        def are_back() -> bool:
            found = stack.load(self.running.folder).status.processes
            return all(found[name].state == "ready" and found[name].pid != victims[name] for name in names)

        await self.until(are_back)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def running(tmp_path: Path, base: Path, leash: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """Yields a stack of the test's own with two indexers of one directory."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", FAST_START)  # the broker starts twice, and has little to do
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    watched = {"TRACKSIDE_SUMMARY_DIRECTORIES": str(base), "TRACKSIDE_SUMMARY_LOOK_S": "0.5"}
    services = [ServiceSpec("dispatcher")]  # there are no tasks
    for number, name in enumerate(INDEXERS, 1):
        env = {**watched, "TRACKSIDE_INSTANCE": str(number)}
        services.append(ServiceSpec(name, module=INDEXERS[0], env=env))
    options = StackOptions(services, setup=SETUP, leash=leash, timeout_s=600, grace_s=0.1)
    folder = tmp_path / ".trackside"
    yield stack.start(folder, options)
    stack.stop(folder)


@asynccontextmanager
async def opened(running: Stack, base: Path, seed: int) -> AsyncIterator[Scene]:
    """Yields the scene, whose history follows the log."""
    rng = random.Random(seed)
    async with KafkaLog(running.bootstrap_servers, client_id="chaos") as log, asyncio.TaskGroup() as group:
        history = History(log, Topics(), "")
        following = group.create_task(history.follow())
        scene = Scene(running, GrowingFiles(base, rng), log, history, rng)
        try:
            yield scene
        finally:
            print("\n".join([f"seed {seed}", *scene.kills]))  # noqa: T201
            following.cancel()


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_each_point_is_there_once_after_the_kill_of_anything(
    running: Stack, base: Path, seed: int
) -> None:
    """S17, S18."""
    await assert_nothing_is_lost(running, base, seed, [*FAULTS])


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("number", range(RUNS))
async def test_each_point_is_there_once_after_many_kills(
    running: Stack, base: Path, seed: int, number: int
) -> None:
    await assert_nothing_is_lost(running, base, seed + number, [*MORE_FAULTS] * 3)


async def assert_nothing_is_lost(
    running: Stack, base: Path, seed: int, faults: list[tuple[str, ...]]
) -> None:
    """Injects faults one after the other while files grow, and compares all rows with the files."""
    async with opened(running, base, seed) as scene:
        scene.rng.shuffle(faults)
        restarted, replaced, damaged = scene.rng.sample(scene.files.files, 3)
        await scene.until_more_is_read()
        await replace(scene, replaced, base.parent)
        position = scene.files.damage(damaged)
        scene.files.resting.append(damaged)
        for number, names in enumerate(faults):
            await scene.until_points_follow()
            if number == len(faults) // 2:
                scene.files.restart(restarted)
            await scene.kill(names)
        await scene.until(lambda: bool((known := scene.known(damaged)) and known.code))
        flip(damaged.path, position)
        async with Client(running.bootstrap_servers, name="chaos") as client:
            retry = RetrySummaryFile(file=damaged.path.name)
            await client.publish(retry, damaged.job_id, timeout_s=TIMEOUT_S)
        scene.files.finish()
        await until_read(scene)
        await assert_rows_are_right(scene)


async def replace(scene: Scene, file: GrowingFile, beside: Path) -> None:
    """Replaces a file that the log has wholly, and waits until it has the other one from its start."""
    scene.files.resting.append(file)
    scene.files.lengthen(file)  # of a file as long as the one before, only who has read that one can tell
    await scene.until(lambda: (known := scene.known(file)) is not None and known.end == file.size)
    scene.files.replace(file, beside)
    await scene.until(lambda: (known := scene.known(file)) is not None and known.number == file.number)
    scene.files.resting.remove(file)


async def until_read(scene: Scene) -> None:
    """Waits until the log has all bytes of all files."""

    def are_read() -> bool:
        found = [scene.known(file) for file in scene.files.files]
        return [known and (known.end, known.code) for known in found] == [
            (file.size, "") for file in scene.files.files
        ]

    await scene.history.until("all bytes of all files", are_read)


async def assert_rows_are_right(scene: Scene) -> None:
    """Compares rows with what was written, with a rebuild, and the log with its invariants."""
    topics, dsn = Topics(), scene.running.postgres_dsn
    async with open_read_models(dsn) as models:
        for name in (DISPATCHER, SUMMARY_INDEXER):
            for topic in OWNERS[name].topics(topics):
                for partition, end in (await scene.log.ends(topic.name)).items():
                    if end:
                        await models.until(name, topic.name, partition, end, TIMEOUT_S)
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(ROWS)
    finally:
        await connection.close()
    expected = scene.files.expected
    keys = [PointKey(*row[:4]) for row in rows]
    assert len(keys) == len(set(keys))
    assert dict(zip(keys, map(value_of, rows), strict=True)) == {
        key: None if math.isnan(value) else value for key, value in expected.items()
    }
    assert all((row["non_finite"] == "nan") == (row["value"] is None) for row in rows)
    assert {key for key, row in zip(keys, rows, strict=True) if row["counts"]} == scene.files.counting()
    report = await verify_with_postgres(scene.log, topics, dsn)
    assert report.findings == []
    assert report.checked["INV-15"] >= len(expected)


def value_of(row: asyncpg.Record) -> float | None:
    """Returns the value of a point, None if it isn't finite."""
    value: float | None = row["value"]
    return value
