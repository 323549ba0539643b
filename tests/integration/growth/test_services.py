"""Services that run hold after many streams what they have held after a few."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.growth import COUNTED_AT, Held, assert_keeps_nothing, held_by_services
from tests.integration.installed import prepared, variables_of, worker_has_joined
from tests.integration.metrics.test_console import ACCEPTED, PING, Visitor, visiting
from tests.service_processes import service_process
from tests.stack import Servers
from trackside.aggregates.search.messages import SearchEnded, StartSearch
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.topics import partition_of
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.settings.settings import StackSettings

TASKS = """
from trackside.sdk import Task, trial
class Short(Task):
    def train(self, device):
        trial.report(trial.parameters()["x"])
        trial.log(loss=1.0)
"""
CATALOGUE = "tasks: {short: {entry: 'short:Short', path: ., runner: warm, max_tasks: 1000000}}\n"
SPACE = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
SEARCH = {"task_type": "short", "space": SPACE, "max_trials": 2, "tuner": {"name": "random"}}
AT_ONCE = 10
SERVICES = ("dispatcher", "scheduler", "worker", "summary_indexer")


class Searches:
    """Searches that begin and end on services that run."""

    def __init__(self, log: KafkaLog, settings: StackSettings, sockets: Path) -> None:
        self._log, self._topics, self._sockets = log, settings.topics, sockets

    async def run(self, count: int) -> None:
        """Runs so many searches to their end."""
        for _ in range(0, count, AT_ONCE):
            names = {new_id("s") for _ in range(AT_ONCE)}
            events, commands = self._topics.events, self._topics.commands
            ends = await self._log.ends(events.name)
            reader = self._log.reader({(events.name, at): end for at, end in ends.items()})
            for name in names:
                command = StartSearch.model_validate(SEARCH)
                record = RecordWriter("publisher", "test").single(name, command, message_id=new_id())
                await self._log.publish(commands.name, partition_of(name, commands.partitions), record)
            try:
                while names:
                    for entry in await reader.read(1.0):
                        found = decode(entry)
                        if found is not None and isinstance(found.message, SearchEnded):
                            names.discard(found.envelope.stream)
            finally:
                await reader.close()

    async def held(self) -> dict[str, Held]:
        """Asks the services what they hold."""
        return await held_by_services(self._sockets)


@asynccontextmanager
async def searching(stack: Servers, database: str, folder: Path) -> AsyncIterator[Searches]:
    """Runs the services, each of which says what it holds."""
    settings = prepared(stack, database)
    (folder / "short.py").write_text(TASKS)
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    sockets = folder / "held"
    sockets.mkdir()
    variables = {
        **variables_of(settings),
        COUNTED_AT: str(sockets),
        "TRACKSIDE_WORKER_ID": "w1",
        "TRACKSIDE_WORKER_CATALOGUE": str(folder / "catalogue.yaml"),
        "TRACKSIDE_WORKER_CPU_SLOTS": "2",
        "TRACKSIDE_WORKER_DATA_DIR": str(folder / "w1"),
        "TRACKSIDE_WORKER_PRELOAD": "",
    }
    with ExitStack() as running:
        for name in SERVICES:
            running.enter_context(service_process(name, variables, folder))
        async with KafkaLog(settings.kafka_bootstrap, "test") as log:
            await worker_has_joined(settings)
            yield Searches(log, settings, sockets)


@pytest.mark.long
@pytest.mark.timeout(1_800)
async def test_services_hold_after_3000_tasks_what_they_have_held_after_1000(
    stack: Servers, tables: str, tmp_path: Path
) -> None:
    async with searching(stack, tables, tmp_path) as searches:
        await assert_keeps_nothing(searches.run, searches.held, 510, 1_530)


@pytest.mark.long
@pytest.mark.timeout(1_800)
async def test_a_console_holds_after_3000_visits_what_it_has_held_after_1000(
    stack: Servers, tables: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, sockets = prepared(stack, tables), tmp_path / "held"
    sockets.mkdir()
    monkeypatch.setenv(COUNTED_AT, str(sockets))
    with service_process("dispatcher", variables_of(settings), tmp_path):
        async with visiting(settings, tmp_path) as visitor:
            while await visitor.publish(PING) != ACCEPTED:
                pass  # the dispatcher starts
            visits = partial(visit, visitor)
            await assert_keeps_nothing(visits, partial(held_by_services, sockets), 1_000, 3_000)


async def visit(visitor: Visitor, count: int) -> None:
    """Opens a page, follows it and sends a form, so many times."""

    async def once() -> None:
        assert await visitor.status_of_page() == 200
        async with visitor.open_page():
            assert await visitor.publish(PING) == ACCEPTED

    for _ in range(0, count, AT_ONCE):
        await asyncio.gather(*(once() for _ in range(AT_ONCE)))
