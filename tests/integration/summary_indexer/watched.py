"""Directories of event files that are read into the log by this process, and what the log then has."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace

from tests.integration.summary_indexer.harness import Sandbox
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
from trackside.contracts.commands import RecordDeadLettered
from trackside.contracts.message import Command, Record
from trackside.contracts.summaries import MetricPointsReported, ReportedItem, SummaryItemsReported
from trackside.contracts.topics import Topic, partition_of
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.service import Dispatcher
from trackside.domain.streams import Streams
from trackside.eventlog.clock import CLOCK, now_ms
from trackside.eventlog.decode import decode
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.reactor import Reactor
from trackside.eventlog.record_writer import RecordWriter
from trackside.eventlog.service_context import ServiceContext
from trackside.eventlog.serving import from_start
from trackside.summaries.event_files.writing import first_record, record
from trackside.summary_indexer.watching.report import WatchReport
from trackside.summary_indexer.watching.watched_directories import import_directory, watch_directories

Series = tuple[str, int, str]
"""The path of a job, the number of a session, a tag."""


def watcher_service(log: KafkaLog, sandbox: Sandbox) -> ServiceContext:
    """Returns a service that may write what a watcher writes."""
    return ServiceContext.on(log, sandbox.topics, "summary-indexer", "watcher")


def store_of(sandbox: Sandbox) -> StoreSettings:
    """Returns the settings of a store of this test's own."""
    (sandbox.folder / "store").mkdir(exist_ok=True)
    return StoreSettings(store=str(sandbox.folder / "store"))


@asynccontextmanager
async def dispatching(log: KafkaLog, sandbox: Sandbox) -> AsyncIterator[None]:
    """Has a dispatcher in this process answer commands while the context lasts; it needs no tuner."""
    topics = sandbox.topics
    await log.ensure([topics.events, topics.commands, topics.fleet])
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


async def read_in(log: KafkaLog, sandbox: Sandbox, base: Path) -> WatchReport:
    """Imports a directory."""
    return await import_directory(watcher_service(log, sandbox), store_of(sandbox), base)


@asynccontextmanager
async def watching(
    log: KafkaLog, sandbox: Sandbox, base: Path, slow_look_s: float, store: str = "store"
) -> AsyncIterator[WatchReport]:
    """Watches a directory while the context lasts; yields what it has done, kept up to date."""
    reports: list[WatchReport] = [WatchReport()]
    started = asyncio.Event()

    def note(report: WatchReport) -> None:
        reports[0] = report
        started.set()

    service = watcher_service(log, sandbox)
    settings = store_of(sandbox) if store == "store" else StoreSettings(store=str(sandbox.folder / store))
    task = asyncio.create_task(watch_directories(service, settings, [base], slow_look_s, note))
    try:
        await started.wait()
        yield reports[0]
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def begin_file(folder: Path, number: int = 1, time_ms: int = 1_000) -> Path:
    """Writes an event file that has nothing but its first record, over one that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    path = event_file(folder, number)
    path.write_bytes(first_record(time_ms))
    return path


def event_file(folder: Path, number: int = 1) -> Path:
    """Returns where an event file of a folder is."""
    return folder / f"events.out.tfevents.{number}.host"


def points(path: Path, first: int, count: int, tag: str = "loss") -> None:
    """Appends points to an event file: steps from `first` on."""
    with path.open("ab") as file:
        file.write(b"".join(record(tag, step, step, step / 2) for step in range(first, first + count)))


async def metrics_of(log: KafkaLog, sandbox: Sandbox) -> dict[Series, list[int]]:
    """Returns the steps of each series in the log, in the order of the log."""
    paths = {}
    for each in await records(log, sandbox.topics.events):
        if isinstance(each.message, SummaryJobFound):
            paths[each.envelope.stream] = each.message.job.path
    found: dict[Series, list[int]] = defaultdict(list)
    for each in await records(log, sandbox.topics.metrics):
        assert isinstance(each.message, MetricPointsReported)
        for series in each.message.series:
            key = (paths[each.message.task_id], each.message.attempt, series.tag)
            found[key] += series.steps
    return dict(found)


async def items_of(log: KafkaLog, sandbox: Sandbox) -> list[ReportedItem]:
    """Returns the values in the log that are no numbers."""
    found = [each.message for each in await records(log, sandbox.topics.metrics)]
    return [item for each in found if isinstance(each, SummaryItemsReported) for item in each.items]


async def summary_events(log: KafkaLog, sandbox: Sandbox) -> list[tuple[object, ...]]:
    """Returns the events of files and jobs in short."""
    found: list[tuple[object, ...]] = []
    for each in await records(log, sandbox.topics.events):
        match each.message:
            case SummaryFileQuarantined() as event:
                found.append(("SummaryFileQuarantined", event.file, event.offset, event.code))
            case SummaryJobVanished() | SummaryJobDeleted() | SummaryJobRestored():
                found.append((type(each.message).__name__, each.envelope.stream))
    return found


async def letters_of(log: KafkaLog, sandbox: Sandbox) -> list[tuple[str, str]]:
    """Returns code and message of the dead letters."""
    found = [each.message for each in await records(log, sandbox.topics.dead_letters)]
    return [(each.code, each.message) for each in found if isinstance(each, RecordDeadLettered)]


async def ends_of(log: KafkaLog, sandbox: Sandbox) -> dict[str, int]:
    """Returns how far the log has each file, by its name; those of all jobs have different names."""
    return {
        each.message.file: each.message.end
        for each in await records(log, sandbox.topics.events)
        if isinstance(each.message, SummaryFileIndexed)
    }


async def records(log: KafkaLog, topic: Topic) -> Sequence[Record]:
    """Returns everything that a topic has."""
    ends = await log.ends(topic.name)
    reader = log.reader({(topic.name, partition): 0 for partition in ends})
    found: list[Record] = []
    try:
        while len(found) < sum(ends.values()):
            found += [record for entry in await reader.read(1.0) if (record := decode(entry)) is not None]
    finally:
        await reader.close()
    return found


async def publish_command(log: KafkaLog, sandbox: Sandbox, job_id: str, command: Command) -> None:
    """Publishes a command about a job."""
    topic = sandbox.topics.commands
    record = RecordWriter("publisher", "test").single(job_id, command)
    await log.publish(topic.name, partition_of(job_id, topic.partitions), record)


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


def has_event(log: KafkaLog, sandbox: Sandbox, name: str) -> Callable[[], Awaitable[bool]]:
    """Returns the condition that the log has an event of a job."""

    async def holds() -> bool:
        return any(event[0] == name for event in await summary_events(log, sandbox))

    return holds


def has(report: WatchReport, count: int) -> Callable[[], Awaitable[bool]]:
    """Returns the condition that so many points were read."""

    async def holds() -> bool:
        return report.points >= count

    return holds


def has_problem(report: WatchReport, path: str, code: str) -> Callable[[], Awaitable[bool]]:
    """Returns the condition that a file of a job has a problem."""

    async def holds() -> bool:
        return any(job == path and found == code for (job, _), found in report.problems.items())

    return holds
