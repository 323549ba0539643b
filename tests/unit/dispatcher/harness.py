"""A real dispatcher on a log in memory, and a fleet that runs the tasks of its searches at once.

The fleet's tasks are functions from the parameters of a trial to its value.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchEnded, StartSearch, TrialSuggested
from trackside.contracts.envelope.message import Command, Event, Message, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.fleet.fleet import Device, WorkerJoined
from trackside.contracts.tasks import tasks
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import AdvisorOp, AdvisorProcess
from trackside.dispatcher.advisor.advisor import Advisor
from trackside.dispatcher.service import Dispatcher
from trackside.dispatcher.tuners.tuner import TunerWaits
from trackside.domain.folding.streams import Streams
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import from_start
from trackside.sdk.client import Client

TOPICS = Topics(event_partitions=1)
EVENTS = (TOPICS.events.name, 0)
LIMIT_S = 60.0
SCHEDULER, WORKER = RecordWriter("scheduler", "1"), RecordWriter("worker", "w1")
Result = Callable[[dict[str, Any]], float]
Made = TypeVar("Made", bound=Dispatcher)


class LocalAdvisor(AdvisorProcess):
    """An advisor process that is an object of this process instead."""

    def __init__(self) -> None:
        super().__init__("local")
        self.generation = 1
        self._advisor = Advisor()

    async def start(self) -> None:
        """Does nothing: there is no process."""

    async def request(
        self,
        search: str,
        ops: Callable[[int], Iterable[AdvisorOp]] | Sequence[AdvisorOp],
        ops_a_line: int = 1,
    ) -> Any:
        """Answers at once."""
        listed = list(ops(self.generation) if callable(ops) else ops)
        reply = self._advisor.answer(json.dumps({"id": 1, "search": search, "ops": listed}))
        assert "error" not in reply, reply
        if reply.get("waits"):
            raise TunerWaits
        return reply["result"]


async def new_log() -> MemoryLog:
    """Returns a log whose fleet has one worker, which can run tasks of type `noop`."""
    log = MemoryLog()
    await add_worker(log)
    return log


async def add_worker(log: MemoryLog) -> None:
    await log.ensure(TOPICS.shared)
    slot = Device(device_id="cpu-0", kind="cpu", name="slot", memory_bytes=2**30)
    fields = {"devices": [slot], "task_types": ["noop"], "queues": ["default"], "after": {}}
    joined = WorkerJoined.model_validate({"worker_id": "w1", "incarnation": "i1", "host": "here", **fields})
    await log.append(TOPICS.fleet.name, 0, [WORKER.single("w1", joined)])


def client_of(log: MemoryLog) -> Client:
    client = Client("", log=log)
    client._topics = TOPICS
    return client


async def start_search(log: MemoryLog, search: str, **fields: Any) -> None:
    await publish(log, search, StartSearch.model_validate({"task_type": "noop", **fields}), f"start-{search}")


async def searching(**fields: Any) -> MemoryLog:
    """Returns a log with a worker, and with the command that starts the search `s`."""
    log = await new_log()
    await start_search(log, "s", **fields)
    return log


async def publish(log: MemoryLog, search: str, command: Command, command_id: str = "c-2") -> None:
    partition = partition_of(search, TOPICS.commands.partitions)
    record = RecordWriter("publisher", "test").single(search, command, message_id=command_id)
    await log.append(TOPICS.commands.name, partition, [record])


async def append(log: MemoryLog, writer: RecordWriter, stream: str, *events: Event) -> None:
    """Appends events one by one, each a decision of its own."""
    for event in events:
        await log.append(*EVENTS, [writer.single(stream, event)])


@asynccontextmanager
async def dispatcher(
    log: MemoryLog,
    plugins: AdvisorProcess | None = None,
    assessor: AdvisorProcess | None = None,
    kind: type[Made] = Dispatcher,  # type: ignore[assignment]
) -> AsyncIterator[Made]:
    """Runs a dispatcher with the log as its only state; its tuners are in this process, but for `plugins`."""
    service = ServiceContext.on(log, TOPICS, "dispatcher")
    advice = AdviceLoop(LocalAdvisor(), assessor or LocalAdvisor(), service.background, plugins)
    made = kind(service, Streams(AGGREGATES), advice)
    reactor = Reactor(
        service,
        made,
        starts=await from_start(log, TOPICS.events) | await from_start(log, TOPICS.fleet),
        raw=await from_start(log, TOPICS.commands),
        partitions={topic.name: topic.partitions for topic in (TOPICS.events, TOPICS.fleet)},
    )
    advice.ready = reactor.wake
    reactor.paused = made.paused_topics
    service.background.spawn(made.read_released(reactor.wake))
    rereading = asyncio.create_task(made.rereading.run(reactor.wake))
    running = asyncio.create_task(reactor.run())
    try:
        yield made
    finally:
        service.stop.set()
        await running
        rereading.cancel()
        if plugins is not None:
            await plugins.close()


async def events(log: MemoryLog, start: int = 0) -> AsyncIterator[Record]:
    """Yields the events from an offset on as they are written, without end; skips undecodable records."""
    reader = log.reader({EVENTS: start})
    while True:
        for entry in await reader.read(LIMIT_S):
            if (record := decode(entry)) is not None:
                yield record


async def written(log: MemoryLog) -> list[Entry]:
    return await log.reader({EVENTS: 0}).read(0.0)


async def until(log: MemoryLog, wanted: Callable[[Record], bool], start: int = 0) -> Record:
    """Waits for the first event that fits, two minutes at most."""
    async with asyncio.timeout(2 * LIMIT_S):
        async for record in events(log, start):
            if wanted(record):
                return record
    raise AssertionError("the log has no end")


def is_a(kind: type[Message]) -> Callable[[Record], bool]:
    return lambda record: isinstance(record.message, kind)


def suggests(trial: int) -> Callable[[Record], bool]:
    return lambda record: isinstance(record.message, TrialSuggested) and record.message.trial == trial


def submits(task_id: str) -> Callable[[Record], bool]:
    return lambda record: (
        isinstance(record.message, tasks.TaskSubmitted) and record.message.task_id == task_id
    )


async def decoded(log: MemoryLog) -> list[Record]:
    return [record for entry in await written(log) if (record := decode(entry)) is not None]


async def messages(log: MemoryLog, kind: type[Message] = Message) -> list[Any]:
    return [record.message for record in await decoded(log) if isinstance(record.message, kind)]


async def run_to_end(log: MemoryLog, result: Result, last: int = 0, **more: Any) -> None:
    async with dispatcher(log), fleet(log, result, last=last, **more):
        await until(log, is_a(SearchEnded))


async def work(
    log: MemoryLog, result: Result, order: Callable[[list[str]], str], in_flight: int, last: int = 0
) -> None:
    """Runs tasks without end: starts each at once, and ends one, chosen by `order`, whenever `in_flight` run.

    After the task with the number `last`, counted from 1, all that run are ended.
    """
    running: dict[str, Record] = {}
    begun = 0
    async for record in events(log):
        message = record.message
        if not isinstance(message, tasks.TaskSubmitted):
            continue
        running[message.task_id] = record
        await begin(log, record.envelope.stream, message.task_id)
        begun += 1
        while running and (len(running) == in_flight or begun == last):
            ended = running.pop(order(list(running)))
            assert isinstance(ended.message, tasks.TaskSubmitted)
            await end(log, ended.envelope.stream, ended.message.task_id, result(ended.message.parameters))


async def begin(log: MemoryLog, stream: str, task_id: str) -> None:
    token = {"task_id": task_id, "attempt": 1, "placement": 1, "incarnation": "i1"}
    place = {"worker_id": "w1", "device_ids": ["cpu-0"], "seen": 0}
    assigned = tasks.TaskAssigned.model_validate(token | place)
    await append(log, SCHEDULER, stream, assigned)
    await append(log, WORKER, stream, tasks.TaskAccepted.model_validate(token))


async def end(log: MemoryLog, stream: str, task_id: str, value: float) -> None:
    await report(log, stream, task_id, 0, value, final=True)
    await end_attempt(log, stream, task_id)


async def report(
    log: MemoryLog, stream: str, task_id: str, step: int, value: float, final: bool = False
) -> None:
    fields = {"task_id": task_id, "attempt": 1, "placement": 1, "kind": "FINAL" if final else "PERIODICAL"}
    reported = tasks.MetricReported.model_validate({**fields, "step": step, "value": value})
    await append(log, WORKER, stream, reported)


async def end_attempt(
    log: MemoryLog, stream: str, task_id: str, how: tasks.AttemptEnd = tasks.AttemptEnd.FINISHED
) -> None:
    token = {"task_id": task_id, "attempt": 1, "placement": 1, "incarnation": "i1"}
    await append(log, WORKER, stream, tasks.AttemptEnded.model_validate({**token, "end": how}))


@asynccontextmanager
async def fleet(
    log: MemoryLog,
    result: Result,
    in_flight: int = 1,
    order: Callable[[list[str]], str] = lambda running: running[0],
    last: int = 0,
) -> AsyncIterator[None]:
    working = asyncio.create_task(work(log, result, order, in_flight, last))
    try:
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def suggestions(log: MemoryLog, stream: str) -> list[dict[str, Any]]:
    found = [record for record in await decoded(log) if record.envelope.stream == stream]
    return [each.message.parameters for each in found if isinstance(each.message, TrialSuggested)]
