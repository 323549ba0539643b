"""Trackside, Ray Tune and Optuna run trials that do nothing, two at a time, alternating, several rounds."""

import argparse
import asyncio
import statistics
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from bench import noop_trials
from bench.cpu_time import used_ms
from bench.fresh_stack import SLOTS, TASK_TYPE, WARM_TYPE
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count
from bench.new_database import create_database
from bench.peers import environment, peer_process
from bench.peers.environment import PeerMissingError
from bench.peers.peer_process import PeerResult
from trackside.aggregates.search.messages import TrialEnded
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

COLD, WARM = "Trackside, a process each", "Trackside, warm processes"
RAY_EACH, RAY_REUSED = "Ray Tune, an actor each", "Ray Tune, actors reused"
OPTUNA = "Optuna, 2 processes, Postgres"
COLD_GOAL = Goal(10, 40, ratio=True)
"""Trackside relative to Ray Tune with an actor each."""
WARM_GOAL = Goal(1, 2.5, ratio=True)
"""Trackside relative to Ray Tune with actors reused."""
FEWER_ACTORS = 20
"""Of so many trials one runs with an actor each, which takes about a second; 6 at least."""
Runner = Callable[[int], Awaitable[PeerResult]]


@dataclass(slots=True)
class PeerResults:
    """What each peer reached in each round, and why one did not run."""

    of: dict[str, list[PeerResult]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def rate(self, peer: str) -> float | None:
        """Returns the median of trials a second."""
        rates = [each.rate for each in self.of.get(peer, ())]
        return statistics.median(rates) if rates else None


async def measure_part(
    stack: Stack, log: Log, options: argparse.Namespace, console: Console
) -> list[Measurements]:
    """Measures them if they are wanted, and prints their table."""
    if "peers" not in options.parts:
        return []
    console.print(f"{options.peer_rounds} rounds of {options.trials} no-op trials: Trackside and its peers")
    measured, results = await measure(stack, log, options.trials, options.peer_rounds, console)
    print_table(console, results)
    return [measured]


async def measure(
    stack: Stack, log: Log, trials: int, rounds: int, console: Console
) -> tuple[Measurements, PeerResults]:
    """Measures all of them in each round; a peer that can't run is left out."""
    results = PeerResults()
    runners = await _runners(stack, log, trials, results, console)
    for round_ in range(rounds):
        for peer, run in runners.items():
            if peer in results.missing:
                continue
            try:
                found = await run(round_)
            except PeerMissingError as error:
                results.missing[peer] = str(error)
                continue
            results.of.setdefault(peer, []).append(found)
            console.print(f"  {peer}: {found.rate:.1f} trials/s, {found.cpu_ms:.1f} ms each", style="dim")
    for peer, reason in results.missing.items():
        console.print(f"  {peer} is left out: {reason}", style="yellow")
    details = {
        peer: [{"rate": each.rate, "cpu_ms": each.cpu_ms} for each in found]
        for peer, found in results.of.items()
    }
    counted = [f"{rounds} rounds of {trials:,} trials for each peer"]
    return Measurements(_figures(results), counted, {"peers": details}), results


async def _runners(
    stack: Stack, log: Log, trials: int, results: PeerResults, console: Console
) -> Mapping[str, Runner]:
    """Returns how each of them runs, in the order of a round."""

    async def trackside(task_type: str) -> PeerResult:
        return await _trackside(stack, log, trials, task_type)

    runners: dict[str, Runner] = {COLD: lambda _: trackside(TASK_TYPE), WARM: lambda _: trackside(WARM_TYPE)}
    try:
        program = await asyncio.to_thread(environment.python, lambda line: console.print(f"  {line}"))
    except PeerMissingError as error:
        results.missing |= dict.fromkeys((RAY_REUSED, RAY_EACH, OPTUNA), str(error))
        return runners
    try:
        environment.check_import(program, "ray.tune")
        ray = [*peer_process.isolation(), str(program), str(environment.PROGRAMS / "ray_trials.py")]
        few = max(6, trials // FEWER_ACTORS)
        runners[RAY_REUSED] = lambda _: peer_process.run([*ray, str(trials), "reused"], {}, _nothing)
        runners[RAY_EACH] = lambda _: peer_process.run([*ray, str(few), "each"], {}, _nothing)
    except PeerMissingError as error:
        results.missing |= dict.fromkeys((RAY_REUSED, RAY_EACH), str(error))
    try:
        environment.check_import(program, "optuna, psycopg2")
    except PeerMissingError as error:
        results.missing[OPTUNA] = str(error)
        return runners

    async def optuna(round_: int) -> PeerResult:
        dsn = await create_database(stack.postgres_dsn, f"bench_optuna_{round_}")
        storage = {"TRACKSIDE_BENCH_STORAGE": dsn.replace("postgresql://", "postgresql+psycopg2://", 1)}
        command = [str(program), str(environment.PROGRAMS / "optuna_trials.py"), str(trials)]
        return await peer_process.run(command, storage, lambda: used_ms(stack)["postgres"])

    return {**runners, OPTUNA: optuna}


def _nothing() -> float:
    return 0.0


async def _trackside(stack: Stack, log: Log, trials: int, task_type: str) -> PeerResult:
    """Runs a search; its rate is that of all trials but the first, as Ray's is."""
    before = used_ms(stack)
    seen = await noop_trials.run(log, trials, 60 + trials, SLOTS, task_type)
    after = used_ms(stack)
    cpu_ms = sum(after[name] - before.get(name, 0.0) for name in after)
    ends = [each.record.append_time_ms for each in seen if isinstance(each.record.message, TrialEnded)]
    check_count("trials", len(ends), trials)
    if ends[-1] == ends[0]:
        raise MissingError("all trials ended at the same ms")
    return PeerResult((trials - 1) / (ends[-1] - ends[0]) * 1000, cpu_ms / trials)


def _figures(results: PeerResults) -> list[Figure]:
    def of(number: str, what: str, ours: str, theirs: str, goal: Goal | None) -> list[Figure]:
        rate, reference = results.rate(ours), results.rate(theirs)
        if rate is None or reference is None:
            return []
        return [Figure(number, what, rate, "/s", reference, theirs, goal)]

    return [
        *of("P1", "trials next to peers, process each", COLD, RAY_EACH, COLD_GOAL),
        *of("P1", "the same", COLD, OPTUNA, None),
        *of("P2", "trials next to peers, warm", WARM, RAY_REUSED, WARM_GOAL),
        *of("P2", "the same", WARM, OPTUNA, None),
    ]


def print_table(console: Console, results: PeerResults) -> None:
    """Prints one row for each of them; the last column is its rate relative to that of Trackside, warm."""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for title in ("trials that do nothing, 2 at a time", "trials/s", "range", "cpu ms each", "of Trackside"):
        table.add_column(title, justify="left" if not table.columns else "right", no_wrap=True)
    warm = results.rate(WARM)
    for peer, found in results.of.items():
        rates = sorted(each.rate for each in found)
        median = statistics.median(rates)
        cpu_ms = statistics.median(each.cpu_ms for each in found)
        ratio = "-" if not warm else f"{median / warm:.2f}x"
        table.add_row(peer, f"{median:.1f}", f"{rates[0]:.1f} to {rates[-1]:.1f}", f"{cpu_ms:.1f}", ratio)
    console.print(table)
    for peer, reason in results.missing.items():
        console.print(f"{peer}: left out, {reason}", soft_wrap=True)
