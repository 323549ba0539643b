"""Measures everything in one run and prints one table: `python -m bench`. Exit 1 if anything is missing."""

import argparse
import asyncio
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import (
    command_latency,
    fork_rate,
    fresh_stack,
    idle_worker,
    metric_points,
    noop_batch,
    noop_trials,
    pipelines,
    rebuild_rate,
    recovery,
    releases,
    replay_queries,
    report_table,
    restarts,
    resumption,
    rounds,
    security,
    service_memory,
    simulation_rate,
    sizes,
    slot_gaps,
    smallest,
    summaries,
)
from bench.console import measure as measure_console
from bench.measurements import Figure, Goal, Measurements, MissingError, percentile
from bench.peers import comparison
from bench.smallest import size
from trackside.embedded.stack import Stack
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.telemetry.logs import configure_logs

PARTS = (
    *("idle", "trials", "batch", "slots", "answers", "rebuild", "points", "recovery", "restarts"),
    *("replay", "simulation", "resumption", "pipelines", "sizes", "service-memory", "console", security.PART),
)
PEERS = "peers"
SIZES: dict[str, tuple[float, float, str]] = {
    "trials": (300, 30, "trials of the no-op search"),
    "tasks": (2_000, 60, "tasks of a batch, five times"),
    "paced": (80, 8, "trials of 0.25 s, four times"),
    "commands": (200, 12, "commands that are answered"),
    "requests": (5_000, 100, "requests to a service"),
    "rounds": (30, 3, "rounds of a job"),
    "events": (1_000_000, 3_000, "events of the rebuild, at least"),
    "ended": (10_000, 100, "ended trials of the recovery"),
    "kills": (5, 1, "kills of each process, quiet and loaded"),
    "points": (1_000_000, 5_000, "metric points"),
    "idle": (5.0, 1.0, "seconds that an idle worker is watched"),
    "jobs": (100_000, 100, "jobs of 100 points each that are read"),
    "board-trials": (100_000, 200, "trials of 100 points that boards show"),
    "changes": (100, 5, "changes that the console pushes"),
    "viewed": (30.0, 3.0, "seconds that 50 viewers watch the console"),
    "sized": (1_000, 20, "trials whose bytes are counted"),
    "peer-rounds": (3, 1, "rounds of Trackside and its peers"),
    "security-rounds": (3, 1, "rounds on three stacks"),
    "security-events": (100_000, 3_000, "events of their rebuilds, at least"),
}
"""The size of each measurement: the usual one, the smallest one, and what it counts."""


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures and details there too")
    for name, (usual, least, what) in SIZES.items():
        parser.add_argument(
            f"--{name}", type=type(usual), default=size(usual, least), help=f"{what} ({usual})"
        )
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="measure this checkout and another release in turn, and print the ratio of each row",
    )
    parser.add_argument("--turns", type=int, default=3, help="how often each of both is measured (3)")
    parser.add_argument("--peers", action="store_true", help="also run Ray Tune and Optuna, alternating")
    parser.add_argument("--seed", type=int, default=16, help="seed of what is drawn (16)")
    parser.add_argument(
        smallest.OPTION,
        action="store_true",
        help="sizes so small that the figures mean nothing, to see that each program runs",
    )
    parser.add_argument(
        "--only",
        choices=(*PARTS, PEERS, *summaries.PARTS, "summaries", *rounds.PARTS, "rounds"),
        action="append",
        help="measure only this; may be repeated; summaries, rounds: all parts; recovery: also restarts",
    )
    options = parser.parse_args(argv)
    options.parts = {*(options.only or (*PARTS, *summaries.PARTS, *rounds.PARTS))}
    if options.peers:
        options.parts |= {PEERS}
    groups = {"summaries": summaries.PARTS, "rounds": rounds.PARTS, "recovery": ("restarts",)}
    for group in groups.keys() & options.parts:
        options.parts |= {*groups[group]}
    return options


async def measure(stack: Stack, options: argparse.Namespace, console: Console) -> list[Measurements]:
    """Measures part after part on a running stack."""
    parts = options.parts
    measurements: list[Measurements] = []
    async with KafkaLog(stack.bootstrap_servers, client_id="bench") as log:
        console.print(f"{noop_trials.WARM_UP} trials that are not counted, to warm the broker up")
        await noop_trials.warm_up(log)
        append_ms = await command_latency.appends(log, options.commands)
        append_p50_ms = percentile(append_ms, 50)
        if "idle" in parts:
            console.print(f"an idle worker, {options.idle:g} s")
            measurements.append(await idle_worker.measure(stack, log, options.idle))
        if "trials" in parts:
            console.print(f"{options.trials} no-op trials, and as many bare forks")
            fork_rates = await asyncio.to_thread(fork_rate.measure, options.trials)
            measurements.append(await noop_trials.measure(stack, log, options.trials, fork_rates, append_ms))
        if "batch" in parts:
            console.print(f"batches of {options.tasks:,} no-op tasks, on 1 to 128 slots")
            measurements.append(await noop_batch.measure(stack, log, options.tasks))
        if "slots" in parts:
            console.print(f"slots: {options.trials} no-op trials, {options.paced} of 0.25 s")
            measurements.append(
                await slot_gaps.measure(stack, log, options.trials, options.paced, append_p50_ms)
            )
        if "answers" in parts:
            console.print(f"{options.commands} commands")
            measurements.append(await command_latency.measure(log, options.commands, searches=20))
        if "rebuild" in parts:
            console.print(f"a log of {options.events:,} events, read raw and rebuilt")
            endpoints = rebuild_rate.Endpoints(log, stack.bootstrap_servers, stack.postgres_dsn)
            measurements.append(await rebuild_rate.measure(endpoints, options.events))
        if "recovery" in parts:
            console.print(f"a dispatcher with {options.ended:,} ended trials, killed and started again")
            measurements.append(
                await recovery.measure(stack.bootstrap_servers, stack.postgres_dsn, options.ended)
            )
        if "service-memory" in parts:
            console.print(f"dispatcher and scheduler with {options.ended:,} ended trials, and restarted")
            measurements.append(
                await service_memory.measure(stack.bootstrap_servers, stack.postgres_dsn, options.ended)
            )
        if "resumption" in parts:
            console.print(f"a task with a checkpoint, whose worker is killed {resumption.RUNS} times")
            measurements.append(await resumption.measure(stack, log))
        if "pipelines" in parts:
            console.print(f"pipelines: {options.trials} no-op steps, chains of fibo, fan-outs, 10,000 steps")
            measurements.append(await pipelines.measure(stack, log, options.trials, append_p50_ms))
        measurements += await measure_log(stack, log, options, console)
        measurements += await summaries.measure(stack, log, options, console, append_p50_ms)
        measurements += await rounds.measure(log, options, console, append_p50_ms)
        measurements += await measure_console(stack, log, options, console)
        measurements += await comparison.measure_part(stack, log, options, console)
        return measurements + await security.measure_part(stack, log, options, console)


async def measure_log(
    stack: Stack, log: KafkaLog, options: argparse.Namespace, console: Console
) -> list[Measurements]:
    """Measures the parts about states, queries and sizes of the log, and metric points."""
    parts = options.parts
    measurements: list[Measurements] = []
    if "restarts" in parts:
        console.print(f"each process of the stack, killed {options.kills} times, quiet and under load")
        measurements.append(await restarts.measure(stack, log, options.kills))
    if "replay" in parts:
        console.print("a stream of 100,000 events, looked into; what-if of 300 trials x 50 reports")
        measurements.append(await replay_queries.measure(log))
    if "points" in parts:
        console.print(f"{options.points:,} metric points")
        measurements.append(await metric_points.measure(log, stack.postgres_dsn, options.points))
    if "sizes" in parts:
        console.print(f"{options.sized:,} trials of {sizes.STEPS} steps, and {sizes.IDLE_S:g} s without any")
        measurements.append(await sizes.measure(stack, log, options.sized))
    return measurements


def measure_alone(options: argparse.Namespace, console: Console) -> list[Measurements]:
    """Measures the parts that need no stack."""
    parts = options.parts
    measurements: list[Measurements] = []
    if "simulation" in parts:
        console.print("searches of 30 trials with faults, in virtual time")
        measurements.append(simulation_rate.measure())
    measurements += summaries.measure_alone(options, console)
    return measurements + rounds.measure_alone(options, console)


def machine() -> str:
    """Returns a description of the machine."""
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}, {platform.system()}"


def main() -> int:
    """Runs the benchmark."""
    options = arguments()
    console = Console(width=report_table.WIDTH, highlight=False)
    configure_logs(level="warning")
    console.print(f"machine: {machine()}")
    try:
        if options.against:
            argv = releases.without_options(sys.argv[1:], ("--against", "--turns", "--json"))
            releases.compare(options.against, argv, options.turns, console)
            return 0
        with fresh_stack.start_stack(lambda line: console.print(f"  {line}", style="dim")) as (
            stack,
            seconds,
        ):
            measurements = asyncio.run(measure(stack, options, console))
            measurements += measure_alone(options, console)
    except MissingError as error:
        console.print(f"missing: {error}", style="bold red")
        return 1
    ready = Figure("P15", "stack ready, no downloads", seconds, "s", goal=Goal(20, 6, at_most=True))
    figures = [ready, *(figure for measurement in measurements for figure in measurement.figures)]
    counted = [line for measurement in measurements for line in measurement.counted]
    details: dict[str, Any] = {}
    for measurement in measurements:
        details |= measurement.details
    console.print(f"machine: {machine()}\n")
    report_table.print_report(console, figures, counted, details)
    if options.json:
        document = {"machine": machine(), "figures": [figure.as_json() for figure in figures]}
        options.json.write_text(
            json.dumps(document | {"counted": counted, "details": details}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
