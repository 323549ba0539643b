"""S18: a watcher that is killed goes on at the byte where the log ends; each point is there once."""

import asyncio
import random
import signal

import pytest

from tests.integration.summary_indexer.harness import Point, indexed_points, until_caught_up
from tests.integration.summary_indexer.watched import Runs, begin_file, points
from tests.polling import poll_until
from trackside.summary_indexer.watching.log_positions import job_id_of

FILES, KILLS = 10, 2


@pytest.mark.long
async def test_a_watcher_that_is_killed_while_ten_files_grow_indexes_each_point_once(
    own_runs: Runs, seed: int
) -> None:
    """S17, S18: also between the points of some bytes and the event that says how far they reach."""
    runs, chance = own_runs, random.Random(seed)
    paths = [begin_file(runs.base / f"run-{number}", number) for number in range(FILES)]
    variables = {"TRACKSIDE_SUMMARY_DIRECTORIES": str(runs.base)}
    indexer = await runs.sandbox.indexer(watched=variables).start()
    expected: dict[Point, float | None] = {}
    written = dict.fromkeys(paths, 0)
    restarts = dict.fromkeys(paths, 0)

    def grow() -> None:
        for path in paths:
            if chance.random() < 0.1:
                restarts[path] += written[path] > 0
                written[path] = 0
            count = chance.randrange(2, 200)  # a single step is no restart when it comes again
            steps = range(written[path], written[path] + count)
            points(path, steps)
            job, attempt = job_id_of(str(runs.base), path.parent.name), 10_000 + restarts[path]
            for step in steps:
                expected[job, attempt, "loss", step] = step / 2
            written[path] += count

    async def reads_on(before: int) -> None:
        async def holds() -> bool:
            return sum((await runs.ends()).values()) > before

        await poll_until(holds)

    for _ in range(KILLS):
        before = sum((await runs.ends()).values())
        grow()
        await reads_on(before)
        grow()
        indexer.send(signal.SIGKILL)
        await asyncio.gather(indexer.ended(), asyncio.to_thread(grow))
        await indexer.start()
    await runs.until_has(paths)
    await until_caught_up(runs.log, runs.sandbox)
    assert await indexed_points(runs.sandbox.dsn) == expected
