"""R1, R2: the state of a long stream at a point in time, and a what-if of a search of 300 trials."""

import random
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import synthetic_log
from bench.measurements import Figure, Goal, Measurements, check_count
from bench.smallest import size
from trackside.aggregates.search.messages import TrialStatus
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log
from trackside.projections.past.reader import PastReader
from trackside.projections.past.store import FolderPastStore, PastStore
from trackside.projections.past.writer import write_past
from trackside.replay.find_stream import find_stream
from trackside.replay.history.point_in_time import PointInTime
from trackside.replay.history.recorded_stream import read_entries, state_at
from trackside.replay.history.state_cache import StateCache
from trackside.whatif.compare import ScenarioGrid, compare, parse_assessor
from trackside.whatif.recording import Recording, TrialTrace

TOPICS = Topics("bench-replay.")
STREAM = "digits-0000"
EVENTS = size(100_000, 2_000)
TRIALS, REPORTS = size(300, 20), 50
ASSESSORS = ("median", "percentile:percentile=25", "asha", "hyperband")
ROUNDS = 3
LATER_OFFSETS = tuple(EVENTS * part // 100 for part in (99, 30, 49, 70, 90))
"""The numbers of records of the later queries."""


async def measure(log: Log) -> Measurements:
    """Writes a stream of 100,000 events and queries its states; then runs a what-if of a search in memory."""
    trials = EVENTS // synthetic_log.EVENTS_PER_TRIAL
    total = await synthetic_log.write_searches(log, TOPICS, 1, trials) - 1
    took = LookTimes()
    for _ in range(ROUNDS):
        with TemporaryDirectory(prefix="trackside-bench-") as folder:
            await _look(log, total, Path(folder), took)
    whatif_s = {name: _whatif(name) for name in ASSESSORS}
    slowest = max(whatif_s, key=lambda name: whatif_s[name])
    goal = Goal(5, 1, at_most=True)
    raw_s = min(took.read_s)
    figures = [
        Figure(
            "R1", f"state in {total:,} events, first look", min(took.first_s), "s", raw_s, "its bytes read"
        ),
        Figure("R1", "the same, later looks (slowest)", max(took.show_s), "s", goal=goal),
        Figure("R1", "with snapshots, first look (slowest)", max(took.past_s), "s", goal=goal),
        Figure("-", "these snapshots, to write them", min(took.written_s), "s", raw_s, "its bytes read"),
        Figure(
            "R2",
            f"what-if, {TRIALS} x {REPORTS}, per assessor",
            whatif_s[slowest],
            "s",
            goal=Goal(3, 1, at_most=True),
        ),
    ]
    counted = [
        f"{total:,} events looked into, their snapshots have {took.snapshot_bytes:,} bytes",
        f"what-if of {', '.join(whatif_s)}, the slowest: {slowest}",
    ]
    return Measurements(figures, counted, {**asdict(took), "whatif_s": whatif_s})


@dataclass
class LookTimes:
    """Seconds of all rounds: bytes alone, first and later looks, those with snapshots, and to write these."""

    read_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    show_s: list[float] = field(default_factory=list)
    past_s: list[float] = field(default_factory=list)
    written_s: list[float] = field(default_factory=list)
    snapshot_bytes: int = 0


async def _look(log: Log, total: int, folder: Path, took: LookTimes) -> None:
    """Queries states without snapshots, and with them: each of these is the first look of its user."""
    cache, store = StateCache(folder / "states"), FolderPastStore(folder / "past")
    took.read_s.append(await _read_raw(log, total))
    took.first_s.append(await _query(log, total, total, cache))
    took.show_s += [await _query(log, records, total, cache) for records in LATER_OFFSETS]
    took.written_s.append(await _write_past(log, store))
    for records in (total, *LATER_OFFSETS):
        own = StateCache(folder / f"states-{records}")
        took.past_s.append(await _query(log, records, total, own, PastReader(store)))
    took.snapshot_bytes = sum(path.stat().st_size for path in store.folder.rglob("*.past"))


async def _write_past(log: Log, store: PastStore) -> float:
    """Returns the seconds to write all snapshots of the stream's partition."""
    began, events = monotonic_s(), TOPICS.events
    await write_past(log, events, partition_of(STREAM, events.partitions), store, 2**30)
    return monotonic_s() - began


async def _query(
    log: Log, records: int, total: int, cache: StateCache, snapshots: PastReader | None = None
) -> float:
    """Returns the seconds to find the stream and its state after `records` of its records."""
    began = monotonic_s()
    recorded = await find_stream(log, TOPICS, STREAM, snapshots)
    past = await state_at(recorded, PointInTime(offset=records - 1), cache)
    took_s = monotonic_s() - began
    check_count(f"records of the stream of {total:,}", past.records, records)
    return took_s


async def _read_raw(log: Log, total: int) -> float:
    """Returns the seconds to read the bytes of the stream's partition, and nothing else."""
    partition = partition_of(STREAM, TOPICS.events.partitions)
    began, read = monotonic_s(), 0
    async with aclosing(read_entries(log, (TOPICS.events.name, partition), 0, total)) as batches:
        async for batch in batches:
            read += len(batch)
    check_count("records read", read, total)
    return monotonic_s() - began


def _whatif(name: str) -> float:
    recording, grid = _recording(), ScenarioGrid([parse_assessor(name)])
    took = []
    for _ in range(ROUNDS):
        began = monotonic_s()
        compared = compare(recording, grid)
        took.append(monotonic_s() - began)
        check_count(f"trials under {name}", len(compared.results[-1].search.trials), TRIALS)
    return min(took)


def _recording() -> Recording:
    """Returns a search whose trials learn at different rates, 8 at once."""
    rng = random.Random(1)
    traces, free = [], [0] * 8
    for number in range(TRIALS):
        top, rate, slot = rng.random(), rng.uniform(0.05, 0.3), free.index(min(free))
        values = [top * (1 - (1 - rate) ** step) + rng.gauss(0, 0.01) for step in range(REPORTS)]
        traces.append(
            TrialTrace(
                number=number,
                parameters={},
                status=TrialStatus.SUCCEEDED,
                value=values[-1],
                devices=1,
                began_ms=free[slot],
                busy_ms=1_000 * (REPORTS + 1),
                suggestion_delay_ms=20,
                placement_delay_ms=30,
                release_delay_ms=10,
                points=tuple((1_000 * (step + 1), step, value) for step, value in enumerate(values)),
            )
        )
        free[slot] += 1_000 * (REPORTS + 1) + 60
    return Recording("bench", "maximize", 7, None, 8, tuple(traces), max(free), 8, 100, 0, 0)
