"""A running dispatcher for each module, and a worker that has joined and offers `noop`."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.dispatcher.harness import Publisher, RunningDispatcher
from tests.service_processes import service_process
from tests.stack import Servers
from trackside.cli.setup import prepare
from trackside.contracts.fleet import Device, WorkerJoined
from trackside.contracts.ids import new_id
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.record_writer import RecordWriter
from trackside.eventlog.settings import StackSettings


async def prepare_stack(settings: StackSettings) -> None:
    await prepare(settings)
    joined = WorkerJoined(
        worker_id="w1",
        incarnation=new_id(),
        host="here",
        devices=[Device(device_id="cpu-0", kind="cpu", name="cpu", memory_bytes=1)],
        task_types=["noop"],
        queues=["default"],
        after={},
    )
    async with KafkaLog(settings.kafka_bootstrap, "test") as log:
        await log.append(settings.topics.fleet.name, 0, [RecordWriter("worker", "w1").single("w1", joined)])


@pytest.fixture(scope="module")
def dispatcher(
    stack: Servers, module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningDispatcher]:
    """Runs a dispatcher."""
    settings = StackSettings(
        kafka_bootstrap=stack.kafka_bootstrap,
        postgres_dsn=module_database,
        topic_prefix=f"t{secrets.token_hex(4)}.",
    )
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, prepare_stack(settings)).result()
    variables = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
        "TRACKSIDE_POSTGRES_DSN": settings.postgres_dsn,
        "TRACKSIDE_TOPIC_PREFIX": settings.topic_prefix,
    }
    with service_process("dispatcher", variables, tmp_path_factory.mktemp("dispatcher")) as running:
        yield RunningDispatcher(settings, running)


@pytest.fixture
async def publisher(dispatcher: RunningDispatcher) -> AsyncIterator[Publisher]:
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "publisher") as log:
        yield Publisher(log, dispatcher)
