"""Recovery after a crash: reports the end of each placement that is still in the journal."""

import asyncio
from functools import partial
from itertools import chain

import structlog

from trackside.contracts.artifacts import CHECKPOINT, CheckpointReference
from trackside.eventlog.log import Appended
from trackside.telemetry.context import now_ns
from trackside.worker.artifacts.uploads import Uploads
from trackside.worker.attempts.device_locks import DeviceLocks
from trackside.worker.attempts.outcome import recovered_ending
from trackside.worker.attempts.spec import AttemptContext
from trackside.worker.child.orphans import MAX_NAMED, kill_marked
from trackside.worker.process_messages import AttemptEnding
from trackside.worker.report_messages import ArtifactReady
from trackside.worker.reporting.attempt_spans import AttemptSpans
from trackside.worker.reporting.journal import Journal, JournalEntry
from trackside.worker.reporting.reporter import Publisher, Reporter

log = structlog.get_logger("trackside.worker")


async def report_missing_ends(
    context: AttemptContext, publisher: Publisher, keep_workdirs: bool, upload_timeout_s: float
) -> dict[str, int]:
    """Reports missing ends once the processes are gone; returns the offset after the last one by partition.

    A placement whose process wrote an ending gets that end, and all its deciding values again (readers ignore
    repeated events); any other is lost, and what it reported before its last checkpoint is reported again. A
    placement that was held for its device is returned first, which has an effect only if it had not begun.
    Processes that are left of it are killed and listed. What it saved is uploaded before its end, for which
    the store has `upload_timeout_s`.
    """
    journal, locks = context.journal, context.locks
    entries = journal.entries_without_end()
    leftovers = await asyncio.to_thread(_kill_leftovers, journal, locks, entries)
    devices = {device_id for entry in entries for device_id in entry.device_ids}
    await asyncio.gather(*(locks.wait_until_free(device_id) for device_id in devices))
    after: dict[str, int] = {}
    ends = [_end(context, publisher, entry, leftovers[entry.key], upload_timeout_s) for entry in entries]
    for entry, (partition, appended_at) in zip(entries, await asyncio.gather(*ends), strict=True):
        offset = (await appended_at).offset + 1
        after[str(partition)] = max(offset, after.get(str(partition), 0))
        await journal.remove(entry, keep_workdirs)
    await asyncio.to_thread(journal.clear_leftovers)
    return after


def _kill_leftovers(
    journal: Journal, locks: DeviceLocks, entries: list[JournalEntry]
) -> dict[str, list[str]]:
    """Kills the processes that are left of placements; returns their names by placement."""
    workdirs = {entry.key: str(journal.workdir(entry)) for entry in entries}
    paths = {
        entry.key: [str(locks.path(device_id).resolve()) for device_id in entry.device_ids]
        for entry in entries
    }
    names = kill_marked(list(workdirs.values()), [*chain.from_iterable(paths.values())]) if entries else {}
    return {
        entry.key: [name for mark in (workdirs[entry.key], *paths[entry.key]) for name in names.pop(mark, [])]
        for entry in entries
    }


async def _end(
    context: AttemptContext,
    publisher: Publisher,
    entry: JournalEntry,
    leftovers: list[str],
    upload_timeout_s: float,
) -> tuple[int, asyncio.Future[Appended]]:
    appended_at: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
    written = context.journal.ending(entry)
    accepted_ns = context.journal.accepted_ns(entry) or now_ns()
    reporter = Reporter(
        publisher, entry, AttemptSpans(entry, publisher.writer.instance, began_ns=accepted_ns)
    )
    if entry.held and written is None:
        reporter.returned()
    else:
        reporter.accepted()
    uploads = Uploads(context.store, context.journal.spool(entry), reporter)
    if written is not None:
        _report(reporter, written)
        if written.final is not None:
            reporter.final(written.final)
    else:
        for saved in await uploads.records():
            if saved.kind == CHECKPOINT:
                _report(reporter, saved)
    ending = await uploads.finish(recovered_ending(written), upload_timeout_s)
    ending["leftovers"] = [*ending.get("leftovers", []), *leftovers][:MAX_NAMED]
    event, partition = reporter.ended(ending, partial(_set_result, appended_at))
    log.info("recovered an attempt", task=entry.task_id, attempt=entry.attempt, end=event.end.value)
    return partition, appended_at


def _report(reporter: Reporter, known: AttemptEnding | ArtifactReady) -> None:
    """Reports what the log may lack of a training: all of it, or what came before a checkpoint.

    Without these reports a training that continues from that checkpoint would never make them again.
    """
    reporter.restart_steps(known.interrupts)
    if known.requests:
        reporter.parameters_taken(known.requests)
        reporter.count_requests(known.requests, goes_on=True)
    if known.resumed is not None:
        reporter.resumed(CheckpointReference.model_validate(known.resumed))
    reporter.reports(known.reports)


def _set_result(appended_at: asyncio.Future[Appended], appended: Appended) -> None:
    if not appended_at.done():
        appended_at.set_result(appended)
