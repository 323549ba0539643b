"""Directories with event files, imported by the command line until their rows are in Postgres.

The references are P11's points, which are in Kafka already when its time begins, and TensorBoard's own load
of a directory with a thousand runs: a hundredth of what the part `summary-reads` has.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import asyncpg

from bench import metric_points
from bench.event_files import file_of
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log

FILES = 10
RUNS, POINTS_OF_RUN = 1_000, 100
LIMIT_S = 300.0
POLL_S = 0.05
POINTS = "SELECT coalesce(sum(points), 0)::bigint FROM trackside.summary_briefs"


async def measure(stack: Stack, log: Log, points: int, seed: int) -> Measurements:
    """Imports ten files of `points` scalars in all, and a thousand small runs, both twice."""
    found = await metric_points.measure(log, stack.postgres_dsn, points, "import")
    ceiling = found.figures[0].value
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        large, small = Path(name) / "large", Path(name) / "small"
        for run in range(FILES):
            file_of(large / f"run-{run}", points // FILES, seed + run)
        for run in range(RUNS):
            file_of(small / f"run-{run:04}", POINTS_OF_RUN, seed + run)
        in_files, in_runs = points // FILES * FILES, RUNS * POINTS_OF_RUN
        one = await _imported(stack, large, in_files)
        again = await _imported(stack, large, 0)
        runs = await _imported(stack, small, in_runs)
        runs_again = await _imported(stack, small, 0)
        loaded, reloaded = await asyncio.to_thread(_loaded, small, in_runs)
    figures = [
        Figure(
            "P13", "event files -> rows", in_files / one, "/s", ceiling, "P11, Kafka to rows",
            Goal(0.25, 0.6, ratio=True),
        ),
        Figure("-", "the same import again", again, "s", one, "the first time"),
        Figure("-", f"import of {RUNS:,} runs, {in_runs:,} points", runs, "s", loaded, "TensorBoard's load"),
        Figure("-", "the same import again", runs_again, "s", reloaded, "TensorBoard's reload"),
    ]  # fmt: skip
    counted = [f"{in_files + in_runs:,} points of event files in rows"]
    return Measurements(figures, counted)


async def start_command(stack: Stack, command: str, directory: Path) -> asyncio.subprocess.Process:
    """Starts `trackside summaries COMMAND DIRECTORY` on a stack."""
    env = {
        **os.environ,
        "TRACKSIDE_KAFKA_BOOTSTRAP": stack.bootstrap_servers,
        "TRACKSIDE_POSTGRES_DSN": stack.postgres_dsn,
        "TRACKSIDE_STORE": stack.store,
    }
    program = str(Path(sys.executable).with_name("trackside"))
    words = (program, "summaries", command, str(directory))
    return await asyncio.create_subprocess_exec(*words, env=env, stdout=asyncio.subprocess.DEVNULL)


async def _imported(stack: Stack, directory: Path, points: int) -> float:
    """Runs the command; returns the seconds from its start until it has ended and all rows are there."""
    connection = await asyncpg.connect(stack.postgres_dsn)
    try:
        before = await connection.fetchval(POINTS)
        began = monotonic_s()
        process = await start_command(stack, "import", directory)
        if await process.wait():
            raise MissingError(f"summaries import ended with {process.returncode}")
        while (found := await connection.fetchval(POINTS) - before) < points:
            if monotonic_s() - began > LIMIT_S:
                raise MissingError(f"{found:,} of {points:,} points were indexed within {LIMIT_S:g} s")
            await asyncio.sleep(POLL_S)
        seconds = monotonic_s() - began
        check_count("points of the import", found, points)
        return seconds
    finally:
        await connection.close()


def _loaded(directory: Path, points: int) -> tuple[float, float]:
    """Returns the seconds of TensorBoard's load of all runs, and of a reload that finds nothing new."""
    from tensorboard.backend.event_processing import plugin_event_multiplexer

    began = monotonic_s()
    multiplexer: Any = plugin_event_multiplexer.EventMultiplexer(tensor_size_guidance={"scalars": 0})
    multiplexer.AddRunsFromDirectory(str(directory))
    multiplexer.Reload()
    loaded = monotonic_s() - began
    found = sum(
        len(multiplexer.Tensors(run, tag))
        for run, tags in multiplexer.Runs().items()
        for tag in tags["tensors"]
    )
    check_count("points that TensorBoard has loaded", found, points)
    began = monotonic_s()
    multiplexer.AddRunsFromDirectory(str(directory))
    multiplexer.Reload()
    return loaded, monotonic_s() - began
