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
    answers,
    forks,
    idle,
    place,
    points,
    rebuilds,
    recovery,
    replays,
    scheduling,
    simulations,
    slots,
    starts,
    suggestions,
    table,
    trials,
    verdicts,
)
from bench.figures import Figure, Findings, Goal, MissingError, percentile
from trackside.embedded.stack import Stack
from trackside.eventlog.kafka import KafkaLog
from trackside.telemetry.logs import configure_logs

PARTS = (
    *("idle", "trials", "slots", "starts", "answers", "rebuild"),
    *("points", "scheduling", "suggestions", "verdicts", "recovery", "replay", "simulation"),
)


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all figures and details there too")
    parser.add_argument("--trials", type=int, default=300, help="trials of the no-op search (300)")
    parser.add_argument("--paced", type=int, default=80, help="trials of 0.25 s, four times (80)")
    parser.add_argument("--starts", type=int, default=100, help="starts of tasks, cold and warm (100)")
    parser.add_argument("--commands", type=int, default=200, help="commands that are answered (200)")
    parser.add_argument(
        "--events", type=int, default=1_000_000, help="events of the rebuild, at least (1000000)"
    )
    parser.add_argument("--ended", type=int, default=10_000, help="ended trials of the recovery (10000)")
    parser.add_argument("--points", type=int, default=1_000_000, help="metric points (1000000)")
    parser.add_argument("--idle", type=float, default=5.0, help="seconds that an idle worker is watched (5)")
    parser.add_argument("--decisions", type=int, default=5_000, help="decisions of the scheduler (5000)")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this; may be repeated")
    return parser.parse_args(given)


async def measured(stack: Stack, asked: argparse.Namespace, console: Console) -> list[Findings]:
    """Measures part after part on a stack that runs."""
    parts = asked.only or PARTS
    found: list[Findings] = []
    async with KafkaLog(stack.bootstrap_servers, client_id="bench") as log:
        console.print(f"{trials.WARM_UP} trials that nobody counts, to warm the broker up")
        await trials.warm_up(log)
        append_ms = await answers.appends(log, asked.commands)
        beside_ms = percentile(append_ms, 50)
        if "idle" in parts:
            console.print(f"an idle worker, {asked.idle:g} s")
            found.append(await idle.measured(stack, log, asked.idle))
        if "trials" in parts:
            console.print(f"{asked.trials} no-op trials, and as many bare forks")
            ceiling = await asyncio.to_thread(forks.measured, asked.trials)
            found.append(await trials.measured(stack, log, asked.trials, ceiling, append_ms))
        if "slots" in parts:
            console.print(f"slots: {asked.trials} no-op trials, {asked.paced} of 0.25 s")
            found.append(await slots.measured(stack, log, asked.trials, asked.paced, beside_ms))
        if "starts" in parts:
            console.print(f"{asked.starts} starts of new processes and of a warm one")
            found.append(await starts.measured(stack, log, asked.starts, beside_ms))
        if "answers" in parts:
            console.print(f"{asked.commands} commands")
            found.append(await answers.measured(log, asked.commands, searches=20))
        if "rebuild" in parts:
            console.print(f"a log of {asked.events:,} events, read raw and rebuilt")
            where = rebuilds.Place(log, stack.bootstrap_servers, stack.postgres_dsn)
            found.append(await rebuilds.measured(where, asked.events))
        if "recovery" in parts:
            console.print(f"a dispatcher with {asked.ended:,} ended trials, killed and started again")
            found.append(await recovery.measured(stack.bootstrap_servers, stack.postgres_dsn, asked.ended))
        if "replay" in parts:
            console.print("a stream of 100,000 events, looked into; what-if of 300 trials x 50 reports")
            found.append(await replays.measured(log))
        if "simulation" in parts:
            console.print("searches of 30 trials with faults, in virtual time")
            found.append(await asyncio.to_thread(simulations.measured))
        if "points" in parts:
            console.print(f"{asked.points:,} metric points")
            found.append(await points.measured(log, stack.postgres_dsn, asked.points))
        if "scheduling" in parts:
            console.print(f"{asked.decisions:,} decisions of the scheduler, 1,000 devices, 10,000 tasks")
            found.append(scheduling.measured(devices=1_000, queued=10_000, decisions=asked.decisions))
        if "suggestions" in parts:
            console.print("suggestions after 100, 1,000 and 10,000 trials")
            found.append(await asyncio.to_thread(suggestions.measured))
        if "verdicts" in parts:
            console.print("reports of 100 live trials through an assessor")
            found.append(await verdicts.measured(log))
    return found


def machine() -> str:
    """Says what the figures were measured on."""
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}, {platform.system()}"


def main() -> int:
    """Runs the benchmark."""
    asked = arguments()
    console = Console(width=table.WIDTH, highlight=False)
    configure_logs(level="warning")
    console.print(f"machine: {machine()}")
    try:
        with place.started(lambda line: console.print(f"  {line}", style="dim")) as (stack, seconds):
            found = asyncio.run(measured(stack, asked, console))
    except MissingError as error:
        console.print(f"missing: {error}", style="bold red")
        return 1
    ready = Figure("P15", "stack ready, no downloads", seconds, "s", goal=Goal(20, 6, at_most=True))
    figures = [ready, *(figure for findings in found for figure in findings.figures)]
    counted = [line for findings in found for line in findings.counted]
    details: dict[str, Any] = {}
    for findings in found:
        details |= findings.details
    console.print(f"machine: {machine()}\n")
    table.shown(console, figures, counted, details)
    if asked.json:
        document = {"machine": machine(), "figures": [figure.as_json() for figure in figures]}
        asked.json.write_text(
            json.dumps(document | {"counted": counted, "details": details}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
