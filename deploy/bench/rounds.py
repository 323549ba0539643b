"""The parts of `--only rounds`: inference services, jobs of incremental learning, back-tests."""

import argparse

from rich.console import Console

from bench import inference
from bench.measurements import Measurements
from trackside.eventlog.log import Log

PARTS = ("inference",)


async def measure(log: Log, options: argparse.Namespace, console: Console) -> list[Measurements]:
    """Measures the parts that need a stack."""
    measurements: list[Measurements] = []
    if "inference" in options.parts:
        console.print(f"{options.requests:,} requests to an inference service, and {inference.SWAPS} swaps")
        measurements.append(await inference.measure(log, options.requests))
    return measurements


def measure_alone(options: argparse.Namespace, console: Console) -> list[Measurements]:
    """Measures the parts that need no stack."""
    return []
