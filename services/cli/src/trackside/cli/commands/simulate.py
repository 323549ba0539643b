"""The command `simulate`: a large fleet in virtual time, or many searches under faults."""

import os
import resource
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from itertools import repeat
from multiprocessing import get_context
from typing import Any

from trackside.cli.render import screen
from trackside.cli.render.progress import progress_of
from trackside.cli.runtime.failures import BadUsage, FailureReported
from trackside.domain.display.text import Column, duration
from trackside.eventlog.clock import monotonic_s
from trackside.simulation import run
from trackside.simulation.config import SimulationConfig, SimulationResult, without_faults
from trackside.simulation.host.worker_state import Workload
from trackside.simulation.scenarios.running_scenarios import SCENARIOS
from trackside.simulation.scenarios.scenarios import DEFAULT_SCENARIO, StreamScenario
from trackside.simulation.statistics import FleetStatistics
from trackside.telemetry.logs import configure_logs

MAX_CONCURRENCY = 10_000
LEASE_S = 30.0
SEEDS_PER_PROCESS = 25


def simulate_fleet(kind: str, config: SimulationConfig, as_json: bool) -> None:
    """Simulates one search without faults and prints its figures.

    Raises FailureReported if it is wrong, BadUsage for another kind of stream.
    """
    if kind != DEFAULT_SCENARIO.name:
        raise BadUsage(f"--kind is for --seeds and --seed; a fleet runs a {DEFAULT_SCENARIO.name}")
    configure_logs(json_logs=False, level="critical")
    _show_fleet(without_faults(config), as_json)


def simulate_faults(
    kind: str, first: int, count: int, as_json: bool, shared_gpu: bool, forger: bool = False
) -> None:
    """Simulates a search, or another kind of stream, with faults for each seed.

    Raises FailureReported if one is wrong, BadUsage for a kind that there is no scenario of.
    """
    scenario = SCENARIOS.get(kind)
    if scenario is None:
        raise BadUsage(f"--kind {kind!r}: expected one of: {', '.join(SCENARIOS)}")
    configure_logs(json_logs=False, level="critical")
    config = SimulationConfig(scenario=scenario, shared_gpu=shared_gpu, forger=forger)
    _show_sweep(_simulate_seeds(config, first, count), scenario, as_json)


def fleet_config(trials: int, concurrency: int, workers: int, devices: int, seconds: str) -> SimulationConfig:
    """Returns the configuration of a fleet; `seconds` is the range of a trial's duration, LOW:HIGH."""
    workload = Workload(_range(seconds), points=True)
    return SimulationConfig(trials, concurrency, workers, devices, lease_s=LEASE_S, workload=workload)


def _range(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        low = high = -1.0
    if not 0 < low <= high < 1e6:
        raise BadUsage(f"--seconds {text!r}: expected LOW:HIGH, such as 30:90")
    return low, high


def _show_fleet(config: SimulationConfig, as_json: bool) -> None:
    began_s = monotonic_s()
    with progress_of("simulating trials") as trials, progress_of("verifying the log") as verified:
        result, figures = run.simulate_fleet(0, config, lambda ended: trials(ended, config.trials), verified)
    took_s = monotonic_s() - began_s
    memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if as_json:
        asked = {
            "trials": config.trials,
            "workers": config.workers,
            "devices": config.workers * config.slots,
            "concurrency": config.concurrency,
        }
        found = None if figures is None else asdict(figures)
        screen.emit(
            asked
            | {"figures": found, "wrong": result.violations, "took_s": took_s, "memory_bytes": memory_bytes}
        )
    else:
        if figures is not None:
            show(config, figures, result)
        screen.say(f"simulated in {duration(took_s)} with {memory_bytes / 2**20:,.0f} MiB")
    _report(result.violations)


def show(config: SimulationConfig, figures: FleetStatistics, result: SimulationResult) -> None:
    """Prints the figures of a simulated fleet."""
    places = config.workers * config.slots
    screen.say(
        f"{config.trials:,} trials on {config.workers:,} x {config.slots} devices, {config.concurrency:,} at "
        f"once, in {duration(figures.makespan_s)} of virtual time"
    )
    rows: list[list[object]] = [
        ["throughput", f"{figures.trials_per_s:,.1f} trials/s"],
        ["devices in use", f"{figures.busy:.1%} of {places:,}"],
        ["in the queue, half of the tasks", f"up to {figures.queue_p50_s:.3f} s"],
        ["in the queue, 99 of 100", f"up to {figures.queue_p99_s:.3f} s"],
        ["verified", f"{result.events:,} events, {len(result.violations) or 'nothing'} wrong"],
    ]
    screen.show_table([Column(""), Column("", keep=True)], rows)
    columns = [Column("topic"), Column("records", right=True), Column("MB", right=True)]
    columns += [Column("bytes a trial", right=True), Column("MB an hour", right=True)]
    per_hour = 3600 / figures.makespan_s / 1e6
    screen.show_table(
        columns,
        [
            [
                name,
                f"{grown.records:,}",
                f"{grown.octets / 1e6:,.1f}",
                f"{grown.octets / config.trials:,.0f}",
                f"{grown.octets * per_hour:,.0f}",
            ]
            for name, grown in figures.growth.items()
        ],
    )


@dataclass(slots=True)
class SweepResult:
    """The outcome of many seeds; `failed` maps those with violations to what was violated."""

    seeds: int = 0
    events: int = 0
    overtaken: int = 0
    attempts: int = 0
    virtual_s: float = 0.0
    took_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    failed: dict[int, list[str]] = field(default_factory=dict)

    def add(self, other: "SweepResult") -> None:
        """Adds the outcome of other seeds."""
        self.seeds += other.seeds
        self.events += other.events
        self.overtaken += other.overtaken
        self.attempts += other.attempts
        self.virtual_s += other.virtual_s
        self.faults += other.faults
        self.failed |= other.failed

    def as_json(self) -> dict[str, Any]:
        """Returns it for programs."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def note(self, result: SimulationResult) -> None:
        """Adds the outcome of one seed."""
        self.seeds += 1
        self.events += result.events
        self.overtaken += result.events - result.applied
        self.attempts += result.attempts
        self.virtual_s += result.virtual_s
        self.faults += result.faults
        if result.violations:
            self.failed[result.seed] = [*result.violations, f"again: {result.rerun_command}"]


def simulate_seeds(first: int, count: int, config: SimulationConfig | None = None) -> SweepResult:
    """Simulates some seeds in this process."""
    configure_logs(json_logs=False, level="critical")
    found = SweepResult()
    for result in run.sweep(range(first, first + count), config):
        found.note(result)
    return found


def _simulate_seeds(config: SimulationConfig, first: int, count: int) -> SweepResult:
    """Simulates seeds in as many processes as there are processors."""
    began_s, found = monotonic_s(), SweepResult()
    with progress_of(f"simulating {config.scenario.plural}") as show_progress:
        for part in _seed_ranges(config, first, count):
            found.add(part)
            show_progress(found.seeds, count)
    found.took_s = monotonic_s() - began_s
    return found


def _seed_ranges(config: SimulationConfig, first: int, count: int) -> Iterator[SweepResult]:
    if count <= SEEDS_PER_PROCESS:
        yield simulate_seeds(first, count, config)
        return
    firsts = range(first, first + count, SEEDS_PER_PROCESS)
    sizes = [min(SEEDS_PER_PROCESS, first + count - at) for at in firsts]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        yield from pool.map(simulate_seeds, firsts, sizes, repeat(config))


def _show_sweep(found: SweepResult, scenario: type[StreamScenario], as_json: bool) -> None:
    rate = 60 * found.seeds / max(found.took_s, 1e-9)
    if as_json:
        screen.emit(found.as_json() | {"seeds_per_minute": rate})
    else:
        faults = ", ".join(f"{count:,} {what}" for what, count in found.faults.most_common())
        screen.say(
            f"{found.seeds:,} {scenario.plural}, {duration(found.virtual_s)} of virtual time: {faults}"
        )
        vain = f"{found.overtaken:,} of them without effect"
        screen.say(f"{found.attempts:,} attempts, {found.events:,} events, {vain}")
        screen.say(f"{len(found.failed) or 'nothing'} wrong; {rate:,.0f} {scenario.plural} a minute")
    _report([f"seed {seed}: {line}" for seed, lines in found.failed.items() for line in lines])


def _report(violations: list[str]) -> None:
    for line in violations[:100]:
        screen.complain(line)
    if violations:
        raise FailureReported()
