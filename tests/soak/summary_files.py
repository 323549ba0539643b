"""Experiments that are event files: they grow for a while, and each point of them must be a row then."""

import math
import shutil

import asyncpg

from tests.chaos.growing_files import GrowingFile, GrowingFiles, PointKey
from tests.chaos.random_faults import pause
from tests.polling import poll_until
from tests.soak.scene import PATIENCE_S, Scene
from trackside.aggregates.summary.state import summary_of

TIMES, EVERY_S = 30, 1.0
"""How often a few of its files grow, and how often that is."""
ROWS = """
SELECT task_id, attempt, tag, step, value, counts FROM dashboards.metrics WHERE task_id = ANY($1::text[])
"""


async def summaries(scene: Scene, name: str) -> str:
    """Lets ten files grow, one of which restarts at a lower step, and compares the rows with them."""
    folder = scene.summaries / name
    files = GrowingFiles(folder, scene.rng, scene.summaries)
    for number in range(TIMES):
        files.grow()
        if number == TIMES // 2:
            files.restart(scene.rng.choice([each for each in files.files if each.step > 1]))
        await pause(EVERY_S)
    files.finish()
    await scene.until(f"all bytes of {name}", lambda: all(_is_read(scene, each) for each in files.files))
    await _until_rows(scene, files)
    shutil.rmtree(folder)
    for job in {each.job_id for each in files.files}:
        scene.history.forget(job)
    return f"{len(files.files)} files"


def _is_read(scene: Scene, file: GrowingFile) -> bool:
    stream = scene.history.streams.by_id.get(file.job_id)
    job = None if stream is None else summary_of(stream)
    known = None if job is None else job.files.get(file.path.name)
    return known is not None and (known.end, known.code) == (file.size, "")


async def _until_rows(scene: Scene, files: GrowingFiles) -> None:
    """Waits until the rows are what is in the files: the database may be away, or late."""
    expected = {key: None if math.isnan(value) else value for key, value in files.expected.items()}
    counting = files.counting()
    found: dict[PointKey, float | None] = {}

    async def are_right() -> bool:
        nonlocal found
        try:
            rows = await _rows(scene, sorted({each.job_id for each in files.files}))
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
        found = {PointKey(*row[:4]): row["value"] for row in rows}
        counted = {PointKey(*row[:4]) for row in rows if row["counts"]}
        return len(rows) == len(found) and found == expected and counted == counting

    try:
        await poll_until(are_right, PATIENCE_S)
    except TimeoutError:
        missing, others = expected.keys() - found.keys(), found.keys() - expected.keys()
        raise AssertionError(
            f"rows of {files.base.name}: {len(missing)} missing, {len(others)} too many"
        ) from None


async def _rows(scene: Scene, jobs: list[str]) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(scene.running.postgres_dsn, timeout=10)
    try:
        return list(await connection.fetch(ROWS, jobs, timeout=30))
    finally:
        await connection.close(timeout=5)
