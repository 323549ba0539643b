"""The parts of `--only rounds`: inference services, jobs of incremental learning, back-tests."""

import argparse

from rich.console import Console

from bench import incremental_job, inference, job_snapshots
from bench.measurements import Measurements
from trackside.eventlog.log import Log

PARTS = ("inference", "incremental-job", "job-snapshots")


async def measure(
    log: Log, options: argparse.Namespace, console: Console, append_ms: float
) -> list[Measurements]:
    """Measures the parts that need a stack."""
    measurements: list[Measurements] = []
    if "inference" in options.parts:
        console.print(f"{options.requests:,} requests to an inference service, and {inference.SWAPS} swaps")
        measurements.append(await inference.measure(log, options.requests))
    if "incremental-job" in options.parts:
        console.print(f"{options.rounds} rounds of a job with four services, each begun by a line")
        measurements.append(await incremental_job.measure(log, options.rounds, options.seed, append_ms))
    return measurements


def measure_alone(options: argparse.Namespace, console: Console) -> list[Measurements]:
    """Measures the parts that need no stack."""
    if "job-snapshots" not in options.parts:
        return []
    console.print(f"the snapshot of a job after {job_snapshots.FEW} and after {job_snapshots.MANY:,} rounds")
    return [job_snapshots.measure()]
