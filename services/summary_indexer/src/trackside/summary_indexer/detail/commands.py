"""Loads the jobs of accepted CacheTrainJob commands, which are seen in the log of events."""

import asyncio
from collections import OrderedDict
from functools import partial

import structlog

from trackside.aggregates.registry import CODEC
from trackside.aggregates.summary.messages import CacheTrainJob
from trackside.contracts.envelope.topics import Topic
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived
from trackside.contracts.wire.codec import UndecodableError, command_of
from trackside.eventlog.log import Entry, Log
from trackside.eventlog.retry import retry_until_reachable
from trackside.projections.database.postgres import Connection, sql
from trackside.summary_indexer.detail.loads import CurveReads

log = structlog.get_logger("trackside.summary_indexer")

MAX_WAITING = 10_000
"""How many received commands are remembered until they are accepted or refused."""
READ_S = 1.0
GATHER_S = 4.0
"""How long the broker may hold events back, in s: such a command is rare, and loading can begin later."""
_WIRE_TYPES = {kind.wire_type().encode() for kind in (CommandReceived, CommandAccepted)}


class CacheCommands:
    """Finds in the log which jobs are to be loaded."""

    def __init__(self) -> None:
        self._received: OrderedDict[str, str] = OrderedDict()

    def job_to_load(self, entry: Entry) -> str | None:
        """Returns the task or stream of a job if the record says that a command to load it was accepted."""
        envelope = CODEC.envelope(entry.headers)
        if envelope.headers.get("ce_type") not in _WIRE_TYPES:
            return None
        try:
            event = CODEC.decode(envelope, entry.value)
        except UndecodableError:
            return None
        if isinstance(event, CommandReceived) and event.command_type == CacheTrainJob.wire_type():
            self._received[event.command_id] = _job_of(event, entry)
            if len(self._received) > MAX_WAITING:
                self._received.popitem(last=False)
        elif isinstance(event, CommandAccepted):
            return self._received.pop(event.command_id, None)
        return None


def _job_of(event: CommandReceived, entry: Entry) -> str:
    """Returns the task that a command names: its job's stream may have begun just now, without a row yet."""
    command = command_of(event.command_type, event.body or {}, [CacheTrainJob])
    if isinstance(command, CacheTrainJob) and command.task is not None:
        return command.task.task
    return (entry.key or b"").decode("utf-8", "replace")


async def follow_cache_commands(events: Log, topic: Topic, reads: CurveReads) -> None:
    """Loads jobs as commands ask for it, from the end of the log on, until cancelled."""
    ends = await retry_until_reachable(
        partial(events.ends, topic.name), lambda reason: log.debug("no log yet", reason=reason)
    )
    commands, loads = CacheCommands(), set[asyncio.Task[object]]()
    starts = {(topic.name, partition): end for partition, end in ends.items()}
    reader = events.reader(starts, GATHER_S)
    try:
        while True:
            for entry in await reader.read(READ_S):
                job = commands.job_to_load(entry)
                if job is not None:
                    task = asyncio.create_task(_load(reads, job))
                    loads.add(task)
                    task.add_done_callback(loads.discard)
    finally:
        for task in loads:
            task.cancel()
        await reader.close()


async def _load(reads: CurveReads, job: str) -> object:
    """Loads a job by its id, or by its stream, which has another id if the job is a task."""

    async def job_of(connection: Connection) -> str | None:
        found: str | None = await connection.fetchval(sql("queries", "summary_job_of_stream"), job)
        return found

    try:
        job_id = await reads.pool.read(job_of) or job
    except Exception as error:  # noqa: BLE001 - the command may be sent again
        log.warning("job not loaded", job=job, reason=f"{type(error).__name__}: {error}")
        return None
    return await reads.load(job_id)
