"""The dispatcher is killed, or paused beside a rival, at events of a run of twelve steps: it ends the same.

`make test` does so at a few events, `make long` at every one.
"""

import asyncio
import random
import secrets
import signal
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.chaos.settings import RUNS
from tests.integration.dispatcher.conftest import prepare_stack
from tests.integration.dispatcher.harness import Publisher, RunningDispatcher
from tests.integration.dispatcher.twelve_steps import drive
from tests.service_processes import ServiceProcess, service_process
from tests.stack import Servers
from tests.unit.aggregates.run.order import Reading
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.run.state import run_of
from trackside.aggregates.run.step_messages import StepResolved
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import TaskState
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.settings import StackSettings

FEW = 6
"""At how many events the dispatcher is killed, or paused, in a short run."""
LAST = 60
"""The number of an event that each of these runs has."""


class Two(NamedTuple):
    """Two dispatchers of one stack, and who publishes to them and reads what they write."""

    services: list[ServiceProcess]
    publisher: Publisher


@pytest.fixture
async def two(stack: Servers, database: str, tmp_path: Path) -> AsyncIterator[Two]:
    settings = StackSettings(
        kafka_bootstrap=stack.kafka_bootstrap,
        postgres_dsn=database,
        topic_prefix=f"t{secrets.token_hex(4)}.",
    )
    await prepare_stack(settings)
    variables = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "TRACKSIDE_POSTGRES_DSN": settings.postgres_dsn,
        "TRACKSIDE_TOPIC_PREFIX": settings.topic_prefix,
    }
    with ExitStack() as running:
        services = []
        for name in ("first", "second"):
            folder = tmp_path / name
            folder.mkdir()
            services.append(running.enter_context(service_process("dispatcher", variables, folder)))
        async with KafkaLog(settings.kafka_bootstrap, "publisher") as log:
            yield Two(services, Publisher(log, RunningDispatcher(settings, services[0])))


def outcome(publisher: Publisher, stream: str) -> dict[str, Any]:
    """Returns how a run ended, with which values, after a second reading of what counts in its log."""
    streams, reading = Streams(AGGREGATES), Reading()
    values: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    records = sorted(publisher.records, key=lambda record: (record.partition, record.offset))
    for record in records:
        if not record.envelope.stream.startswith(stream):
            continue
        folded, found = streams.fold(record)
        if found is not Outcome.APPLIED or folded.stream_id != stream:
            continue
        message = record.message
        reading.take(message)
        task = folded.tasks.get(getattr(message, "task_id", ""))
        if task is not None and task.state is TaskState.ENDED:
            reading.task_over(task.task_id)
        if isinstance(message, StepResolved):
            values[f"{message.step}.{message.generation}"] = message.values
        if isinstance(message, TaskSubmitted):
            parameters[message.task_id.removeprefix(stream)] = message.parameters
    assert reading.wrong == []
    run = run_of(streams.by_id[stream])
    assert run is not None
    states = {name: step.state.value for name, step in run.steps.items()}
    return {"values": values, "parameters": parameters, "states": states, "outputs": run.outputs}


async def undisturbed(publisher: Publisher) -> dict[str, Any]:
    """Returns how the run ends when nothing happens to the dispatchers."""
    stream = new_id("r")
    await drive(publisher, stream, _nothing)
    return outcome(publisher, stream)


async def _nothing(_: int) -> None:
    """Lets the run go on."""


async def killed_at(two: Two, numbers: set[int]) -> dict[str, Any]:
    """Returns how the run ends when the only dispatcher is killed after these events."""
    stream = new_id("r")

    async def kill(number: int) -> None:
        if number in numbers:
            await asyncio.to_thread(two.services[0].restart)

    await drive(two.publisher, stream, kill)
    return outcome(two.publisher, stream)


async def paused_at(two: Two, numbers: set[int]) -> dict[str, Any]:
    """Returns how the run ends when one of two dispatchers is paused from these events to the next each."""
    stream = new_id("r")
    paused: list[ServiceProcess] = []

    async def pause(number: int) -> None:
        while paused:
            paused.pop().process.send_signal(signal.SIGCONT)
        if number in numbers:
            paused.append(two.services[number % 2])
            paused[0].process.send_signal(signal.SIGSTOP)

    try:
        await drive(two.publisher, stream, pause)
    finally:
        for service in paused:
            service.process.send_signal(signal.SIGCONT)
    return outcome(two.publisher, stream)


@pytest.mark.timeout(300)
async def test_a_run_ends_the_same_when_its_dispatcher_is_killed_or_paused(two: Two, seed: int) -> None:
    numbers = random.Random(seed)
    expected = await undisturbed(two.publisher)
    assert await paused_at(two, set(numbers.sample(range(1, LAST), FEW))) == expected
    two.services[1].stop()
    assert await killed_at(two, set(numbers.sample(range(1, LAST), FEW))) == expected


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("number", range(RUNS))
async def test_a_run_ends_the_same_when_its_dispatcher_is_killed_and_paused_at_every_event(
    two: Two, number: int
) -> None:
    expected = await undisturbed(two.publisher)
    every = set(range(1, 200))
    assert await paused_at(two, every) == expected
    two.services[1].stop()
    assert await killed_at(two, every) == expected
