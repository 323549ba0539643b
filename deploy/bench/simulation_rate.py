"""R3: seeds of a search with faults that are simulated per minute, on one core and on all."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from bench.measurements import Figure, Goal, Measurements, MissingError
from bench.smallest import size
from trackside.cli.commands.simulate import SweepResult, simulate_seeds
from trackside.eventlog.clock import monotonic_s

SEEDS = size(40, 4)
WARM_UP = 2


def measure() -> Measurements:
    """Simulates seeds of the default configuration, 30 trials with faults, and verifies each log."""
    cores = os.cpu_count() or 1
    simulate_seeds(1_000, WARM_UP)
    began = monotonic_s()
    alone = simulate_seeds(0, SEEDS)
    one = 60 * SEEDS / (monotonic_s() - began)
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
        list(pool.map(simulate_seeds, range(1_000, 1_000 + cores), [WARM_UP] * cores))
        began = monotonic_s()
        parts = list(pool.map(simulate_seeds, range(SEEDS, SEEDS * (cores + 1), SEEDS), [SEEDS] * cores))
        every = 60 * SEEDS * cores / (monotonic_s() - began)
    whole = SweepResult()
    for part in (alone, *parts):
        whole.add(part)
    if whole.failed:
        raise MissingError(f"seeds went wrong: {whole.failed}")
    figures = [
        Figure("R3", f"simulated searches a minute, {cores} cores", every, "/min", goal=Goal(500, 2_000)),
        Figure("R3", "the same, one core", one, "/min"),
    ]
    counted = [
        f"{whole.seeds} searches of 30 trials, {whole.faults.total():,} faults, {whole.events:,} events"
    ]
    return Measurements(figures, counted, {"faults": dict(whole.faults)})
