"""A running dispatcher for all modules of a folder, and a worker that has joined and offers `noop`."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.dispatcher.harness import Publisher, RunningDispatcher
from tests.integration.installed import variables_of
from tests.service_processes import service_process
from tests.stack import Servers, database_with_tables, fresh_database
from trackside.cli.setup import prepare
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.fleet.fleet import Device, WorkerJoined
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.settings.settings import StackSettings


def prepared_stack(stack: Servers, dsn: str) -> StackSettings:
    """Returns an installation without services whose fleet has a worker, in a database with tables."""
    settings = StackSettings(
        kafka_bootstrap=stack.kafka_bootstrap, postgres_dsn=dsn, topic_prefix=f"t{secrets.token_hex(4)}."
    )
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, prepare_stack(settings)).result()
    return settings


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


@pytest.fixture(scope="package")
def dispatcher(stack: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDispatcher]:
    """Runs a dispatcher."""
    with fresh_database(stack.postgres_dsn, database_with_tables()) as dsn:
        settings = prepared_stack(stack, dsn)
        folder = tmp_path_factory.mktemp("dispatcher")
        with service_process("dispatcher", variables_of(settings), folder) as running:
            yield RunningDispatcher(settings, running)


@pytest.fixture
async def publisher(dispatcher: RunningDispatcher) -> AsyncIterator[Publisher]:
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "publisher") as log:
        yield await Publisher.from_here(log, dispatcher)
