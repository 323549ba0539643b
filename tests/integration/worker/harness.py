"""A worker with real processes over a log: sends device commands and waits for events."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.polling import poll_until
from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Envelope, Message
from trackside.contracts.envelope.topics import Topic, Topics, partition_of
from trackside.contracts.fleet.fleet import WorkerHeartbeat, WorkerJoined, WorkerLost
from trackside.contracts.tasks.device_commands import GiveInstruction, RecallTask, RunTask, StopTask
from trackside.contracts.tasks.instructions import Instruction
from trackside.contracts.tasks.summaries import (
    MetricPointsReported,
    OutputWritten,
    ReportedItem,
    SummaryItemsReported,
)
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    TaskError,
    TaskRefused,
    TaskStatusChanged,
)
from trackside.domain.proposal import cause_of, parse_cause
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Log
from trackside.eventlog.memory import MemoryLog
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
    """A running worker, its log and its commands.

    Its task ids begin with `names`, and it reads the log from `starts` on: so tests share a worker.
    """

    def __init__(
        self,
        log: Log,
        topics: Topics,
        worker_id: str,
        data_dir: Path = Path(),
        names: str = "",
        starts: dict[tuple[str, int], int] | None = None,
    ) -> None:
        self.log, self.topics, self.worker_id, self.data_dir = log, topics, worker_id, data_dir
        self.leaving = asyncio.Event()
        self.scheduler = RecordWriter("scheduler", "test")
        self._names, self._starts = names, starts or {}

    async def for_a_test(self, names: str) -> "WorkerHarness":
        """Returns a harness of the same worker for the tasks of one test, which reads from here on."""
        starts = {
            (topic.name, partition): end
            for topic in self.topics.shared
            if topic != self.topics.fleet
            for partition, end in (await self.log.ends(topic.name)).items()
        }
        return WorkerHarness(self.log, self.topics, self.worker_id, self.data_dir, names, starts)

    def own(self, task_id: str) -> str:
        """Returns the id that the log has for a task of this test."""
        return task_id if task_id.startswith(self._names) else f"{self._names}{task_id}"

    def key(self, topic: Topic, about: str) -> str:
        """Returns the key of the records about a task, or of those of the worker."""
        if about == self.worker_id:
            return about
        return stream_of(self.own(about)) if topic == self.topics.events else self.own(about)

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
        own = self.own(task_id)
        command = RunTask(stream=stream_of(own), task_id=own, parameters=parameters or {}, **fields)
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
        """Sends the task of a placement an instruction."""
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
        self, topic: Topic, about: str, enough: Callable[[list[Message]], bool]
    ) -> list[Message]:
        """Reads what a topic has about a task, or the worker, until it is enough."""
        key = self.key(topic, about)
        place = (topic.name, partition_of(key, topic.partitions))
        reader = self.log.reader({place: self._starts.get(place, 0)})
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

    async def events(self, task_id: str, enough: Callable[[list[Message]], bool]) -> list[Message]:
        """Waits until the events of a task's stream are enough; returns them."""
        return await self.messages(self.topics.events, task_id, enough)

    async def first(self, kind: type[Found], topic: Topic, about: str, nth: int = 1) -> Found:
        """Waits for the nth message of a kind about a task, or of the worker."""
        found = await self.messages(topic, about, lambda all_: len(of(all_, kind)) >= nth)
        return of(found, kind)[nth - 1]

    async def event(self, kind: type[Found], task_id: str, nth: int = 1) -> Found:
        """Waits for the nth event of a kind of a task."""
        return await self.first(kind, self.topics.events, task_id, nth)

    async def joined(self, nth: int = 1) -> WorkerJoined:
        """Waits for the worker's nth join."""
        return await self.first(WorkerJoined, self.topics.fleet, self.worker_id, nth)

    async def heartbeat(self, wanted: Callable[[WorkerHeartbeat], bool]) -> WorkerHeartbeat:
        """Waits for a whole heartbeat that fits."""
        beats = await self.messages(
            self.topics.heartbeats, self.worker_id, lambda all_: any(map(wanted, of(all_, WorkerHeartbeat)))
        )
        return next(beat for beat in of(beats, WorkerHeartbeat) if wanted(beat))

    async def sees_idle_gpus(self) -> None:
        """Waits until the worker has seen that nothing uses a GPU any more."""
        from_here = await self.for_a_test(self._names)
        await from_here.heartbeat(lambda beat: not any(each.used_bytes for each in beat.devices))

    async def is_held(self, task_id: str) -> None:
        """Waits until the worker has a task, and has looked at its neighbours since."""
        own = self.own(task_id)
        await self.heartbeat(lambda beat: any(each.task_id == own for each in beat.running))

    async def events_until_end(self, task_id: str, ends: int = 1) -> list[Message]:
        """Waits until an attempt has ended; returns all events of the task's stream."""
        return await self.events(task_id, lambda all_: len(of(all_, AttemptEnded)) >= ends)

    async def story(
        self, task_id: str, parameters: dict[str, Any] | None = None, **more: Any
    ) -> list[Message]:
        """Runs a task to its end; returns all events of its stream."""
        await self.run(task_id, parameters, **more)
        return await self.events_until_end(task_id)

    async def ended(
        self, task_id: str, parameters: dict[str, Any] | None = None, **more: Any
    ) -> AttemptEnded:
        """Runs a task to its end; returns that."""
        return of(await self.story(task_id, parameters, **more), AttemptEnded)[-1]

    async def refused(
        self, task_id: str, parameters: dict[str, Any] | None = None, **more: Any
    ) -> TaskRefused:
        """Gets a task refused."""
        await self.run(task_id, parameters, **more)
        return await self.event(TaskRefused, task_id)

    async def causes(self, task_id: str) -> list[tuple[str, int]]:
        """Returns the type of each event of a task's stream that is in the log by now, and its cause."""
        stream = stream_of(self.own(task_id))
        envelopes = [CODEC.envelope(entry.headers) for entry in await self.entries_so_far(task_id)]
        return [(each.type.split(".")[-2], _offset_in(stream, each)) for each in envelopes]

    async def events_so_far(self, task_id: str) -> list[Message]:
        """Returns the events of a task's stream that are in the log now."""
        entries = await self.entries_so_far(task_id)
        return [CODEC.decode(CODEC.envelope(entry.headers), entry.value) for entry in entries]

    async def entries_so_far(self, task_id: str) -> list[Entry]:
        """Returns the records of a task's stream that are in the log now."""
        stream, events = stream_of(self.own(task_id)), self.topics.events
        place = (events.name, partition_of(stream, events.partitions))
        end, seen = (await self.log.ends(events.name))[place[1]], self._starts.get(place, 0)
        reader, found = self.log.reader({place: seen}), list[Entry]()
        try:
            while seen < end:
                for entry in await reader.read(1.0):
                    seen = entry.offset + 1
                    found += [entry] if entry.key == stream.encode() else []
        finally:
            await reader.close()
        return found

    async def statuses(self, task_id: str, count: int) -> list[Message]:
        """Waits until a task has entered `count` phases; returns all events of its stream."""
        return await self.events(task_id, lambda all_: len(of(all_, TaskStatusChanged)) >= count)

    async def pid(self, task_id: str) -> int:
        """Waits for the pid that a task with the parameter `tell_pid` reports."""
        reported = await self.event(MetricReported, task_id)
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

    async def items(self, task_id: str, count: int) -> list[ReportedItem]:
        """Waits for so many values of a task that are no numbers."""
        found = await self.messages(self.topics.metrics, task_id, lambda all_: len(items_in(all_)) >= count)
        return items_in(found)

    async def end(self, task_id: str, nth: int = 1) -> AttemptEnded:
        """Waits for the end of an attempt."""
        return await self.event(AttemptEnded, task_id, nth)


class Gate:
    """A pipe at which a scripted task waits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    @property
    def waits(self) -> dict[str, Any]:
        """The parameters of a task that trains until it may pass."""
        return {"train": ["wait"], "gate": str(self.path)}

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


def error_of(end: AttemptEnded, stage: str, kind: str) -> TaskError:
    """Returns the error of an attempt that has failed in a stage, by an error of a kind."""
    assert end.end is AttemptEnd.FAILED and end.error is not None, end
    assert (end.error.stage, end.error.type) == (stage, kind), end.error
    return end.error


def items_in(messages: list[Message]) -> list[ReportedItem]:
    """Returns the reported values that are no numbers."""
    return [item for batch in of(messages, SummaryItemsReported) for item in batch.items]


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
    harness = WorkerHarness(log, topics, settings.id, settings.data_dir)
    living = asyncio.create_task(run_until_stopped(worker, harness.leaving))
    try:
        yield harness
    finally:
        harness.leaving.set()
        await living
        gc.collect()  # warnings about unclosed files are reported in the test that left them open


async def gone(*paths: str | Path) -> None:
    """Waits until files or folders are gone."""

    async def are_gone() -> bool:
        return not any(map(os.path.lexists, paths))

    await poll_until(are_gone, LIMIT_S)


def parent_of(pid: int) -> int:
    """Returns the pid of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
