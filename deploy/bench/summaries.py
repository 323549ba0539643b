"""The parts of `--only summaries`: event files, points that are seen, memory of the indexer, reads."""

import argparse

from rich.console import Console

from bench import (
    event_files,
    indexer_memory,
    point_latency,
    summary_import,
    summary_reads,
    watched_files,
)
from bench.measurements import Measurements
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

PARTS = ("event-files", "seen", "watched", "summary-import", "memory", "summary-reads")


async def measure(
    stack: Stack, log: Log, options: argparse.Namespace, console: Console, append_ms: float
) -> list[Measurements]:
    """Measures the parts that need a stack."""
    measurements: list[Measurements] = []
    dsn = stack.postgres_dsn
    if "seen" in options.parts:
        console.print(f"{options.commands} points of a task, until a query has them")
        measurements.append(await point_latency.measure(log, dsn, options.commands, options.seed, append_ms))
    if "watched" in options.parts:
        console.print(f"{options.commands} records of a watched file, until a query has them")
        measurements.append(await watched_files.measure(stack, options.commands, options.seed, append_ms))
    if "summary-import" in options.parts:
        console.print(f"{options.points:,} points in event files, and {summary_import.RUNS:,} runs, imported")
        measurements.append(await summary_import.measure(stack, log, options.points, options.seed))
    if "memory" in options.parts:
        console.print(f"{options.points:,} metric points, ten times")
        measurements.append(await indexer_memory.measure(stack, log, options.points))
    if "summary-reads" in options.parts:
        jobs, points = options.jobs, 100 * options.jobs
        console.print(f"{jobs:,} jobs, {points:,} points, seed {options.seed}")
        measurements.append(await summary_reads.measure(dsn, jobs, points, options.seed))
    return measurements


def measure_alone(options: argparse.Namespace, console: Console) -> list[Measurements]:
    """Measures the parts that need no stack."""
    measurements: list[Measurements] = []
    if "event-files" in options.parts:
        console.print(f"{options.points:,} points in event files, seed {options.seed}")
        measurements.append(event_files.measure(options.points, options.seed))
    return measurements
