"""Directories of event files that are read into the log by this process, and what the log then has."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace

from tests.integration.summary_indexer.harness import Sandbox
from tests.polling import poll_until
from tests.unit.dispatcher.harness import LocalAdvisor
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.summary.messages import (
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryJobDeleted,
    SummaryJobFound,
    SummaryJobRestored,
    SummaryJobVanished,
)
from trackside.artifacts.settings import StoreSettings
from trackside.contracts.envelope.message import Command, Record
from trackside.contracts.envelope.topics import Topic, partition_of
from trackside.contracts.streams.commands import RecordDeadLettered
from trackside.contracts.tasks.summaries import MetricPointsReported, ReportedItem, SummaryItemsReported
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.service import Dispatcher
from trackside.domain.folding.streams import Streams
from trackside.eventlog.clock import CLOCK, now_ms
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import TopicPartition
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import from_start
from trackside.summaries.event_files.writing import first_record, record
from trackside.summary_indexer.watching.log_positions import job_id_of
from trackside.summary_indexer.watching.report import WatchReport
from trackside.summary_indexer.watching.tag_limits import IndexedTags
from trackside.summary_indexer.watching.watched_directories import import_directory, watch_directories

HOUR_S = 3_600
Series = tuple[str, int, str]
"""The path of a job, the number of a session, a tag."""


@asynccontextmanager
async def dispatching(log: KafkaLog, sandbox: Sandbox) -> AsyncIterator[None]:
    """Makes a dispatcher in this process answer commands while the context lasts; it needs no tuner."""
    topics = sandbox.topics
    await log.ensure([topics.commands, topics.fleet])
    service = ServiceContext.on(log, topics, "dispatcher")
    reactor = Reactor(
        service,
        Dispatcher(
            service, Streams(AGGREGATES), AdviceLoop(LocalAdvisor(), LocalAdvisor(), service.background)
        ),
        starts=await from_start(log, topics.events) | await from_start(log, topics.fleet),
        raw=await from_start(log, topics.commands),
        partitions={topic.name: topic.partitions for topic in (topics.events, topics.fleet)},
    )
    running = asyncio.create_task(reactor.run())
    try:
        yield
    finally:
        service.stop.set()
        await running


def begin_file(folder: Path, number: int = 1, time_ms: int = 1_000, steps: Sequence[int] = ()) -> Path:
    """Writes an event file with its first record and points of these steps, over one that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = event_file(folder, number)
    path.write_bytes(first_record(time_ms))
    points(path, steps)
    return path


def event_file(folder: Path, number: int = 1) -> Path:
    return folder / f"events.out.tfevents.{number}.host"


def points(path: Path, steps: Iterable[int], tag: str = "loss") -> None:
    append(path, *(record(tag, step, step, step / 2) for step in steps))


def append(path: Path, *records: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(records))


class Runs:
    """A directory of event files that this process reads into the log, and what the log has since `begin`."""

    def __init__(self, log: KafkaLog, sandbox: Sandbox, folder: Path) -> None:
        self.log, self.sandbox, self.folder, self.base = log, sandbox, folder, folder / "runs"
        self._starts: dict[TopicPartition, int] = {}
        (folder / "store").mkdir()

    async def begin(self) -> None:
        topics = self.sandbox.topics
        for topic in (topics.events, topics.metrics, topics.dead_letters):
            ends = await self.log.ends(topic.name)
            self._starts |= {(topic.name, partition): end for partition, end in ends.items()}

    async def read_in(self, base: Path | None = None, indexed: IndexedTags | None = None) -> WatchReport:
        return await import_directory(self._service(), self._store(), base or self.base, indexed=indexed)

    @asynccontextmanager
    async def watching(self, slow_look_s: float = HOUR_S, store: str = "store") -> AsyncIterator[WatchReport]:
        """Watches it while the context lasts; yields what it has done, kept up to date."""
        reports: list[WatchReport] = [WatchReport()]
        started = asyncio.Event()

        def note(report: WatchReport) -> None:
            reports[0] = report
            started.set()

        watch = watch_directories(self._service(), self._store(store), [self.base], slow_look_s, note)
        task = asyncio.create_task(watch)
        try:
            await started.wait()
            yield reports[0]
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _service(self) -> ServiceContext:
        return ServiceContext.on(self.log, self.sandbox.topics, "summary-indexer", "watcher")

    def _store(self, name: str = "store") -> StoreSettings:
        return StoreSettings(store=str(self.folder / name))

    async def command(self, path: str, command: Command) -> str:
        """Publishes a command about a job, and returns the id of that."""
        job = job_id_of(str(self.base), path)
        await publish_command(self.log, self.sandbox, job, command)
        return job

    async def metrics(self) -> dict[Series, list[int]]:
        """Returns the steps of each series in the log, in the order of the log."""
        paths = {}
        for each in await self.records(self.sandbox.topics.events):
            if isinstance(each.message, SummaryJobFound):
                paths[each.envelope.stream] = each.message.job.path
        found: dict[Series, list[int]] = defaultdict(list)
        for each in await self.records(self.sandbox.topics.metrics):
            if isinstance(each.message, MetricPointsReported):
                for series in each.message.series:
                    key = (paths[each.message.task_id], each.message.attempt, series.tag)
                    found[key] += series.steps
        return dict(found)

    async def items(self) -> list[ReportedItem]:
        found = [each.message for each in await self.records(self.sandbox.topics.metrics)]
        return [item for each in found if isinstance(each, SummaryItemsReported) for item in each.items]

    async def events(self) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for each in await self.records(self.sandbox.topics.events):
            match each.message:
                case SummaryFileQuarantined() as event:
                    found.append(("SummaryFileQuarantined", event.file, event.offset, event.code))
                case SummaryJobVanished() | SummaryJobDeleted() | SummaryJobRestored():
                    found.append((type(each.message).__name__, each.envelope.stream))
        return found

    async def letters(self) -> list[tuple[str, str]]:
        found = [each.message for each in await self.records(self.sandbox.topics.dead_letters)]
        return [(each.code, each.message) for each in found if isinstance(each, RecordDeadLettered)]

    async def ends(self) -> dict[str, int]:
        """Returns how far the log has each file, by its name; those of all jobs have different names."""
        return {
            each.message.file: each.message.end
            for each in await self.records(self.sandbox.topics.events)
            if isinstance(each.message, SummaryFileIndexed)
        }

    async def until_has(self, paths: Iterable[Path]) -> None:
        sizes = {path.name: path.stat().st_size for path in paths}

        async def holds() -> bool:
            return sizes.items() <= (await self.ends()).items()

        await poll_until(holds)

    async def until_event(self, name: str, count: int = 1) -> None:
        """Waits until the log has events of jobs or files with this name."""

        async def holds() -> bool:
            return [event[0] for event in await self.events()].count(name) >= count

        await poll_until(holds)

    async def records(self, topic: Topic) -> Sequence[Record]:
        ends = {(topic.name, partition): end for partition, end in (await self.log.ends(topic.name)).items()}
        starts = {place: self._starts.get(place, 0) for place in ends}
        reader = self.log.reader(starts)
        found: list[Record] = []
        try:
            while len(found) < sum(ends.values()) - sum(starts.values()):
                found += [record for entry in await reader.read(1.0) if (record := decode(entry)) is not None]
        finally:
            await reader.close()
        return found


async def publish_command(log: KafkaLog, sandbox: Sandbox, job_id: str, command: Command) -> None:
    topic = sandbox.topics.commands
    record = RecordWriter("publisher", "test").single(job_id, command)
    await log.publish(topic.name, partition_of(job_id, topic.partitions), record)


async def until_read(report: WatchReport, points: int) -> None:
    await until(lambda: report.points >= points)


async def until_problem(report: WatchReport, path: str, code: str) -> None:
    await until(lambda: any((job, found) == (path, code) for (job, _), found in report.problems.items()))


async def until(holds: Callable[[], bool]) -> None:

    async def held() -> bool:
        return holds()

    await poll_until(held)


@contextmanager
def frozen_clock() -> Iterator[None]:
    """Keeps the wall clock of what is started in this context as it is: no pause is ever over."""
    now = now_ms()
    clock = SimpleNamespace(now_ms=lambda: now, monotonic_s=time.monotonic)
    token = CLOCK.set(clock)
    try:
        yield
    finally:
        CLOCK.reset(token)
