"""D19: a running task asks for its next parameters, of real services on real Kafka and Postgres."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.causes import check_causes
from tests.integration.installed import processes
from tests.service_processes import ServiceProcess
from tests.stack import Servers
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import StartSearch
from trackside.aggregates.search.state import search_of
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import CommandRefused
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    MetricReported,
    ParametersRequested,
    ParametersTaken,
)
from trackside.dispatcher.advisor.advisor import make_tuner
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.settings.settings import StackSettings
from trackside.verify.log import verify_topics

SPACE: dict[str, Any] = {"x": {"type": "uniform", "low": 0.0, "high": 1.0}}
TASKS = '''
import os
from pathlib import Path

from trackside.sdk import Task, trial


class Several(Task):
    """Tries one set after another, and waits at the gate before it asks for the second."""

    def train(self, device):
        found = trial.parameters()
        while found is not None:
            trial.report(found["x"] / 2)
            trial.report(found["x"])
            trial.result(found["x"])
            gate = Path(__file__).with_name(os.environ["TRACKSIDE_TASK_ID"])
            if gate.exists():
                gate.read_text()
            found = trial.next_parameters()
        return {"done": True}
'''
PROGRAM = """
import json, os

say, hear = int(os.environ["TRACKSIDE_METRICS_FD"]), os.fdopen(int(os.environ["TRACKSIDE_ANSWERS_FD"]))
found = json.load(open(os.environ["TRACKSIDE_PARAMETERS_FILE"]))
while found is not None:
    for word in ({"report": found["x"] / 2}, {"final": found["x"]}, {"next": True}):
        os.write(say, (json.dumps(word) + "\\n").encode())
    found = json.loads(hear.readline())["parameters"]
"""
CATALOGUE = """
tasks:
  several: {entry: "several:Several", path: .}
  program: {program: [python3, ./program.py], path: .}
"""


TUNER: dict[str, Any] = {"name": "tpe", "options": {"n_startup_trials": 1}}
Running = tuple[StackSettings, Mapping[str, ServiceProcess]]


class Installation:
    """Services that run, their log, and the state of a search as this test folds it."""

    def __init__(self, running: Running, log: KafkaLog) -> None:
        (self.settings, self.services), self.log = running, log
        self.stream = new_id("several")
        self.streams = Streams(AGGREGATES)
        self.records: list[Record] = []
        self.applied: list[Message] = []
        events = self.settings.topics.events
        place = (events.name, partition_of(self.stream, events.partitions))
        self._reader = log.reader({place: 0})

    async def start(self, **changed: Any) -> None:
        """Starts the search."""
        wanted = {"task_type": "several", "space": SPACE, "max_trials": 4, "seed": 7, **changed}
        command = StartSearch.model_validate(wanted)
        record = RecordWriter("publisher", "test").single(self.stream, command, message_id="c-1")
        await self.log.publish(self.settings.topics.commands.name, 1, record)

    async def until(self, true: Callable[[Stream], bool]) -> Stream:
        """Folds the log until something is so."""
        async with asyncio.timeout(60):
            while self.stream not in self.streams.by_id or not true(self.streams.by_id[self.stream]):
                for entry in await self._reader.read(1.0):
                    record = decode(entry)
                    assert record is not None
                    if record.envelope.stream != self.stream:
                        continue
                    assert not isinstance(record.message, CommandRefused), record.message
                    self.records.append(record)
                    if self.streams.fold(record)[1] is Outcome.APPLIED:
                        self.applied.append(record.message)
        return self.streams.by_id[self.stream]

    async def heard(self, kind: type[Message]) -> None:
        """Waits until an event of a kind was applied."""
        await self.until(lambda _: any(isinstance(message, kind) for message in self.applied))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("services")
    for name, text in (("several.py", TASKS), ("program.py", PROGRAM), ("catalogue.yaml", CATALOGUE)):
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def running(stack: Servers, module_tables: str, folder: Path) -> Iterator[Running]:
    resend = {"TRACKSIDE_SCHEDULER_RESEND_S": "0.5"}
    with processes(stack, module_tables, folder, folder / "catalogue.yaml", **resend) as running:
        yield running


@pytest.fixture
async def place(running: Running) -> AsyncIterator[Installation]:
    async with KafkaLog(running[0].kafka_bootstrap, "test") as log:
        yield Installation(running, log)


@pytest.fixture
def gate(place: Installation, folder: Path) -> Path:
    """Returns a pipe at which the first task waits before it asks for its second set."""
    os.mkfifo(gate := folder / f"{place.stream}.0")
    return gate


def tried_alone(stream_id: str) -> list[tuple[Any, float | None, str]]:
    """Returns what the tuner suggests for four trials, each told before the next is asked for, as `tried`."""
    memory = make_tuner(SPACE, TUNER, 7, "maximize")
    found: list[tuple[Any, float | None, str]] = []
    for number in range(4):
        parameters = memory.ask(number) or {}
        memory.tell(number, "complete", parameters["x"])
        found.append((parameters, parameters["x"], f"{stream_id}.0"))
    return found


def tried(stream: Stream) -> list[tuple[Any, float | None, str]]:
    """Returns parameters, value and task of each trial."""
    search = search_of(stream)
    assert search is not None
    return [(trial.parameters, trial.value, search.task_of(trial.number)) for trial in search.trials]


@pytest.mark.parametrize("task_type", ["several", pytest.param("program", marks=pytest.mark.long)])
async def test_d19_the_trials_of_a_search_go_on_in_the_process_that_asks(
    place: Installation, task_type: str
) -> None:
    await place.start(task_type=task_type, tuner=TUNER, direction="maximize")
    stream = await place.until(lambda found: found.closed)
    assert tried(stream) == tried_alone(place.stream), "as if each had a task of its own"
    assert [number_of(task.part, "trial") for task in stream.tasks.values()] == [3]
    [task] = stream.tasks.values()
    assert (len(task.attempts), task.withheld, task.requested, task.taken) == (1, True, 4, 4)
    by_set = [
        (message.requests, message.value) for message in place.applied if isinstance(message, MetricReported)
    ]
    assert {number for number, _ in by_set} == {0, 1, 2, 3}
    assert check_causes(place.records)[ParametersTaken] == 4
    assert (await verify_topics(place.log, place.settings.topics, stream=place.stream)).findings == []


@pytest.mark.long
async def test_d19_a_request_that_is_open_while_its_dispatcher_is_killed_is_answered_the_same(
    place: Installation, gate: Path
) -> None:
    await place.start(tuner=TUNER, direction="maximize")
    await place.heard(MetricReported)
    place.services["dispatcher"].kill()
    await asyncio.to_thread(gate.write_text, json.dumps("go on"))
    await place.heard(ParametersRequested)
    assert place.streams.by_id[place.stream].root.asking == {f"{place.stream}.0"}
    await asyncio.to_thread(gate.unlink)
    place.services["scheduler"].kill()
    place.services["dispatcher"].start()
    await place.until(lambda found: found.root is not None and len(found.root.trials) == 2)
    place.services["dispatcher"].restart()
    place.services["scheduler"].start()
    stream = await place.until(lambda found: found.closed)
    assert tried(stream) == tried_alone(place.stream)
    assert [len(task.attempts) for task in stream.tasks.values()] == [1]
    assert (await verify_topics(place.log, place.settings.topics, stream=place.stream)).findings == []


@pytest.mark.long
async def test_a_task_that_asks_while_there_is_no_worker_is_answered_by_the_next_one(
    place: Installation, gate: Path
) -> None:
    await place.start(retry={"lost": 3}, max_trials=2)
    await place.heard(MetricReported)
    place.services["worker"].kill()
    await asyncio.to_thread(gate.write_text, json.dumps("go on"))
    await asyncio.to_thread(gate.unlink)
    place.services["worker"].start()
    await place.heard(AttemptAdopted)
    stream = await place.until(lambda found: found.closed)
    assert [len(task.attempts) for task in stream.tasks.values()] == [1]
    assert check_causes(place.records)[AttemptAdopted] == 1
    assert (await verify_topics(place.log, place.settings.topics, stream=place.stream)).findings == []
