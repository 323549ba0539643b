"""A decision that never ends: the dispatcher ends itself for it twice, and does not make it a third time."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.dispatcher.conftest import prepared_stack
from tests.integration.dispatcher.harness import Publisher, RunningDispatcher, valid_search
from tests.integration.installed import variables_of
from tests.polling import poll_until_sync
from tests.service_processes import service_process
from tests.stack import Servers
from trackside.aggregates.search.messages import StartSearch
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused, Ping
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.settings.settings import StackSettings

PING, SEARCH = Ping.wire_type(), StartSearch.wire_type()
SPINS = "spins"
KILLS = 30
SPINNING_DISPATCHER = f"""
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import StartSearch
from trackside.dispatcher.app import main

commands = AGGREGATES.of_command(StartSearch).commands
usual = commands[StartSearch]

def decide(stream, *others):
    while stream.stream_id == {SPINS!r}:
        pass
    return usual(stream, *others)

commands[StartSearch] = decide
main()
"""


@contextlib.contextmanager
def spinning_dispatcher(settings: StackSettings, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a dispatcher that never ends a decision about one stream."""
    variables = variables_of(settings) | {
        "TRACKSIDE_STATE_FOLDER": str(folder),
        "TRACKSIDE_DECISION_LIMIT_S": "1",
    }
    with (folder / "dispatcher.log").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", SPINNING_DISPATCHER],
            env=os.environ | variables,
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def test_a_decision_that_ended_the_dispatcher_twice_is_refused_and_all_other_streams_go_on(
    stack: Servers, tables: str, tmp_path: Path
) -> None:
    settings = prepared_stack(stack, tables)
    async with KafkaLog(settings.kafka_bootstrap, "publisher") as log:
        with service_process("dispatcher", variables_of(settings), tmp_path) as usual:
            publisher = Publisher(log, RunningDispatcher(settings, usual))
            assert isinstance(await publisher.say({}, PING, "before"), CommandAccepted)
        source = await publisher.publish(json.dumps(valid_search()).encode(), SEARCH, SPINS)
        for _ in range(2):
            with spinning_dispatcher(settings, tmp_path) as process:
                assert await asyncio.to_thread(process.wait) == -signal.SIGPROF
        with spinning_dispatcher(settings, tmp_path):
            refused = await publisher.answer(source)
            assert isinstance(refused, CommandRefused)
            assert (refused.code, refused.path) == ("too_costly", "$")
            assert "ended itself 2 times" in refused.message
            assert isinstance(await publisher.say(valid_search(), SEARCH, new_id("other")), CommandAccepted)
        said = (tmp_path / "dispatcher.log").read_text()
        assert said.count("a decision took too long") == 2
        assert "in decide" in said


@pytest.mark.long
@pytest.mark.parametrize("service", ["dispatcher", "scheduler"])
async def test_kills_never_count(stack: Servers, tables: str, tmp_path: Path, service: str) -> None:
    settings = prepared_stack(stack, tables)
    variables = variables_of(settings) | {"TRACKSIDE_STATE_FOLDER": str(tmp_path)}
    async with KafkaLog(settings.kafka_bootstrap, "publisher") as log:
        with service_process(service, variables, tmp_path) as running:
            publisher = Publisher(log, RunningDispatcher(settings, running))
            sources = []
            for _ in range(KILLS):
                await asyncio.to_thread(poll_until_sync, lambda: running.is_up)
                sources.append(await publisher.publish(json.dumps(valid_search()).encode(), SEARCH))
                running.restart()
            with contextlib.ExitStack() as others:
                if service != "dispatcher":
                    others.enter_context(service_process("dispatcher", variables, tmp_path))
                for source in sources:
                    assert isinstance(await publisher.answer(source), CommandAccepted)
