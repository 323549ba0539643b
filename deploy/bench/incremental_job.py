"""A job of incremental learning on an idle stack: a line that is appended until the trigger is evaluated, and
a decision to deploy until four services have confirmed the model.

Each write is two lines, of which the job takes one for training and one for evaluation. It begins a round,
whose stages cost next to nothing, and whose model is always deployed. The next write follows its end.
"""

import asyncio
import hashlib
import random
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy

from bench.command_latency import publish
from bench.fresh_stack import TOPICS
from bench.log_watch import LogWatch, SeenRecord, watch_topic
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count, percentile
from trackside.aggregates.dataset.messages import (
    DatasetDeleted,
    DatasetObserved,
    DatasetRegistered,
    DeleteDataset,
    RegisterDataset,
)
from trackside.aggregates.model.messages import (
    AddModelVersion,
    ModelRegistered,
    ModelVersionAdded,
    RegisterModel,
)
from trackside.aggregates.rounds.job.deploy_messages import (
    DeployDecided,
    ModelDeployed,
    ModelUpdateConfirmed,
    ModelUpdatePublished,
)
from trackside.aggregates.rounds.messages import (
    CreateIncrementalJob,
    DeleteIncrementalJob,
    IncrementalJobCreated,
    IncrementalJobDeleted,
    RoundEnded,
    SamplesAssigned,
    TriggerEvaluated,
)
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Command, Message, Record
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven, TaskReady
from trackside.contracts.tasks.tasks import AttemptEnded
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log

JOB, DATASET, MODEL, SERVICE = "bench-rounds", "bench-feed", "bench-matrix", "matrix"
SERVICES = 4
FIRST = 3
"""The first rounds, which are not counted: processes, caches and code are cold."""
FIRED = Goal(2_000, 500, at_most=True)
DEPLOYED = Goal(1_000, 250, at_most=True)
TO_TRIGGER = ("watcher", "observed", "divided", "evaluated")
TO_DEPLOYED = ("published", "instructed", "acknowledged", "confirmed", "deployed")


async def measure(log: Log, rounds: int, seed: int, append_ms: float) -> Measurements:
    """Lets a job with four services go through `rounds`, each begun by a write to its dataset."""
    pauses = random.Random(seed)
    with TemporaryDirectory(prefix="trackside-bench-") as name:
        folder = Path(name)
        path = folder / "samples.txt"
        path.touch()
        async with watch_topic(log, TOPICS.events) as watch:
            await _begin(log, watch, folder, path)
            found = []
            for number in range(1, FIRST + rounds + 1):
                await asyncio.sleep(pauses.uniform(0.3, 0.5))
                found.append(await _round(watch, path, number))
            await _end(log, watch)
    return _summed_up(found[FIRST:], rounds, append_ms)


async def _begin(log: Log, watch: LogWatch, folder: Path, path: Path) -> None:
    """Registers the dataset and the model, creates the job, and waits until its services are ready."""
    model = folder / "first.npz"
    numpy.savez(model, weights=numpy.zeros((10, 64)))
    content = model.read_bytes()
    artifact = {
        "uri": model.as_uri(),
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
    }
    version = AddModelVersion.model_validate({"artifact": artifact, "format": "npz"})
    await _ask(log, watch, RegisterDataset(url=str(path)), DATASET, DatasetRegistered)
    await _ask(log, watch, RegisterModel(), MODEL, ModelRegistered)
    await _ask(log, watch, version, MODEL, ModelVersionAdded)
    await _ask(log, watch, _job(folder), JOB, IncrementalJobCreated)
    for task in _service_tasks():
        await watch.until(partial(_is_of, TaskReady, task))


def _job(folder: Path) -> CreateIncrementalJob:
    """Returns a job that begins a round for each sample for training, and deploys each model."""
    service = {
        "name": SERVICE,
        "task_type": "linear",
        "replicas": SERVICES,
        "needs": {"resources": {"devices": 0}},
    }
    trigger = {"type": "condition", "metric": "num_of_samples", "operator": ">=", "threshold": 1}
    better = {"type": "condition", "metric": "accuracy_delta", "operator": ">", "threshold": 0.1}
    return CreateIncrementalJob.model_validate(
        {
            "dataset": {"name": DATASET, "train_prob": 0.5},
            "model": MODEL,
            "initial_model": f"{MODEL}@1",
            "train": {"task_type": "numbered", "trigger": trigger, "check_period_s": 0},
            "eval": {"task_type": "compare", "check_period_s": 0},
            "deploy": {"trigger": better, "services": [service]},
            "output": {"url": str(folder / "output")},
        }
    )


async def _ask(log: Log, watch: LogWatch, command: Command, stream: str, answer: type[Message]) -> None:
    """Publishes a command and waits for its event; raises MissingError if it is refused."""
    command_id = new_id()

    def answers(record: Record) -> bool:
        message = record.message
        if isinstance(message, CommandRefused) and message.command_id == command_id:
            raise MissingError(f"{type(command).__name__} was refused: {message}")
        return isinstance(message, answer) and record.envelope.stream == stream

    start = len(watch.seen)
    await publish(log, command, stream, command_id)
    await watch.until(answers, start=start)


async def _round(watch: LogWatch, path: Path, number: int) -> tuple[list[float], list[float]]:
    """Goes through a round; returns moments from the write to the trigger, and from the decision on, s."""
    began_s, start = monotonic_s(), len(watch.seen)
    with path.open("ab", buffering=0) as file:
        file.write(b"for training %d\nfor evaluation %d\n" % (number, number))

    async def first(fits: type[Message], stream: str = JOB) -> float:
        return (await watch.until(partial(_is, fits, stream), start=start)).at_s

    to_trigger = [
        began_s,
        await first(TaskReady, DATASET),
        await first(DatasetObserved, DATASET),
        await first(SamplesAssigned),
        (await watch.until(partial(_fires, number), start=start)).at_s,
    ]
    await watch.until(partial(_is, ModelDeployed, JOB), start=start)
    await watch.until(partial(_is, RoundEnded, JOB), start=start)
    seen = watch.seen[start:]
    to_deployed = [
        _moments(seen, DeployDecided)[0],
        _moments(seen, ModelUpdatePublished)[0],
        max(_moments(seen, InstructionGiven, SERVICES)),
        max(_moments(seen, InstructionAcknowledged, SERVICES)),
        max(_moments(seen, ModelUpdateConfirmed, SERVICES)),
        _moments(seen, ModelDeployed)[0],
    ]
    return to_trigger, to_deployed


def _moments(seen: list[SeenRecord], kind: type[Message], count: int = 1) -> list[float]:
    """Returns when the events of a kind of the job were read, s; raises MissingError if not `count`."""
    found = [each.at_s for each in seen if _is(kind, JOB, each.record)]
    check_count(kind.__name__, len(found), count)
    return found


async def _end(log: Log, watch: LogWatch) -> None:
    """Deletes the job and the dataset, and waits until their services have ended."""
    start = len(watch.seen)
    await _ask(log, watch, DeleteIncrementalJob(), JOB, IncrementalJobDeleted)
    await _ask(log, watch, DeleteDataset(), DATASET, DatasetDeleted)
    for task in [*_service_tasks(), f"{DATASET}.watch.1"]:
        await watch.until(partial(_is_of, AttemptEnded, task), start=start)


def _summed_up(found: list[tuple[list[float], list[float]]], rounds: int, append_ms: float) -> Measurements:
    to_trigger, to_deployed = ([each[at] for each in found] for at in range(2))
    watcher = [1_000 * (moments[1] - moments[0]) for moments in to_trigger]
    fired = [1_000 * (moments[-1] - moments[0]) for moments in to_trigger]
    deployed = [1_000 * (moments[-1] - moments[0]) for moments in to_deployed]
    append, both = "append + read back", "the two"
    least = percentile(watcher, 50) + append_ms
    figures = [
        Figure("S1", "line -> watcher's report, p50", percentile(watcher, 50), "ms", append_ms, append),
        Figure(
            "S1", "line -> trigger evaluated, p50", percentile(fired, 50), "ms", least, both, FIRED
        ),
        Figure("S1", "the same, p95", percentile(fired, 95), "ms", least, both),
        Figure(
            "S2", f"decision -> {SERVICES} services, p50", percentile(deployed, 50), "ms", append_ms, append,
            DEPLOYED,
        ),
        Figure("S2", "the same, p95", percentile(deployed, 95), "ms", append_ms, append),
    ]  # fmt: skip
    details = {
        "trigger_ms": fired,
        "trigger_hops_ms": _hops(TO_TRIGGER, to_trigger),
        "deployed_ms": deployed,
        "deployed_hops_ms": _hops(TO_DEPLOYED, to_deployed),
    }
    return Measurements(figures, [check_count("rounds deployed", len(found), rounds)], {"rounds": details})


def _hops(names: tuple[str, ...], found: list[list[float]]) -> dict[str, float]:
    """Returns the median time of each hop, ms."""
    return {
        name: percentile([1_000 * (moments[at + 1] - moments[at]) for moments in found], 50)
        for at, name in enumerate(names)
    }


def _service_tasks() -> list[str]:
    return [f"{JOB}.serve.{SERVICE}.{replica}.1" for replica in range(1, SERVICES + 1)]


def _is(kind: type[Message], stream: str, record: Record) -> bool:
    return isinstance(record.message, kind) and record.envelope.stream == stream


def _is_of(kind: type[TaskReady] | type[AttemptEnded], task: str, record: Record) -> bool:
    return isinstance(record.message, kind) and record.message.task_id == task


def _fires(number: int, record: Record) -> bool:
    message = record.message
    if not isinstance(message, TriggerEvaluated) or record.envelope.stream != JOB:
        return False
    return message.stage == "train" and message.fired and message.round == number
