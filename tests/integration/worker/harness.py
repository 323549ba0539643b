"""A worker with real processes over a log: sends device commands and waits for events."""

import asyncio
import gc
import json
import os
import select
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from trackside.aggregates.registry import CODEC
from trackside.contracts.device_commands import GiveInstruction, RecallTask, RunTask, StopTask
from trackside.contracts.fleet import WorkerJoined, WorkerLost
from trackside.contracts.instructions import Instruction
from trackside.contracts.message import Envelope, Message
from trackside.contracts.summaries import MetricPointsReported, OutputWritten
from trackside.contracts.tasks import AttemptEnded, MetricReported, TaskStatusChanged
from trackside.contracts.topics import Topic, Topics, partition_of
from trackside.domain.proposal import cause_of, parse_cause
from trackside.eventlog.log import Log
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.record_writer import RecordWriter
from trackside.telemetry.health import Health
from trackside.worker.app import run_until_stopped
from trackside.worker.catalogue.task_catalogue import read_catalogue
from trackside.worker.settings import WorkerSettings
from trackside.worker.worker_runner import WorkerRunner

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "deploy" / "examples"
SCRIPTED = Path(__file__).with_name("scripted") / "catalogue.yaml"
LIMIT_S = 60.0
TOKEN = {"stream", "task_id", "attempt", "placement", "incarnation"}
CAUSES: dict[type[Message], int] = {RunTask: 10, StopTask: 20, RecallTask: 30, GiveInstruction: 40}
"""The offset that each command rests on."""
Found = TypeVar("Found", bound=Message)


class WorkerHarness:
    """A running worker, its log and its commands."""

    def __init__(self, log: Log, topics: Topics, worker_id: str) -> None:
        self.log = log
        self.topics = topics
        self.worker_id = worker_id
        self.leaving = asyncio.Event()
        self.scheduler = RecordWriter("scheduler", "test")

    async def send(
        self,
        command: RunTask | StopTask | RecallTask | GiveInstruction,
        device: str = "cpu-0",
        traceparent: str = "",
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

    async def stop(
        self, command: RunTask, device: str = "cpu-0", end: str = "cancelled", checkpoint_s: float = 0
    ) -> None:
        """Sends the StopTask of a placement."""
        stop = {**command.model_dump(include=TOKEN), "reason": "user", "end": end}
        stop["checkpoint_s"] = checkpoint_s
        await self.send(StopTask.model_validate(stop), device)

    async def instruct(self, command: RunTask, number: int, device: str = "cpu-0", **body: Any) -> None:
        """Gives the task of a placement an instruction."""
        instruction = Instruction(number=number, body=body)
        token = command.model_dump(include=TOKEN)
        await self.send(GiveInstruction(**token, instruction=instruction), device)

    async def recall(self, command: RunTask, device: str = "cpu-0") -> None:
        """Sends the RecallTask of a placement."""
        await self.send(RecallTask(**command.model_dump(include=TOKEN)), device)

    async def declare_lost(self, incarnation: str) -> None:
        """Reports an incarnation of the worker as lost, as a scheduler would."""
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

    async def events_until_end(self, task_id: str, ends: int = 1) -> list[Message]:
        """Waits until an attempt has ended; returns all events of the task's stream."""
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

    async def events_so_far(self, task_id: str) -> list[Message]:
        """Returns the events of a task's stream that are in the log now."""
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
        """Waits until a task has entered `count` phases; returns all events of its stream."""
        return await self.messages(
            self.topics.events, stream_of(task_id), lambda all_: len(of(all_, TaskStatusChanged)) >= count
        )

    async def pid(self, task_id: str) -> int:
        """Waits for the pid that a task with the parameter `tell_pid` reports."""
        reported = await self.first(MetricReported, self.topics.events, stream_of(task_id))
        assert reported.value is not None
        return int(reported.value)

    async def output(self, task_id: str, enough: Callable[[str], bool]) -> str:
        """Waits for a task's output, stdout and stderr; it may come in pieces."""

        def text(messages: list[Message]) -> str:
            return "\n".join(line for written in of(messages, OutputWritten) for line in written.lines)

        return text(await self.messages(self.topics.logs, task_id, lambda all_: enough(text(all_))))

    async def points(self, task_id: str, count: int) -> dict[str, list[tuple[int, float | None]]]:
        """Waits for `count` metric points of a task, which may come in pieces; returns them by tag."""
        found: dict[str, list[tuple[int, float | None]]] = {}

        def enough(messages: list[Message]) -> bool:
            found.clear()
            for batch in of(messages, MetricPointsReported):
                for series in batch.series:
                    if series.tag.startswith("system/"):
                        continue  # what the worker measures of it
                    found.setdefault(series.tag, []).extend(zip(series.steps, series.values, strict=True))
            return sum(map(len, found.values())) >= count

        await self.messages(self.topics.metrics, task_id, enough)
        return found

    async def end(self, task_id: str, nth: int = 1) -> AttemptEnded:
        """Waits for the end of an attempt."""
        return await self.first(AttemptEnded, self.topics.events, stream_of(task_id), nth)


class Gate:
    """A pipe at which a scripted task waits."""

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
    """Returns whether a process runs; a zombie doesn't."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def of(messages: list[Message], kind: type[Found]) -> list[Found]:
    """Returns the messages of a kind."""
    return [message for message in messages if isinstance(message, kind)]


def stream_of(task_id: str) -> str:
    """Returns the stream of a test's task."""
    return f"s-{task_id}"


def settings_for(data_dir: Path, example: str = "noop", **more: Any) -> WorkerSettings:
    """Returns settings of a worker that starts fast; its tasks have LIMIT_S to end, unless told otherwise."""
    fields = {
        "id": "w1",
        "data_dir": data_dir,
        "catalogue": EXAMPLES / example / "catalogue.yaml",
        "host_dir": data_dir.parent / f"{data_dir.name}-host",
        "preload": "",
        "stop_grace_s": LIMIT_S,
        "heartbeat_interval_s": 0.2,
        **more,
    }
    return WorkerSettings(**fields)


def scripted_settings(data_dir: Path, **more: Any) -> WorkerSettings:
    """Returns settings of a worker for tasks that wait or run out of memory as told: see scripted.py."""
    return settings_for(data_dir, **{"catalogue": SCRIPTED, **more})


async def memory_log(topics: Topics) -> MemoryLog:
    """Returns a log in memory with the shared topics."""
    log = MemoryLog()
    await log.ensure(topics.shared)
    return log


@asynccontextmanager
async def running(log: Log, topics: Topics, settings: WorkerSettings) -> AsyncIterator[WorkerHarness]:
    """Runs a worker during the block, then lets it leave."""
    health = Health("worker")
    worker = WorkerRunner(log, topics, settings, read_catalogue(settings.catalogue), health)
    harness = WorkerHarness(log, topics, settings.id)
    living = asyncio.create_task(run_until_stopped(worker, harness.leaving))
    try:
        yield harness
    finally:
        harness.leaving.set()
        await living
        gc.collect()  # warnings about unclosed files are reported in the test that left them open


def parent_of(pid: int) -> int:
    """Returns the pid of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@contextmanager
def killable_worker(
    data_dir: Path, parameters: dict[str, Any], *task: str, adopt: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Starts a worker in a separate process with one task: of `noop`, or of a catalogue and a type.

    With `adopt` the task outlives it.
    """
    command = [
        sys.executable,
        "-m",
        "tests.integration.worker.killable_worker",
        str(data_dir),
        json.dumps(parameters),
    ]
    command += task
    environment = {**os.environ, "TRACKSIDE_WORKER_ADOPT": str(adopt)}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    """Waits for the next line that the process writes, except lines of its log."""
    assert process.stdout is not None
    while (line := process.stdout.readline()) and " [" in line:
        pass  # a line of the log
    return line.strip()


def wait_until_gone(pid: int) -> bool:
    """Waits until a process has ended."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], LIMIT_S)[0])
    finally:
        os.close(watched)


async def events_after_restart(data_dir: Path) -> tuple[WorkerHarness, list[Any]]:
    """Runs another worker on the same data directory until task `a` has ended; returns it and the events."""
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, settings_for(data_dir)) as harness:
        joined = await harness.joined()
        story = await harness.events_until_end("a")
        partition = partition_of("s-a", topics.events.partitions)
        ends = await harness.log.ends(topics.events.name)
        assert joined.after == {str(partition): ends[partition]}
    return harness, story
