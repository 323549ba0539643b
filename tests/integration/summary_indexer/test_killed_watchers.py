"""S18: a watcher that is killed goes on at the byte where the log ends; each point is there once."""

import asyncio
import os
import random
import signal
from pathlib import Path

import pytest

from tests.integration.summary_indexer.harness import Point, Sandbox, indexed_points, until_caught_up
from tests.integration.summary_indexer.watched import begin_file, ends_of, points
from tests.polling import poll_until
from tests.stack import SEED_VARIABLE
from trackside.eventlog.kafka import KafkaLog
from trackside.summary_indexer.watching.log_positions import job_id_of

FILES, KILLS = 10, 2

pytestmark = pytest.mark.usefixtures("dispatcher")


async def test_a_watcher_that_is_killed_while_ten_files_grow_indexes_each_point_once(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """S17, S18: also between the points of some bytes and the event that says how far they reach."""
    chance = random.Random(int(os.environ[SEED_VARIABLE]))
    base = tmp_path / "runs"
    paths = [begin_file(base / f"run-{number}", number) for number in range(FILES)]
    variables = {"TRACKSIDE_SUMMARY_DIRECTORIES": str(base)}
    indexer = await sandbox.indexer(watched=variables).start()
    expected: dict[Point, float | None] = {}
    written = dict.fromkeys(paths, 0)
    restarts = dict.fromkeys(paths, 0)

    def grow() -> None:
        for path in paths:
            if chance.random() < 0.1:
                restarts[path] += written[path] > 0
                written[path] = 0
            count = chance.randrange(1, 200)
            points(path, written[path], count)
            job, attempt = job_id_of(str(base), path.parent.name), 10_000 + restarts[path]
            for step in range(written[path], written[path] + count):
                expected[job, attempt, "loss", step] = step / 2
            written[path] += count

    async def reads_on(before: int) -> None:
        async def holds() -> bool:
            return sum((await ends_of(log, sandbox)).values()) > before

        await poll_until(holds)

    for _ in range(KILLS):
        before = sum((await ends_of(log, sandbox)).values())
        grow()
        await reads_on(before)
        grow()
        indexer.send(signal.SIGKILL)
        await asyncio.gather(indexer.ended(), asyncio.to_thread(grow))
        await indexer.start()
    sizes = {path.name: path.stat().st_size for path in paths}

    async def is_read() -> bool:
        return await ends_of(log, sandbox) == sizes

    await poll_until(is_read)
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected
