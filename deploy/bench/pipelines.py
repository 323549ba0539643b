"""Pipelines: from step to step, chains and wide runs beside no-op trials, fan-outs, and a long run folded."""

from bench import noop_trials, pipelines_fan_out, pipelines_fold
from bench.fresh_stack import SLOTS, TASK_TYPE
from bench.measurements import Figure, Goal, Measurements, percentile
from bench.pipelines_runs import RunRecords, chain, run, wide
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

LONG, SHORT = ("10 x fibo(33)", 10, 33), ("40 x fibo(10)", 40, 10)
"""The chains that orchestrators are compared by in public: steps, and the number of each."""
TEMPORAL_SHARE = 0.966
"""Of the long chain in Temporal, as published: quoted, not run here."""
RUNNERS = {"cold": "fibonacci", "warm": "fibonacci-warm"}


async def measure(stack: Stack, log: Log, steps: int, append_ms: float) -> Measurements:
    """Measures runs of `steps` no-op steps, the chains of Fibonacci numbers, fan-outs, and one in memory."""
    limit_s = 60.0 + steps
    one_by_one = await _trial_rate(log, steps, 1)
    in_a_chain = await run(log, {"steps": chain(steps, TASK_TYPE)}, limit_s)
    side_by_side = await _trial_rate(log, steps, SLOTS)
    all_at_once = await run(log, {"steps": wide(steps, TASK_TYPE), "concurrency": SLOTS}, limit_s)
    hops = in_a_chain.hops_ms
    tail = Goal(50, 15, at_most=True)
    reference = "append + read back"
    figures = [
        Figure("D1", "step's end -> next submitted, p50", percentile(hops, 50), "ms", append_ms, reference),
        Figure("D1", "the same, p99", percentile(hops, 99), "ms", append_ms, reference, tail),
        _rate("no-op steps, one after another", in_a_chain, steps, one_by_one),
        _rate("no-op steps, side by side", all_at_once, steps, side_by_side),
        *await _fibonacci(log),
        *await pipelines_fan_out.measure(stack, log),
    ]
    folded = await pipelines_fold.measure()
    counted = [f"{2 * steps:,} no-op steps", f"{len(hops):,} steps that followed another", *folded.counted]
    return Measurements([*figures, *folded.figures], counted, {"step_hops_ms": hops, **folded.details})


async def _trial_rate(log: Log, trials: int, concurrency: int) -> float:
    seen = await noop_trials.run(log, trials, 60.0 + trials, concurrency)
    return trials * 1000 / (seen[-1].record.append_time_ms - seen[0].record.append_time_ms)


def _rate(what: str, found: RunRecords, steps: int, trials: float) -> Figure:
    goal = Goal(0.85, 1.0, ratio=True)
    return Figure("D4", what, steps / found.seconds, "/s", trials, "no-op trials", goal)


async def _fibonacci(log: Log) -> list[Figure]:
    """Returns the share of each chain's time in which its steps execute, in %."""
    figures = []
    for what, steps, number in (LONG, SHORT):
        for name, task_type in RUNNERS.items():
            found = await run(log, {"steps": chain(steps, task_type, {"n": number})}, 300.0)
            share = 100 * found.train_s / found.seconds
            goal = Goal(95, 98) if what == LONG[0] else None
            quoted = 100 * TEMPORAL_SHARE if what == LONG[0] else None
            figures.append(Figure("D5", f"{what}, {name}, executes", share, "%", quoted, "Temporal", goal))
    return figures
