"""Fixtures: topics with a log to publish with, and a directory that is read into the log."""

from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex

import pytest
import pytest_asyncio

from tests.integration.summary_indexer.harness import Sandbox, open_sandbox
from tests.integration.summary_indexer.watched import Runs, dispatching
from tests.stack import Servers
from trackside.eventlog.kafka.kafka_log import KafkaLog


@pytest.fixture
async def sandbox_and_log(
    stack: Servers, topic_prefix: str, tables: str, tmp_path: Path
) -> AsyncIterator[tuple[Sandbox, KafkaLog]]:
    async with open_sandbox(stack.kafka_bootstrap, tables, topic_prefix, tmp_path) as found:
        yield found


@pytest.fixture
def sandbox(sandbox_and_log: tuple[Sandbox, KafkaLog]) -> Sandbox:
    return sandbox_and_log[0]


@pytest.fixture
def log(sandbox_and_log: tuple[Sandbox, KafkaLog]) -> KafkaLog:
    return sandbox_and_log[1]


@pytest.fixture
def commands_find_it(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets commands of this process, and of those that it starts, find the sandbox."""
    monkeypatch.setenv("TRACKSIDE_KAFKA_BOOTSTRAP", sandbox.bootstrap)
    monkeypatch.setenv("TRACKSIDE_TOPIC_PREFIX", sandbox.topics.prefix)
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", sandbox.dsn)
    monkeypatch.setenv("TRACKSIDE_STORE", str(sandbox.folder / "store"))


@pytest.fixture
async def own_runs(log: KafkaLog, sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[Runs]:
    """Yields a directory that may be read into the log of the sandbox, where a dispatcher decides."""
    async with dispatching(log, sandbox):
        yield Runs(log, sandbox, tmp_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_log(
    stack: Servers, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Sandbox, KafkaLog]]:
    """Yields a sandbox for tests of a module that need no database and no process; a dispatcher decides."""
    prefix, folder = f"t{token_hex(4)}.", tmp_path_factory.mktemp("shared")
    opened = open_sandbox(stack.kafka_bootstrap, "", prefix, folder)
    async with opened as (sandbox, log), dispatching(log, sandbox):
        yield sandbox, log


@pytest_asyncio.fixture(loop_scope="module")
async def runs(shared_log: tuple[Sandbox, KafkaLog], tmp_path: Path) -> Runs:
    """Returns a directory that may be read into that log, of which it has what came after the test began."""
    sandbox, log = shared_log
    made = Runs(log, sandbox, tmp_path)
    await made.begin()
    return made
