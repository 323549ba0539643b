"""A worker with real processes over a log: sends it device commands, waits for what it says."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from trackside.contracts.codec import CODEC
from trackside.contracts.fleet import WorkerJoined, WorkerLost
from trackside.contracts.message import Envelope, Message
from trackside.contracts.summaries import MetricPointsReported, OutputWritten
from trackside.contracts.tasks import (
    AttemptEnded,
    MetricReported,
    RecallTask,
    RunTask,
    StopTask,
    TaskStatusChanged,
)
from trackside.contracts.topics import Topic, Topics, partition_of
from trackside.domain.proposal import cause_of, parse_cause
from trackside.eventlog.log import Log
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.record_writer import RecordWriter
from trackside.telemetry.health import Health
from trackside.worker.app import WorkerRunner, run_until_stopped
from trackside.worker.catalogue.task_catalogue import read_catalogue
from trackside.worker.settings import WorkerSettings

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"
HUNGRY = Path(__file__).with_name("hungry") / "catalogue.yaml"
LIMIT_S = 60.0
TOKEN = {"stream", "task_id", "attempt", "placement", "incarnation"}
CAUSES: dict[type[Message], int] = {RunTask: 10, StopTask: 20, RecallTask: 30}
"""The offset that each command rests on."""
Found = TypeVar("Found", bound=Message)


class Rig:
    """What a test holds of a running worker."""

    def __init__(self, log: Log, topics: Topics, worker_id: str) -> None:
        self.log = log
        self.topics = topics
        self.worker_id = worker_id
        self.leaving = asyncio.Event()
        self.scheduler = RecordWriter("scheduler", "test")

    async def send(
        self, command: RunTask | StopTask | RecallTask, device: str = "cpu-0", traceparent: str = ""
    ) -> None:
        """Sends a device command as the scheduler would, with the cause that `CAUSES` names."""
        cause = cause_of(command.stream, CAUSES[type(command)])
        record = self.scheduler.single(command.stream, command, cause=cause, traceparent=traceparent)
        await self.log.append(self.topics.device(self.worker_id, device).name, 0, [record])

    async def run(self, task_id: str, parameters: dict[str, Any] | None = None, **more: Any) -> RunTask:
        """Sends a RunTask for the current incarnation."""
        device, traceparent = more.pop("device", "cpu-0"), more.pop("traceparent", "")
        fields = {"attempt": 1, "placement": 1, "task_type": "noop", "incarnation": None, **more}
        fields.setdefault("device_ids", [device])
        fields["incarnation"] = fields["incarnation"] or (await self.joined()).incarnation
        command = RunTask(stream=stream_of(task_id), task_id=task_id, parameters=parameters or {}, **fields)
        await self.send(command, device, traceparent)
        return command

    async def stop(self, command: RunTask, device: str = "cpu-0", end: str = "cancelled") -> None:
        """Sends the StopTask of a placement."""
        stop = {**command.model_dump(include=TOKEN), "reason": "user", "end": end}
        await self.send(StopTask.model_validate(stop), device)

    async def recall(self, command: RunTask, device: str = "cpu-0") -> None:
        """Sends the RecallTask of a placement."""
        await self.send(RecallTask(**command.model_dump(include=TOKEN)), device)

    async def lose(self, incarnation: str) -> None:
        """Says that an incarnation of the worker was lost, as a scheduler would."""
        lost = WorkerLost(worker_id=self.worker_id, incarnation=incarnation, silent_ms=9_999)
        await self.log.append(self.topics.fleet.name, 0, [self.scheduler.single(self.worker_id, lost)])

    async def messages(
        self, topic: Topic, key: str, enough: Callable[[list[Message]], bool]
    ) -> list[Message]:
        """Reads the partition of a key from its beginning until what is there is enough."""
        place = (topic.name, partition_of(key, topic.partitions))
        reader = self.log.reader({place: 0})
        found: list[Message] = []
        try:
            async with asyncio.timeout(LIMIT_S):
                while not enough(found):
                    found += [
                        CODEC.decode(CODEC.envelope(entry.headers), entry.value)
                        for entry in await reader.read(1.0)
                        if entry.key == key.encode()
                    ]
        finally:
            await reader.close()
        return found

    async def first(self, kind: type[Found], topic: Topic, key: str, nth: int = 1) -> Found:
        """Waits for the nth message of a kind."""
        found = await self.messages(topic, key, lambda all_: len(of(all_, kind)) >= nth)
        return of(found, kind)[nth - 1]

    async def joined(self, nth: int = 1) -> WorkerJoined:
        """Waits for the worker's nth join."""
        return await self.first(WorkerJoined, self.topics.fleet, self.worker_id, nth)

    async def story(self, task_id: str, ends: int = 1) -> list[Message]:
        """Waits until an attempt has ended; gives all events of the task's stream."""
        return await self.messages(
            self.topics.events, stream_of(task_id), lambda all_: len(of(all_, AttemptEnded)) >= ends
        )

    async def causes(self, task_id: str) -> list[tuple[str, int]]:
        """Returns the type of each event of a task's stream that is in the log by now, and its cause."""
        place = (self.topics.events.name, partition_of(stream_of(task_id), self.topics.events.partitions))
        end, found = (await self.log.ends(place[0]))[place[1]], list[Envelope]()
        reader = self.log.reader({place: 0})
        try:
            while len(found) < end:
                found += [CODEC.envelope(entry.headers) for entry in await reader.read(1.0)]
        finally:
            await reader.close()
        events = [each for each in found if each.stream == stream_of(task_id)]
        return [(each.type.split(".")[-2], _offset_in(stream_of(task_id), each)) for each in events]

    async def so_far(self, task_id: str) -> list[Message]:
        """Gives the events of a task's stream that are in the log by now."""
        place = partition_of(stream_of(task_id), self.topics.events.partitions)
        end = (await self.log.ends(self.topics.events.name))[place]
        reader = self.log.reader({(self.topics.events.name, place): 0})
        found: list[Message] = []
        seen = 0
        try:
            while seen < end:
                for entry in await reader.read(1.0):
                    seen = entry.offset + 1
                    if entry.key == stream_of(task_id).encode():
                        found.append(CODEC.decode(CODEC.envelope(entry.headers), entry.value))
        finally:
            await reader.close()
        return found

    async def statuses(self, task_id: str, count: int) -> list[Message]:
        """Waits until a task has entered so many phases; gives all events of its stream."""
        return await self.messages(
            self.topics.events, stream_of(task_id), lambda all_: len(of(all_, TaskStatusChanged)) >= count
        )

    async def pid(self, task_id: str) -> int:
        """Waits for a task that was asked to `tell_pid`, once it runs."""
        reported = await self.first(MetricReported, self.topics.events, stream_of(task_id))
        assert reported.value is not None
        return int(reported.value)

    async def output(self, task_id: str, enough: Callable[[str], bool]) -> str:
        """Waits for a task's output, of both kinds; it may come in pieces."""

        def text(messages: list[Message]) -> str:
            return "\n".join(line for written in of(messages, OutputWritten) for line in written.lines)

        return text(await self.messages(self.topics.logs, task_id, lambda all_: enough(text(all_))))

    async def points(self, task_id: str, count: int) -> dict[str, list[tuple[int, float | None]]]:
        """Waits for so many points of a task's own; gives them by tag. They may come in pieces."""
        found: dict[str, list[tuple[int, float | None]]] = {}

        def enough(messages: list[Message]) -> bool:
            found.clear()
            for batch in of(messages, MetricPointsReported):
                for series in batch.series:
                    if series.tag.startswith("system/"):
                        continue  # what the worker sees of it, if it looks meanwhile
                    found.setdefault(series.tag, []).extend(zip(series.steps, series.values, strict=True))
            return sum(map(len, found.values())) >= count

        await self.messages(self.topics.metrics, task_id, enough)
        return found

    async def end(self, task_id: str, nth: int = 1) -> AttemptEnded:
        """Waits for the end of an attempt."""
        return await self.first(AttemptEnded, self.topics.events, stream_of(task_id), nth)


class Gate:
    """A pipe at which a hungry task waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    async def pass_one(self) -> None:
        """Waits until a task waits, and lets it pass."""
        await asyncio.to_thread(self.path.write_text, "\n")


def _offset_in(stream: str, envelope: Envelope) -> int:
    cause = parse_cause(envelope.causation_id)
    assert cause is not None and cause[0] == stream, envelope.causation_id
    return cause[1]


def alive(pid: int) -> bool:
    """Says whether a process is there; one that has ended and waits for its new parent is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def of(messages: list[Message], kind: type[Found]) -> list[Found]:
    """Picks the messages of a kind."""
    return [message for message in messages if isinstance(message, kind)]


def stream_of(task_id: str) -> str:
    """Names the stream of a test's task."""
    return f"s-{task_id}"


def settings_for(data_dir: Path, example: str = "noop", **more: Any) -> WorkerSettings:
    """Gives settings of a worker that starts fast.

    Its tasks may take their time to end: only who waits for a kill gives them less.
    """
    fields = {
        "id": "w1",
        "data_dir": data_dir,
        "catalogue": EXAMPLES / example / "catalogue.yaml",
        "preload": "",
        "stop_grace_s": LIMIT_S,
        "heartbeat_interval_s": 0.2,
        **more,
    }
    return WorkerSettings(**fields)


def hungry_settings(data_dir: Path, **more: Any) -> WorkerSettings:
    """Gives settings of a worker for tasks that wait or run out of memory as they are told: see hungry.py."""
    return settings_for(data_dir, catalogue=HUNGRY, **more)


async def memory_log(topics: Topics) -> MemoryLog:
    """Gives a log in memory with the shared topics."""
    log = MemoryLog()
    await log.ensure(topics.shared)
    return log


@asynccontextmanager
async def running(log: Log, topics: Topics, settings: WorkerSettings) -> AsyncIterator[Rig]:
    """Runs a worker while the block runs, then lets it leave."""
    health = Health("worker")
    worker = WorkerRunner(log, topics, settings, read_catalogue(settings.catalogue), health)
    rig = Rig(log, topics, settings.id)
    living = asyncio.create_task(run_until_stopped(worker, rig.leaving))
    try:
        yield rig
    finally:
        rig.leaving.set()
        await living
        gc.collect()  # whatever was left open is told of in the test that left it
