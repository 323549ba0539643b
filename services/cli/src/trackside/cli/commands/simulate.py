"""The command `simulate`: a fleet that nobody has, or searches through everything that can go wrong."""

import os
import resource
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from multiprocessing import get_context
from typing import Annotated, Any

import typer

from trackside.cli.render import screen
from trackside.cli.render.progress import progress_of
from trackside.cli.render.screen import Column
from trackside.cli.runtime.failures import Misuse, Reported
from trackside.cli.runtime.options import AsJson
from trackside.eventlog.clock import monotonic_s
from trackside.simulation.config import SimulationConfig, SimulationResult, without_faults
from trackside.simulation.run import simulate_fleet, sweep
from trackside.simulation.statistics import FleetStatistics
from trackside.simulation.worker_state import Workload
from trackside.telemetry.logs import configure_logs

MOST_AT_ONCE = 10_000
LEASE_S = 30.0
SEEDS_A_PIECE = 25


def simulate(
    workers: Annotated[int, typer.Option("--workers", min=1, max=10_000, help="Workers of the fleet.")] = 50,
    devices: Annotated[int, typer.Option("--devices", min=1, max=64, help="Devices of each worker.")] = 8,
    trials: Annotated[
        int, typer.Option("--trials", min=1, max=1_000_000, help="Trials of the search.")
    ] = 4000,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=0, max=MOST_AT_ONCE, help="Trials at once; else all devices.")
    ] = 0,
    seconds: Annotated[
        str,
        typer.Option("--seconds", metavar="LOW:HIGH", help="How long a trial takes."),
    ] = "30:90",
    seeds: Annotated[
        int, typer.Option("--seeds", min=0, help="So many searches of 30 trials with faults, instead.")
    ] = 0,
    first: Annotated[int, typer.Option("--from", min=0, help="The first of the seeds.")] = 0,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="The one search with faults of this seed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate a fleet in virtual time: throughput, queue times, how fast the log grows. Needs no stack.

    Dispatcher, scheduler and reactor are the shipped ones, log, network and workers are models. The log is
    verified at the end. With --seeds, or --seed, services are killed and paused, clocks jump, messages are
    lost, repeated and late instead, and every log is verified; a seed is the same each time.

    Exit 1 if anything was wrong; what it was is printed, and the command that repeats it.

    \b
    Examples:
      trackside simulate
      trackside simulate --workers 1000 --devices 8 --trials 100000
      trackside simulate --seeds 2000
      trackside simulate --seed 1234
    """
    configure_logs(json_logs=False, level="critical")
    if seed is not None:
        _show_sweep(_swept(seed, 1), as_json)
    elif seeds:
        _show_sweep(_swept(first, seeds), as_json)
    else:
        places = workers * devices
        at_once = concurrency or min(places, MOST_AT_ONCE, trials)
        config = SimulationConfig(
            trials,
            at_once,
            workers,
            devices,
            lease_s=LEASE_S,
            workload=Workload(_range(seconds), points=True),
        )
        _show_fleet(without_faults(config), as_json)


def _range(text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        low = high = -1.0
    if not 0 < low <= high < 1e6:
        raise Misuse(f"--seconds {text!r}: expected LOW:HIGH, such as 30:90")
    return low, high


def _show_fleet(config: SimulationConfig, as_json: bool) -> None:
    began_s = monotonic_s()
    with progress_of("simulating trials") as trials, progress_of("verifying the log") as verified:
        result, figures = simulate_fleet(0, config, lambda ended: trials(ended, config.trials), verified)
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
        screen.say(f"simulated in {screen.duration(took_s)} with {memory_bytes / 2**20:,.0f} MiB")
    _report(result.violations)


def show(config: SimulationConfig, figures: FleetStatistics, result: SimulationResult) -> None:
    """Prints what a simulated log says about a fleet."""
    places = config.workers * config.slots
    screen.say(
        f"{config.trials:,} trials on {config.workers:,} x {config.slots} devices, {config.concurrency:,} at "
        f"once, in {screen.duration(figures.makespan_s)} of virtual time"
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
class Swept:
    """What became of many seeds; `failed` maps those that went wrong to what was wrong."""

    seeds: int = 0
    events: int = 0
    overtaken: int = 0
    attempts: int = 0
    virtual_s: float = 0.0
    took_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    failed: dict[int, list[str]] = field(default_factory=dict)

    def add(self, other: "Swept") -> None:
        """Takes in what became of other seeds."""
        self.seeds += other.seeds
        self.events += other.events
        self.overtaken += other.overtaken
        self.attempts += other.attempts
        self.virtual_s += other.virtual_s
        self.faults += other.faults
        self.failed |= other.failed

    def as_json(self) -> dict[str, Any]:
        """Gives it for programs."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    def note(self, result: SimulationResult) -> None:
        """Takes in a seed."""
        self.seeds += 1
        self.events += result.events
        self.overtaken += result.events - result.applied
        self.attempts += result.attempts
        self.virtual_s += result.virtual_s
        self.faults += result.faults
        if result.violations:
            self.failed[result.seed] = [*result.violations, f"again: {result.rerun_command}"]


def piece(first: int, count: int) -> Swept:
    """Simulates some seeds in this process."""
    configure_logs(json_logs=False, level="critical")
    found = Swept()
    for result in sweep(range(first, first + count)):
        found.note(result)
    return found


def _swept(first: int, count: int) -> Swept:
    """Simulates seeds in as many processes as there are processors."""
    began_s, found = monotonic_s(), Swept()
    with progress_of("simulating searches") as told:
        for part in _pieces(first, count):
            found.add(part)
            told(found.seeds, count)
    found.took_s = monotonic_s() - began_s
    return found


def _pieces(first: int, count: int) -> Iterator[Swept]:
    if count <= SEEDS_A_PIECE:
        yield piece(first, count)
        return
    firsts = range(first, first + count, SEEDS_A_PIECE)
    sizes = [min(SEEDS_A_PIECE, first + count - at) for at in firsts]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        yield from pool.map(piece, firsts, sizes)


def _show_sweep(found: Swept, as_json: bool) -> None:
    rate = 60 * found.seeds / max(found.took_s, 1e-9)
    if as_json:
        screen.emit(found.as_json() | {"seeds_per_minute": rate})
    else:
        faults = ", ".join(f"{count:,} {what}" for what, count in found.faults.most_common())
        screen.say(f"{found.seeds:,} searches, {screen.duration(found.virtual_s)} of virtual time: {faults}")
        vain = f"{found.overtaken:,} of them without effect"
        screen.say(f"{found.attempts:,} attempts, {found.events:,} events, {vain}")
        screen.say(f"{len(found.failed) or 'nothing'} wrong; {rate:,.0f} searches a minute")
    _report([f"seed {seed}: {line}" for seed, lines in found.failed.items() for line in lines])


def _report(violations: list[str]) -> None:
    for line in violations[:100]:
        screen.complain(line)
    if violations:
        raise Reported()
