"""Takes over placements that have outlived an earlier worker, before this one joins."""

import asyncio
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

import structlog

from trackside.eventlog.log import Appended
from trackside.worker.attempts.forkservers.forkserver_connection import TaskProcess
from trackside.worker.attempts.spec import AttemptContext
from trackside.worker.placements.controller import PlacementController
from trackside.worker.placements.ledger import Allocation, Stage
from trackside.worker.placements.local_placement import Adopted, LocalPlacement, claim_of
from trackside.worker.placements.placement_record import PlacementRecord, read_record
from trackside.worker.reporting.journal import JournalEntry
from trackside.worker.reporting.outbox import AppendedAt
from trackside.worker.reporting.reporter import Publisher, Reporter

log = structlog.get_logger("trackside.worker")


@dataclass(frozen=True, slots=True)
class Survivor:
    """A placement whose process is there, and all that is needed to take it over."""

    entry: JournalEntry
    record: PlacementRecord
    adopted: Adopted


async def survivors_of(
    context: AttemptContext, processes: Mapping[str, TaskProcess], devices: Collection[str]
) -> list[Survivor]:
    """Returns the placements in the journal that have outlived an earlier worker; kills all other processes.

    `devices` are those of this worker: it may have fewer than the earlier one.
    """
    found = await asyncio.to_thread(_read, context, processes, set(devices)) if processes else []
    kept = {survivor.entry.key for survivor in found}
    for key, process in processes.items():
        if key not in kept:
            log.warning("the process of an earlier worker can't be taken over: it ends", pid=process.pid)
            process.kill(signal.SIGKILL)
            process.close()
    return found


def _read(context: AttemptContext, processes: Mapping[str, TaskProcess], devices: set[str]) -> list[Survivor]:
    found = []
    for entry in context.journal.entries_without_end():
        process = processes.get(entry.key)
        if process is None or not devices.issuperset(entry.device_ids):
            continue
        record, progress = read_record(context.journal, entry), context.journal.progress(entry)
        if record is not None and progress is not None:
            trains = context.locks.are_held_by(process.pid, entry.device_ids)
            found.append(Survivor(entry, record, Adopted(process, progress, trains)))
    return found


async def adopt(
    survivors: list[Survivor],
    incarnation: str,
    placements: PlacementController,
    context: AttemptContext,
    publisher: Publisher,
) -> list[AppendedAt]:
    """Takes placements over; returns where the log has the events about that.

    They are followed from `placements.follow_adopted` on: the join comes first, as the lease ends soon.
    """
    adopted = [(_adopted_by(survivor.entry, incarnation), survivor) for survivor in survivors]
    # Before the events: whoever takes over after this worker has to name each that may have written one.
    await asyncio.to_thread(_write, context, [entry for entry, _ in adopted])
    appended = []
    for entry, survivor in adopted:
        in_log: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        event, partition = Reporter(publisher, entry).adopted(partial(_set_result, in_log))
        placements.adopt(_placement(entry, survivor, publisher), event)
        appended.append((partition, in_log))
        pid = survivor.adopted.process.pid
        log.info("adopted a task", task=entry.task_id, attempt=entry.attempt, pid=pid)
    return [(partition, await in_log) for partition, in_log in appended]


def _adopted_by(entry: JournalEntry, incarnation: str) -> JournalEntry:
    return replace(entry, adopters=(*entry.adopters, incarnation))


def _write(context: AttemptContext, entries: list[JournalEntry]) -> None:
    for entry in entries:
        context.journal.write(entry)


def _placement(entry: JournalEntry, survivor: Survivor, publisher: Publisher) -> LocalPlacement:
    command = survivor.record.command
    claim = claim_of(command, command.reserved)
    return LocalPlacement(
        entry=entry,
        key=entry.key,
        command=command,
        task_type=survivor.record.task_type,
        allocation=Allocation(command.task_id, claim, Stage.STARTING),
        reporter=Reporter(publisher, entry),
        decision=asyncio.get_running_loop().create_future(),
        reserved=command.reserved,
        interrupts=command.interrupted,
        adopted=survivor.adopted,
    )


def _set_result(in_log: asyncio.Future[Appended], appended: Appended) -> None:
    if not in_log.done():
        in_log.set_result(appended)
