"""D4 on real services: users' tuners that hang delay no other search, and their backlog is shown."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.integration.dispatcher.conftest import prepared_stack
from tests.integration.dispatcher.harness import Publisher, RunningDispatcher, valid_search
from tests.integration.dispatcher.users_package import write_package
from tests.integration.installed import variables_of
from tests.polling import poll_until_sync
from tests.service_processes import service_process
from tests.stack import Servers
from trackside.aggregates.search.advice.advice_messages import SuggestionFailed
from trackside.aggregates.search.messages import SearchFailed, StartSearch, TrialSuggested
from trackside.contracts.envelope.ids import new_id
from trackside.eventlog.kafka.kafka_log import KafkaLog

PACKAGE = '''
import pathlib
import subprocess
import time


class Held:
    """Suggests nothing as long as a file is there; what it has started holds on to its pipes."""

    def __init__(self, space, options, direction):
        self.gate = pathlib.Path(options["gate"])

    def suggest(self, history, number, seed):
        if self.gate.exists():
            subprocess.Popen(["sleep", "600"])
        while self.gate.exists():
            time.sleep(0.01)
        return {"x": seed / 2**32}
'''
WAITING = 21
GAUGE = 'trackside_dispatcher_lane_backlog_requests{lane="own-tuner"}'


@pytest.fixture
def slow_dispatcher(stack: Servers, tables: str, tmp_path: Path) -> Iterator[RunningDispatcher]:
    """Returns a dispatcher with a tuner of a user's own, which may take as long as it likes."""
    write_package(tmp_path, "holding", PACKAGE, "[trackside.tuners]\nheld = holding:Held\n")
    settings = prepared_stack(stack, tables)
    variables = {
        **variables_of(settings),
        "TRACKSIDE_DISPATCHER_TUNER_TIME_LIMIT_S": "300",
        "PYTHONPATH": str(tmp_path),
    }
    with service_process("dispatcher", variables, tmp_path) as running:
        yield RunningDispatcher(settings, running)


@pytest.mark.long
async def test_d04_users_tuners_that_hang_delay_no_other_search_and_are_told_once(
    slow_dispatcher: RunningDispatcher, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    async with KafkaLog(slow_dispatcher.settings.kafka_bootstrap, "publisher") as log:
        publisher = Publisher(log, slow_dispatcher)
        tuner = {"name": "held", "options": {"gate": str(gate)}}
        held = [new_id("held") for _ in range(WAITING)]
        for stream in held:
            await publisher.accepted(valid_search() | {"tuner": tuner}, StartSearch, stream)
        await asyncio.to_thread(poll_until_sync, lambda: bool(logged(tmp_path, "advisor backlogged")))
        [risen] = logged(tmp_path, "advisor backlogged")
        assert (risen["lane"], risen["level"]) == ("own-tuner", "warning")
        await asyncio.to_thread(poll_until_sync, lambda: waiting_requests(tmp_path) == WAITING)
        other = new_id("other")
        await publisher.accepted(valid_search(), StartSearch, other)
        await publisher.event(other, TrialSuggested)
        gate.unlink()
        for stream in held:
            await publisher.event(stream, TrialSuggested)
        [cleared] = logged(tmp_path, "advisor backlog cleared")
        assert cleared["lane"] == "own-tuner"
        assert len(logged(tmp_path, "advisor backlogged")) == 1
        await asyncio.to_thread(poll_until_sync, lambda: waiting_requests(tmp_path) == 0)
        wrong = [record.message for record in publisher.records]
        assert not [each for each in wrong if isinstance(each, SuggestionFailed | SearchFailed)]


def logged(folder: Path, event: str) -> list[dict[str, Any]]:
    """Returns the messages of the dispatcher's log with this text."""
    lines = (folder / "dispatcher.log").read_text().splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return [line for line in found if line.get("event") == event]


def waiting_requests(folder: Path) -> float:
    """Returns what the dispatcher's gauge shows of the process of users' tuners."""
    [started] = logged(folder, "service started")
    with urlopen(f"http://127.0.0.1:{started['health_port']}/metrics", timeout=60) as reply:
        lines = reply.read().decode().splitlines()
    [value] = [line.removeprefix(GAUGE) for line in lines if line.startswith(GAUGE)]
    return float(value)
