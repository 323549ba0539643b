"""P13: event files to columns; the references are EventAccumulator, and a walk over the frames alone."""

import multiprocessing
import random
import struct
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench.measurements import Figure, Goal, Measurements, check_count
from trackside.eventlog.clock import monotonic_s
from trackside.summaries.event_files import reading, writing

RUNS, TAGS = 10, 10
TRIES = 3
FIRST_MS = 1_700_000_000_000
_LENGTH = struct.Struct("<Q")
GOAL = Goal(3, 8, ratio=True)


def file_of(folder: Path, points: int, seed: int) -> Path:
    """Writes an event file of `points` scalars of ten tags, one in each record; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{FIRST_MS // 1000}.bench"
    numbers = random.Random(seed)
    with path.open("wb") as file:
        file.write(writing.first_record(FIRST_MS))
        for number in range(points):
            step, tag = divmod(number, TAGS)
            time_ms = FIRST_MS + 37 * step + tag
            file.write(writing.record(f"train/metric_{tag}", step, time_ms, numbers.random()))
    return path


def measure(points: int, seed: int) -> Measurements:
    """Writes `points` scalars into ten files, and has each reader read all of them."""
    per_file = points // RUNS
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as folder:
        paths = [file_of(Path(folder) / f"run-{run}", per_file, seed + run) for run in range(RUNS)]
        expected = per_file * RUNS
        walk = _best(lambda: sum(map(_walked, paths)) - RUNS, expected)
        one = _best(lambda: sum(map(decoded, paths)), expected)
        two = _in_two_processes(paths, expected)
        accumulated = _best(lambda: sum(map(_accumulated, paths)), expected, tries=1)
    theirs, walked = "EventAccumulator", "frames, unchecked"
    figures = [
        Figure("P13", "event files -> columns, one process", one, "/s", accumulated, theirs, GOAL),
        Figure("P13", "the same in two processes", two, "/s", accumulated, theirs, GOAL),
        Figure("P13", "one process, next to the walk", one, "/s", walk, walked),
    ]
    return Measurements(figures, [f"{expected:,} points in each reader of event files"])


def _best(read: Callable[[], int], expected: int, tries: int = TRIES) -> float:
    """Returns points per second of the fastest of some tries, each of which must find all points."""
    seconds = []
    for _ in range(tries):
        began = monotonic_s()
        found = read()
        seconds.append(monotonic_s() - began)
        check_count("points in event files", found, expected)
    return expected / min(seconds)


def decoded(path: Path) -> int:
    """Returns the number of points that our reader decodes; it compares the checksums of every record."""
    columns = (
        found
        for piece in reading.read(str(path))
        for segment in piece.decoded.segments
        for found in segment.scalars.values()
    )
    return sum(len(found.values) for found in columns)


def _walked(path: Path) -> int:
    """Returns the number of records; reads their lengths, cuts their bodies out, and compares nothing."""
    data, at, records = path.read_bytes(), 0, 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        body = data[at + 12 : at + 12 + length]
        at += 16 + len(body)
        records += 1
    return records


def _accumulated(path: Path) -> int:
    """Returns the number of points that TensorBoard's reader has in memory afterwards."""
    accumulator: Any = _event_accumulator()(str(path.parent), size_guidance={"scalars": 0})
    accumulator.Reload()
    return sum(len(accumulator.Scalars(tag)) for tag in accumulator.Tags()["scalars"])


def _event_accumulator() -> Any:
    from tensorboard.backend.event_processing import event_accumulator

    return event_accumulator.EventAccumulator


def _in_two_processes(paths: Sequence[Path], expected: int) -> float:
    """Returns the rate of two processes that read every second file each, without their start."""
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as processes:
        list(processes.map(decoded, paths[:2]))  # both have imported what they need
        return _best(lambda: sum(processes.map(decoded, paths)), expected)
