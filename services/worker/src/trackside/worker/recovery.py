"""What an earlier incarnation owes the log: the end of each placement in the journal."""

import asyncio
from functools import partial
from itertools import chain

import structlog

from trackside.eventlog.log import Appended
from trackside.worker.attempts.device_locks import Locks
from trackside.worker.attempts.outcome import recovered
from trackside.worker.child.orphans import NAMED, end_marked
from trackside.worker.reporting.journal import Journal, Placement
from trackside.worker.reporting.reporter import Reporter, Voice

log = structlog.get_logger("trackside.worker")


async def settle_debts(journal: Journal, locks: Locks, voice: Voice, keep_workdirs: bool) -> dict[str, int]:
    """Appends the ends that are owed, once the processes are gone; gives partition to offset behind them.

    A placement whose process left an ending gets that one, with all its deciding values again (a repeated
    event counts once); any other is lost. One that was held for its device is returned first, which counts
    only if it had not begun. What its process has left is killed and named.
    """
    owed = journal.owed()
    left = await asyncio.to_thread(_end_leftovers, journal, locks, owed)
    devices = {device_id for entry in owed for device_id in entry.device_ids}
    await asyncio.gather(*(locks.free(device_id) for device_id in devices))
    after: dict[str, int] = {}
    heard = [_end(journal, voice, placement, left[placement.key]) for placement in owed]
    for placement, (partition, place) in zip(owed, heard, strict=True):
        offset = (await place).offset + 1
        after[str(partition)] = max(offset, after.get(str(partition), 0))
        await journal.forget(placement, keep_workdirs)
    await asyncio.to_thread(journal.clear_leftovers)
    return after


def _end_leftovers(journal: Journal, locks: Locks, owed: list[Placement]) -> dict[str, list[str]]:
    """Gives by placement what was left of it and is killed now."""
    workdirs = {placement.key: str(journal.workdir(placement)) for placement in owed}
    paths = {
        placement.key: [str(locks.path(device_id).resolve()) for device_id in placement.device_ids]
        for placement in owed
    }
    names = end_marked(list(workdirs.values()), [*chain.from_iterable(paths.values())]) if owed else {}
    return {
        placement.key: [
            name
            for place in (workdirs[placement.key], *paths[placement.key])
            for name in names.pop(place, [])
        ]
        for placement in owed
    }


def _end(
    journal: Journal, voice: Voice, placement: Placement, left: list[str]
) -> tuple[int, asyncio.Future[Appended]]:
    place: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
    written = journal.ending(placement)
    reporter = Reporter(voice, placement)
    if placement.held and written is None:
        reporter.returned()
    else:
        reporter.accepted()
    if written is not None:
        reporter.begin_anew(written.get("interrupts", 0))
        if requests := written.get("requests", 0):
            reporter.taken(requests)
            reporter.answered(requests, goes_on=True)
        reporter.reports([(step, value, time_ms) for step, value, time_ms in written.get("reports", [])])
        if written.get("final") is not None:
            reporter.final(written["final"])
    ending = recovered(written)
    ending["leftovers"] = [*ending.get("leftovers", []), *left][:NAMED]
    event, partition = reporter.ended(ending, partial(_settle, place))
    log.info("recovered an attempt", task=placement.task_id, attempt=placement.attempt, end=event.end.value)
    return partition, place


def _settle(place: asyncio.Future[Appended], appended: Appended) -> None:
    if not place.done():
        place.set_result(appended)
