"""Imports and watches directories of event files, for the service and for the command line."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path

from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.contracts.envelope.message import Event
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.sdk.connection.signing import Signer
from trackside.summaries.directories import printable_path
from trackside.summaries.kinds.registry import KINDS
from trackside.summary_indexer.watching.directory_scans import DirectoryScanner
from trackside.summary_indexer.watching.file_reader import FileReader
from trackside.summary_indexer.watching.log_positions import SummaryStreams
from trackside.summary_indexer.watching.packing import ItemPacker
from trackside.summary_indexer.watching.publishing import PointsPublisher
from trackside.summary_indexer.watching.report import WatchReport
from trackside.summary_indexer.watching.tag_limits import IndexedTags, TagLimits
from trackside.summary_indexer.watching.watcher import DirectoryWatcher

SLOW_LOOK_S = 30.0
"""How often a directory is searched for what the file system did not report, in seconds."""
PROGRESS_S = 0.5
"""How often progress is reported."""

OnProgress = Callable[[WatchReport], None]


async def import_directory(
    service: ServiceContext,
    store: StoreSettings,
    directory: Path,
    on_progress: OnProgress | None = None,
    signer: Signer | None = None,
    indexed: IndexedTags | None = None,
) -> WatchReport:
    """Reads what a directory holds now into the log; returns what was read, and the files that have problems.

    Reading continues where the log ends, so an import that was killed can be repeated, and one that is
    repeated adds only what is new. `signer` signs the commands that begin jobs. Tags that `indexed` has count
    towards the limit of their job. Raises NotADirectoryError, PreflightError.
    """
    if not await asyncio.to_thread(directory.is_dir):
        raise NotADirectoryError(f"{directory} is not a directory")
    with _first_error():
        async with _watchers(service, store, [directory], signer, indexed) as watchers:
            ((watcher, report),) = watchers
            async with _progress(report, on_progress):
                await watcher.scan_all()
    return report


async def watch_directories(
    service: ServiceContext,
    store: StoreSettings,
    directories: Sequence[Path],
    slow_look_s: float = SLOW_LOOK_S,
    on_progress: OnProgress | None = None,
    signer: Signer | None = None,
    indexed: IndexedTags | None = None,
) -> None:
    """Reads what directories hold and will hold into the log, until it is cancelled.

    A directory that does not exist yet is read when it does. Raises PreflightError.
    """
    with _first_error():
        async with (
            _watchers(service, store, directories, signer, indexed) as watchers,
            asyncio.TaskGroup() as tasks,
        ):
            for watcher, report in watchers:
                tasks.create_task(_watch(watcher, report, slow_look_s, on_progress))


async def _watch(
    watcher: DirectoryWatcher, report: WatchReport, slow_look_s: float, on_progress: OnProgress | None
) -> None:
    async with _progress(report, on_progress):
        await watcher.run(slow_look_s)


@asynccontextmanager
async def _progress(report: WatchReport, on_progress: OnProgress | None) -> AsyncIterator[None]:
    """Reports progress while the context lasts, and once at its end."""
    if on_progress is None:
        yield
        return

    async def repeat() -> None:
        while True:
            await asyncio.sleep(PROGRESS_S)
            on_progress(report)

    task = asyncio.create_task(repeat())
    try:
        yield
    finally:
        task.cancel()
        on_progress(report)


@asynccontextmanager
async def _watchers(
    service: ServiceContext,
    store: StoreSettings,
    directories: Sequence[Path],
    signer: Signer | None,
    indexed: IndexedTags | None,
) -> AsyncIterator[list[tuple[DirectoryWatcher, WatchReport]]]:
    """Yields a watcher of each directory once the log is folded; ends their threads."""
    bases = {printable_path(str(each.resolve())): str(each.resolve()) for each in directories}
    streams = SummaryStreams(service, bases, signer)
    publisher = PointsPublisher(service)
    scanners: dict[str, DirectoryScanner] = {}

    @cache
    def opened() -> Store:
        return open_store(store)

    for shown, base in bases.items():
        reader = FileReader(ItemPacker(KINDS, opened))
        scanners[shown] = DirectoryScanner(
            base, streams, publisher, reader, WatchReport(), TagLimits(indexed)
        )
    watchers = {shown: DirectoryWatcher(scanner) for shown, scanner in scanners.items()}

    def receive(base: str, job_id: str, event: Event) -> None:
        watchers[base].receive(job_id, event)

    try:
        async with asyncio.TaskGroup() as tasks:
            folding = tasks.create_task(streams.run())
            await streams.catch_up()
            streams.on_event = receive
            yield [(watcher, scanners[shown].report) for shown, watcher in watchers.items()]
            folding.cancel()
    finally:
        for scanner in scanners.values():
            scanner.close()
        if indexed is not None:
            indexed.close()


@contextmanager
def _first_error() -> Iterator[None]:
    """Raises the first error of a group of tasks instead of the group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from group
