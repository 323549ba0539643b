"""P2, P4 and P5: what a slot does between two tasks, with a task behind it and without, cold and warm.

Tasks that do nothing keep both cores busy, so what is measured then is processor time: the time between two
of them is the slots divided by the tasks per second. Tasks of a quarter of a second leave the cores free:
what is measured then is how long a slot stands still.
"""

from dataclasses import dataclass

from bench.figures import Figure, Findings, Goal, percentile
from bench.place import SLOTS, TASK_TYPE, WARM_TYPE
from bench.processor import spent, used_ms
from bench.trials import checked, courses, gaps, run
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

RAY_STEADY_PER_S = 120
"""Ray Tune with `reuse_actors`, steady, on a machine like this one: quoted, not run here."""
PACED_TYPES = {"cold": "paced", "warm": "paced-warm"}
BESIDE = "append + read back"


@dataclass(frozen=True, slots=True)
class _Run:
    rate: float
    gap_ms: list[float]
    counted: list[str]


async def measured(stack: Stack, log: Log, trials: int, paced: int, append_ms: float) -> Findings:
    """Measures searches of so many trials that do nothing, and of so many `paced` ones."""
    found = Findings()
    ahead = await _run(log, trials, 2 * SLOTS, TASK_TYPE)
    before = used_ms(stack)
    warm = await _run(log, trials, SLOTS, WARM_TYPE)
    cpu_ms = spent(before, used_ms(stack), trials)
    warm_ahead = await _run(log, 2 * trials, 2 * SLOTS, WARM_TYPE)
    steady = Goal(RAY_STEADY_PER_S, 2.5 * RAY_STEADY_PER_S)
    found.figures = [
        *_gap("P5", "saturated, one behind, code", ahead, append_ms, Goal(30, 15, at_most=True)),
        Figure("-", "no-op trials, with one behind", ahead.rate, "/s"),
        Figure("P2", "no-op trials, warm", warm.rate, "/s", goal=steady),
        Figure("P2", "the same, with one behind", warm_ahead.rate, "/s", goal=steady),
        Figure("-", "processor time of a warm trial", sum(cpu_ms.values()), "ms"),
        *_gap("P4", "saturated, warm, code", warm, append_ms, None),
        *_gap("P5", "saturated, one behind, warm", warm_ahead, append_ms, Goal(30, 3, at_most=True)),
    ]
    found.counted = [f"{each.counted[0]}, {each.counted[2]}" for each in (ahead, warm, warm_ahead)]
    found.details = {"warm_cpu_ms": cpu_ms}
    for name, task_type in PACED_TYPES.items():
        alone = await _run(log, paced, SLOTS, task_type)
        behind = await _run(log, paced, 2 * SLOTS, task_type)
        aim = 15 if name == "cold" else 3
        found.figures += [
            *_gap("P4", f"0.25 s tasks, {name}", alone, append_ms, Goal(60, 20, at_most=True)),
            *_gap("P5", f"0.25 s, {name}, one behind", behind, append_ms, Goal(30, aim, at_most=True)),
        ]
        found.counted += [f"{each.counted[0]}, {each.counted[2]}" for each in (alone, behind)]
        found.details |= {f"paced_{name}_gap_ms": alone.gap_ms, f"paced_{name}_ahead_gap_ms": behind.gap_ms}
    return found


def _gap(number: str, what: str, found: _Run, append_ms: float, goal: Goal | None) -> list[Figure]:
    tail = Goal(250, 60, at_most=True) if number == "P4" and goal is not None else None
    return [
        Figure(number, f"{what}, p50", percentile(found.gap_ms, 50), "ms", append_ms, BESIDE, goal),
        Figure(number, "the same, p99", percentile(found.gap_ms, 99), "ms", append_ms, BESIDE, tail),
    ]


async def _run(log: Log, trials: int, concurrency: int, task_type: str) -> _Run:
    records = [each.record for each in await run(log, trials, 60 + trials, concurrency, task_type)]
    counted = checked(records, trials, warm=task_type.endswith("warm"))
    _, by_code = gaps(courses(records))
    seconds = (records[-1].append_time_ms - records[0].append_time_ms) / 1000
    return _Run(trials / seconds, by_code, counted)
