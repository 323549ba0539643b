"""Recovery after a crash: reports the end of each placement that is still in the journal."""

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import chain

import structlog

from trackside.contracts.tasks.artifacts import CHECKPOINT, CheckpointReference
from trackside.eventlog.log import Appended
from trackside.worker.artifacts.uploads import Uploads
from trackside.worker.attempts.device_locks import DeviceLocks
from trackside.worker.attempts.outcome import recovered_ending
from trackside.worker.attempts.spec import AttemptContext
from trackside.worker.child.process.orphans import MAX_NAMED, kill_marked
from trackside.worker.messages.process_messages import AttemptEnding
from trackside.worker.messages.report_messages import ArtifactReady
from trackside.worker.reporting.attempt_spans import AttemptSpans
from trackside.worker.reporting.journal import Journal, JournalEntry
from trackside.worker.reporting.outbox import AppendedAt
from trackside.worker.reporting.reporter import Publisher, Reporter
from trackside.worker.settings import WorkerSettings

log = structlog.get_logger("trackside.worker")


async def report_missing_ends(
    context: AttemptContext,
    publisher: Publisher,
    settings: WorkerSettings,
    incarnation: str,
    survivors: Collection[JournalEntry],
) -> list[AppendedAt]:
    """Reports missing ends once the processes are gone; returns where the log has them.

    The placements that are `survivors` run on, and are spared with their devices. One that an earlier
    incarnation has adopted is adopted by this `incarnation` first, as the log may not have that.

    A placement whose process wrote an ending gets that end, and all its deciding values again (readers ignore
    repeated events); any other is lost, and what it reported before its last checkpoint is reported again. A
    placement that was held for its device is returned first, which has an effect only if it had not begun.
    Processes that are left of it are killed and listed. What it saved is uploaded before its end, for which
    the store has `recovery_timeout_s`.
    """
    journal, locks = context.journal, context.locks
    spared = {entry.key for entry in survivors}
    in_use = {device_id for entry in survivors for device_id in entry.device_ids}
    entries = [entry for entry in journal.entries_without_end() if entry.key not in spared]
    leftovers = await asyncio.to_thread(_kill_leftovers, journal, locks, entries, in_use)
    devices = {device_id for entry in entries for device_id in entry.device_ids} - in_use
    await asyncio.gather(*(locks.wait_until_free(device_id) for device_id in devices))
    appended: list[AppendedAt] = []
    limit_s = settings.recovery_timeout_s
    owned = [_owned(journal, entry, incarnation) for entry in entries]
    ends = [_end(context, publisher, entry, leftovers[entry.key], limit_s) for entry in owned]
    for entry, (partition, appended_at) in zip(entries, await asyncio.gather(*ends), strict=True):
        appended.append((partition, await appended_at))
        await journal.remove(entry, settings.keep_workdirs)
    await asyncio.to_thread(journal.clear_leftovers)
    return appended


def _owned(journal: Journal, entry: JournalEntry, incarnation: str) -> JournalEntry:
    """Returns an entry as this incarnation has it: one that was adopted before is adopted again."""
    if not entry.adopters:
        return entry
    adopted = replace(entry, adopters=(*entry.adopters, incarnation))
    with contextlib.suppress(OSError):  # it ends now, and the log will have it
        journal.write(adopted)
    return adopted


def _kill_leftovers(
    journal: Journal, locks: DeviceLocks, entries: list[JournalEntry], in_use: Collection[str]
) -> dict[str, list[str]]:
    """Kills the processes that are left of placements; returns their names by placement.

    Those on devices that are `in_use` are known by their working directory only.
    """
    workdirs = {entry.key: str(journal.workdir(entry)) for entry in entries}
    paths = {
        entry.key: [str(locks.path(each).resolve()) for each in entry.device_ids if each not in in_use]
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
    accepted_ns = context.journal.accepted_ns(entry)
    reporter = Reporter(
        publisher, entry, AttemptSpans(entry, publisher.writer.instance, began_ns=accepted_ns)
    )
    if entry.adopters:
        reporter.adopted(lambda _: None)
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
    ending["recovered"] = not entry.adopters  # else it is the end of a placement of this incarnation
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
