"""What looking into a long stream costs, and what-if of a search of 300 trials."""

import random
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import history
from bench.figures import Figure, Findings, Goal, equal
from trackside.contracts.searches import TrialStatus
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log
from trackside.replay.find_stream import find_stream
from trackside.replay.history.point_in_time import PointInTime
from trackside.replay.history.recorded_stream import read_entries, state_at
from trackside.replay.history.state_cache import StateCache
from trackside.whatif.compare import ScenarioGrid, compare, parse_assessor
from trackside.whatif.recording import Recording, TrialTrace

TOPICS = Topics("bench-replay.")
STREAM = "digits-0000"
EVENTS = 100_000
TRIALS, REPORTS = 300, 50
ASSESSORS = ("median", "percentile:percentile=25", "asha", "hyperband")
ROUNDS = 3
LATER = (99_000, 30_000, 49_000, 70_000, 90_000)
"""Behind how many records the later looks are."""


async def measured(log: Log) -> Findings:
    """Writes a stream of 100,000 events and looks at its end; then asks what-if of a search in memory."""
    trials = EVENTS // history.EVENTS_PER_TRIAL
    total = await history.write(log, TOPICS, 1, trials) - 1
    raw_s, first_s, shown_s = [], [], []
    for _ in range(ROUNDS):
        with TemporaryDirectory(prefix="trackside-bench-") as folder:
            kept = StateCache(Path(folder))
            raw_s.append(await _read(log, total))
            first_s.append(await _shown(log, total, total, kept))
            shown_s += [await _shown(log, records, total, kept) for records in LATER]
    asked = {name: _whatif(name) for name in ASSESSORS}
    slowest = max(asked, key=lambda name: asked[name])
    figures = [
        Figure(
            "R1",
            f"state in {total:,} events, first look",
            min(first_s),
            "s",
            min(raw_s),
            "its bytes read",
        ),
        Figure(
            "R1",
            "the same, later looks (slowest)",
            max(shown_s),
            "s",
            goal=Goal(5, 1, at_most=True),
        ),
        Figure(
            "R2",
            f"what-if, {TRIALS} x {REPORTS}, per assessor",
            asked[slowest],
            "s",
            goal=Goal(3, 1, at_most=True),
        ),
    ]
    counted = [
        f"{total:,} events looked into",
        f"what-if of {', '.join(asked)}, the slowest: {slowest}",
    ]
    return Findings(
        figures, counted, {"first_s": first_s, "show_s": shown_s, "read_s": raw_s, "whatif_s": asked}
    )


async def _shown(log: Log, records: int, total: int, kept: StateCache) -> float:
    """Gives the seconds to find the stream and to have its state behind so many of its records."""
    began = monotonic_s()
    past = await state_at(await find_stream(log, TOPICS, STREAM), PointInTime(offset=records - 1), kept)
    took_s = monotonic_s() - began
    equal(f"records of the stream of {total:,}", past.records, records)
    return took_s


async def _read(log: Log, total: int) -> float:
    """Gives the seconds to read the bytes of the stream's partition, and nothing else."""
    partition = partition_of(STREAM, TOPICS.events.partitions)
    began, read = monotonic_s(), 0
    async with aclosing(read_entries(log, (TOPICS.events.name, partition), 0, total)) as batches:
        async for batch in batches:
            read += len(batch)
    equal("records read", read, total)
    return monotonic_s() - began


def _whatif(name: str) -> float:
    recording, grid = _recording(), ScenarioGrid([parse_assessor(name)])
    took = []
    for _ in range(ROUNDS):
        began = monotonic_s()
        compared = compare(recording, grid)
        took.append(monotonic_s() - began)
        equal(f"trials under {name}", len(compared.results[-1].search.trials), TRIALS)
    return min(took)


def _recording() -> Recording:
    """Gives a search whose trials learn at rates of their own, 8 at once."""
    chance = random.Random(1)
    traces, free = [], [0] * 8
    for number in range(TRIALS):
        top, rate, slot = chance.random(), chance.uniform(0.05, 0.3), free.index(min(free))
        values = [top * (1 - (1 - rate) ** step) + chance.gauss(0, 0.01) for step in range(REPORTS)]
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
