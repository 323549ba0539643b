"""The commands `summaries import` and `summaries watch`: event files of directories, read into the log."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from trackside.artifacts.settings import StoreSettings
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime.addresses import STORE, Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed, FailureReported
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.topics import Topics
from trackside.domain.display.text import Column, counted
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.projections.database.positions import read_positions
from trackside.projections.database.postgres import PostgresGoneError, SchemaMissingError, database
from trackside.projections.tables.owners import SUMMARY_INDEXER
from trackside.sdk.connection.signing import Signer, read_signer
from trackside.summaries.directories import printable_path
from trackside.summary_indexer.watching.report import WatchReport
from trackside.summary_indexer.watching.tag_limits import IndexedTags
from trackside.summary_indexer.watching.watched_directories import import_directory as read_directory
from trackside.summary_indexer.watching.watched_directories import watch_directories

SHOWN = 50
INDEXED_WITHIN_S, ASK_EVERY_S = 2.0, 0.1
"""How long the end of an import waits for the index before it says that it is behind."""
COLUMNS = (Column("job"), Column("file"), Column("problem"))


def import_directory(directory: Path, key: Path | None, as_json: bool) -> None:
    """Reads a directory into the log; raises CommandFailed if a file has a problem."""
    report, behind = run(_import(directory, _signer(key), _indexed()))
    problems = [
        {"job": printable_path(path), "file": name, "problem": code}
        for (path, name), code in sorted(report.problems.items())
    ]
    if as_json:
        screen.emit({**_counts(report), "records_behind": behind, "problems": problems})
    else:
        screen.say(_line(report))
        if behind:
            screen.say(
                f"the log has it all; {counted(behind, 'record')} are not indexed yet: indexing continues, "
                "and `trackside status` shows how late the summary-indexer is"
            )
        if problems:
            screen.show_table(COLUMNS, [list(problem.values()) for problem in problems[:SHOWN]])
    if any(problem["problem"] != "file_vanished" for problem in problems):  # what is gone is no damage
        raise FailureReported


def watch(directories: list[Path], look_s: float, key: Path | None) -> None:
    """Reads directories into the log as they grow, until it is interrupted."""
    run(_watch(directories, look_s, _signer(key), _indexed()))


async def _import(
    directory: Path, signer: Signer | None, indexed: IndexedTags | None
) -> tuple[WatchReport, int | None]:
    """Returns what was read, and how many records of metrics are not indexed; None if that is not known."""
    async with _service() as service:
        try:
            with late_progress("importing") as progress:
                report = await read_directory(
                    service,
                    _store(),
                    directory,
                    lambda report: progress(report.scanned, report.found),
                    signer,
                    indexed,
                )
        except NotADirectoryError as error:
            raise BadUsage(f"{error}: name a directory with event files in it or below it") from error
        return report, await _records_behind(service)


async def _records_behind(service: ServiceContext) -> int | None:
    """Returns how many records of metrics are not indexed after a moment in which a few would have been."""
    topic = service.topics.metrics.name
    ends = await service.log.ends(topic)
    until_s = monotonic_s() + INDEXED_WITHIN_S
    try:
        async with database(Addresses().dsn) as opened:
            while True:
                found = await opened.transaction(lambda each: read_positions(each, SUMMARY_INDEXER))
                behind = sum(max(0, end - found.get((topic, at), 0)) for at, end in ends.items())
                if not behind or monotonic_s() > until_s:
                    return behind
                await asyncio.sleep(ASK_EVERY_S)
    except (CommandFailed, PostgresGoneError, SchemaMissingError):
        return None


async def _watch(
    directories: list[Path], look_s: float, signer: Signer | None, indexed: IndexedTags | None
) -> None:
    said = ""

    def show(report: WatchReport) -> None:
        nonlocal said
        if (line := _line(report, is_growing=True)) != said:
            said = line
            screen.say(line)

    async with _service() as service:
        await watch_directories(service, _store(), directories, look_s, show, signer, indexed)


@asynccontextmanager
async def _service() -> AsyncIterator[ServiceContext]:
    """Yields a service that may write what a summary-indexer writes; fails if Kafka does not answer."""
    addresses = Addresses()
    topics = Topics(prefix=addresses.prefix)
    async with KafkaLog(
        addresses.kafka_as(SUMMARY_INDEXER), client_id="trackside-cli", keys=addresses.keys
    ) as log:
        for topic in (topics.events, topics.metrics, topics.commands):
            await log.ends(topic.name)
        instance = f"{socket.gethostname()}-{os.getpid()}"
        yield ServiceContext.on(log, topics, "summary-indexer", instance)


def _store() -> StoreSettings:
    """Returns where images go: to the store of the stack that was found, unless the environment names one."""
    if os.environ.get(STORE):
        return StoreSettings()
    try:
        return StoreSettings(store=Addresses().store)
    except CommandFailed:
        return StoreSettings()


def _indexed() -> IndexedTags | None:
    """Returns the tags that jobs have in Postgres; without Postgres, only those that are read now count.

    Called before the event loop runs: whether Postgres answers matters for few jobs, if any, and is not said.
    """
    try:
        return IndexedTags(Addresses().dsn)
    except CommandFailed:
        return None


def _signer(key: Path | None) -> Signer | None:
    return None if key is None else read_signer(key)


def _counts(report: WatchReport) -> dict[str, int]:
    return {
        "new_jobs": report.jobs,
        "files_read": report.files,
        "bytes": report.bytes,
        "points": report.points,
        "items": report.items,
        "left_out": report.left_out,
        "deleted_jobs": len(report.deleted),
    }


def _line(report: WatchReport, is_growing: bool = False) -> str:
    """Returns what was read; without the number of readings where files grow and are read many times."""
    counts = (
        counted(report.jobs, "new job"),
        "" if is_growing else f"{counted(report.files, 'file')} read",
        counted(report.points, "point"),
        counted(report.items, "other value"),
    )
    text = ", ".join(filter(None, counts))
    if report.left_out:
        text += f"; {counted(report.left_out, 'value')} left out, see `trackside dead-letters`"
    if report.deleted:
        text += f"; {counted(len(report.deleted), 'deleted job')} skipped"
    return f"{text}; {len(report.problems):,} with problems" if report.problems else text
