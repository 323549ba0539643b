"""P2, P4 and P5: the gap between two tasks in a slot, with and without a queued task, cold and warm.

Tasks that do nothing keep both cores busy, so their gap is processor time: the number of slots divided by the
tasks per second. Tasks of a quarter of a second leave the cores free: their gap is how long a slot is idle.
"""

from dataclasses import dataclass

from bench import bare_log
from bench.cpu_time import spent, used_ms
from bench.fresh_stack import SLOTS, TASK_TYPE, WARM_TYPE
from bench.log_watch import SeenRecord
from bench.measurements import Figure, Goal, Measurements, percentile
from bench.noop_trials import count_records, gaps, run, timelines
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

WARM_GOAL = Goal(0.25, 0.6, ratio=True)
"""Warm trials relative to their records alone; relative to Ray Tune: `bench.peers.comparison`."""
PACED_TYPES = {"cold": "paced", "warm": "paced-warm"}
REFERENCE = "append + read back"


@dataclass(frozen=True, slots=True)
class _RunResult:
    rate: float
    gap_ms: list[float]
    counted: list[str]
    seen: list[SeenRecord]


async def measure(stack: Stack, log: Log, trials: int, paced: int, append_ms: float) -> Measurements:
    """Measures searches of `trials` no-op trials, and of `paced` trials of 0.25 s."""
    measurements = Measurements()
    queued = await _run(log, trials, 2 * SLOTS, TASK_TYPE)
    before = used_ms(stack)
    warm = await _run(log, trials, SLOTS, WARM_TYPE)
    cpu_ms = spent(before, used_ms(stack), trials)
    warm_queued = await _run(log, 2 * trials, 2 * SLOTS, WARM_TYPE)
    log_alone = await bare_log.measure(log, warm.seen, trials)
    measurements.figures = [
        *_gap("P5", "saturated, one behind, code", queued, append_ms, Goal(30, 15, at_most=True)),
        Figure("-", "no-op trials, with one behind", queued.rate, "/s"),
        Figure("P2", "no-op trials, warm", warm.rate, "/s", log_alone, bare_log.NAME, WARM_GOAL),
        Figure(
            "P2", "the same, with one behind", warm_queued.rate, "/s", log_alone, bare_log.NAME, WARM_GOAL
        ),
        Figure("-", "processor time of a warm trial", sum(cpu_ms.values()), "ms"),
        *_gap("P4", "saturated, warm, code", warm, append_ms, None),
        *_gap("P5", "saturated, one behind, warm", warm_queued, append_ms, Goal(30, 3, at_most=True)),
    ]
    measurements.counted = [f"{each.counted[0]}, {each.counted[2]}" for each in (queued, warm, warm_queued)]
    measurements.details = {"warm_cpu_ms": cpu_ms}
    for name, task_type in PACED_TYPES.items():
        alone = await _run(log, paced, SLOTS, task_type)
        behind = await _run(log, paced, 2 * SLOTS, task_type)
        aim = 15 if name == "cold" else 3
        measurements.figures += [
            *_gap("P4", f"0.25 s tasks, {name}", alone, append_ms, Goal(60, 20, at_most=True)),
            *_gap("P5", f"0.25 s, {name}, one behind", behind, append_ms, Goal(30, aim, at_most=True)),
        ]
        measurements.counted += [f"{each.counted[0]}, {each.counted[2]}" for each in (alone, behind)]
        measurements.details |= {
            f"paced_{name}_gap_ms": alone.gap_ms,
            f"paced_{name}_ahead_gap_ms": behind.gap_ms,
        }
    return measurements


def _gap(number: str, what: str, run_result: _RunResult, append_ms: float, goal: Goal | None) -> list[Figure]:
    tail = Goal(250, 60, at_most=True) if number == "P4" and goal is not None else None
    return [
        Figure(number, f"{what}, p50", percentile(run_result.gap_ms, 50), "ms", append_ms, REFERENCE, goal),
        Figure(number, "the same, p99", percentile(run_result.gap_ms, 99), "ms", append_ms, REFERENCE, tail),
    ]


async def _run(log: Log, trials: int, concurrency: int, task_type: str) -> _RunResult:
    seen = await run(log, trials, 60 + trials, concurrency, task_type)
    records = [each.record for each in seen]
    counted = count_records(records, trials, warm=task_type.endswith("warm"))
    _, by_code = gaps(timelines(records))
    seconds = (records[-1].append_time_ms - records[0].append_time_ms) / 1000
    return _RunResult(trials / seconds, by_code, counted, seen)
