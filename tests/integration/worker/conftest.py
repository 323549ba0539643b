"""What tests of the worker are given: the worker that a module shares, gates, and the folder of a store."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from tests.integration.artifacts.conftest import s3
from tests.integration.worker.harness import Gate, WorkerHarness
from tests.integration.worker.saved import named_store
from tests.nvml.standin import FakeNvml
from tests.stack import Servers
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog

__all__ = ["s3"]
NUMBERS = count(1)


@pytest_asyncio.fixture(loop_scope="module")
async def harness(worker: WorkerHarness) -> WorkerHarness:
    """The worker that the tests of a module share, for the tasks of one test."""
    return await worker.for_a_test(f"n{next(NUMBERS)}-")


@pytest.fixture
async def on_kafka(stack: Servers, topic_prefix: str) -> AsyncIterator[WorkerHarness]:
    """A log on Kafka for a worker that has a process of its own."""
    topics = Topics(topic_prefix)
    async with KafkaLog(stack.kafka_bootstrap, client_id="test") as log:
        await log.ensure(topics.shared)
        yield WorkerHarness(log, topics, "w1")


@pytest.fixture(scope="module")
def gpus(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    """The GPUs of the workers that the tests of a module share: each test leaves them as they were."""
    return FakeNvml(nvml_library, tmp_path_factory.mktemp("gpus"))


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


@pytest.fixture
def gates(tmp_path: Path) -> list[Gate]:
    return [Gate(tmp_path / f"gate-{number}") for number in range(3)]


@pytest.fixture
def missing_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store, which isn't there, and which the environment of this test's worker names."""
    return named_store(tmp_path, monkeypatch)


@pytest.fixture
def store(missing_store: Path) -> Path:
    """That folder, which is there."""
    missing_store.mkdir()
    return missing_store
