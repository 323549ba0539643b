"""Requests to an inference service, at rest and while its model is swapped again and again.

The ceiling is a server of the same library that answers each request with a constant, on the same machine.
"""

import asyncio
import hashlib
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy

from bench.command_latency import publish
from bench.fresh_stack import TOPICS
from bench.log_watch import LogWatch, watch_topic
from bench.measurements import Figure, Measurements, MissingError, check_count, percentile
from bench.smallest import size
from trackside.aggregates.batch.messages import BatchEnded, GroupSpec, StopTasks, SubmitTasks, TaskSpec
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructTask, TaskReady
from trackside.contracts.tasks.resources import Resources, ServicePolicy
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log
from trackside.incremental.serving.serving_load import TimedAnswer, load_service

STREAM, NAME = "bench-inference", "linear"
TASK = f"{STREAM}.1.{NAME}"
CLIENTS = 4
SWAPS = size(20, 2)
INPUTS = [1.0] * 64


async def measure(log: Log, requests: int) -> Measurements:
    """Sends `requests` of 64 numbers from 4 clients to a model of 64 x 10; then again during 20 swaps."""
    with TemporaryDirectory() as folder:
        versions = [_version(Path(folder), number) for number in range(SWAPS + 1)]
        first = versions[0]
        task = TaskSpec(
            name=NAME,
            task_type="linear",
            parameters={"service": {"job": STREAM, "name": NAME, "model": first}},
            inputs={"model": ArtifactReference.model_validate(first["artifact"])},
            resources=Resources(devices=0),
            service=ServicePolicy(),
        )
        async with watch_topic(log, TOPICS.events) as watch:
            await publish(log, SubmitTasks(groups=[GroupSpec(tasks=[task])]), STREAM, new_id())
            ready = (await watch.until(_is_ready)).record.message
            assert isinstance(ready, TaskReady)
            address = ready.detail["address"]
            async with _constant_answers() as ceiling:
                await _load(ceiling, requests // 10)
                constant = await _load(ceiling, requests)
            await _load(address, requests // 10)
            rest = await _load(address, requests)
            swapping, swaps_ms = await _load_during_swaps(log, watch, address, versions[1:])
            await publish(log, StopTasks(), STREAM, new_id())
            await watch.until(_is_over)
    return _summed_up(constant, rest, swapping, swaps_ms)


@asynccontextmanager
async def _constant_answers() -> AsyncIterator[str]:
    """Runs the server that is the ceiling, in a process of its own; yields its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.constant_answers", stdout=PIPE
    )
    try:
        assert process.stdout is not None
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


def _version(folder: Path, number: int) -> dict[str, Any]:
    """Writes a model of 64 x 10 numbers; returns it as an instruction names it."""
    path = folder / f"{number}.npz"
    numpy.savez(path, weights=numpy.full((10, 64), float(number)))
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    artifact = {"uri": path.as_uri(), "sha256": digest, "size_bytes": len(content)}
    return {"model": NAME, "version": number, "format": "npz", "artifact": artifact}


async def _load(address: str, requests: int) -> list[TimedAnswer]:
    left = iter(range(requests))
    return await load_service(address, CLIENTS, lambda _: INPUTS, lambda: next(left, None) is None)


async def _load_during_swaps(
    log: Log, watch: LogWatch, address: str, versions: Sequence[dict[str, Any]]
) -> tuple[list[TimedAnswer], list[float]]:
    """Returns the answers while each version was swapped in, and how long each of these took, ms."""
    is_over = False
    clients = asyncio.create_task(load_service(address, CLIENTS, lambda _: INPUTS, lambda: is_over))
    swaps_ms = []
    for number, version in enumerate(versions, 1):
        began_s, start = monotonic_s(), len(watch.seen)
        body = {"update": number, "model": version}
        await publish(log, InstructTask(task=TASK, body=body), STREAM, new_id())
        done = await watch.until(partial(_acknowledges, number), start=start)
        swaps_ms.append(1_000 * (done.at_s - began_s))
    is_over = True
    return await clients, swaps_ms


def _summed_up(
    constant: list[TimedAnswer],
    rest: list[TimedAnswer],
    swapping: list[TimedAnswer],
    swaps_ms: list[float],
) -> Measurements:
    for each in (*rest, *swapping):
        if each.status != 200 or each.body["outputs"][0] != each.body["version"] * len(INPUTS):
            raise MissingError(f"an answer of an inference service is wrong: {each.status} {each.body}")
    p99, rest_p99 = _ms(swapping, 99), _ms(rest, 99)
    ceiling, name = _rate(constant), "constant answers"
    figures = [
        Figure("I2", "requests per second, at rest", _rate(rest), "/s", ceiling, name),
        Figure("I2", "the same, while swapping", _rate(swapping), "/s", ceiling, name),
        Figure("I2", "answer of a service, p99 at rest", rest_p99, "ms", _ms(constant, 99), name),
        Figure("I2", "the same, while swapping", p99, "ms", rest_p99, "at rest"),
        Figure("I2", "instruction -> another model, p50", percentile(swaps_ms, 50), "ms"),
    ]
    versions = len({each.body["version"] for each in swapping})
    details = {"swaps_ms": swaps_ms, "versions_seen": versions}
    details |= {"p50_ms": _ms(rest, 50), "p50_swapping_ms": _ms(swapping, 50)}
    counted = [check_count("models swapped", len(swaps_ms), SWAPS)]
    return Measurements(figures, counted, {"inference": details})


def _rate(answers: Sequence[TimedAnswer]) -> float:
    """Returns how many were answered per second."""
    ends = [each.began_s + each.seconds for each in answers]
    return len(answers) / (max(ends) - min(each.began_s for each in answers))


def _ms(answers: Sequence[TimedAnswer], percent: float) -> float:
    return 1_000 * percentile([each.seconds for each in answers], percent)


def _is_ready(record: Record) -> bool:
    return isinstance(record.message, TaskReady) and record.envelope.stream == STREAM


def _acknowledges(number: int, record: Record) -> bool:
    message = record.message
    if not isinstance(message, InstructionAcknowledged) or record.envelope.stream != STREAM:
        return False
    if not message.ok:
        raise MissingError(f"a model was not swapped: {message.detail}")
    return message.number == number


def _is_over(record: Record) -> bool:
    return isinstance(record.message, BatchEnded) and record.envelope.stream == STREAM
