"""Appends what was read to the topic of metrics, and what was left out to the dead letters."""

import asyncio
import hashlib
from collections.abc import Sequence
from functools import partial

import structlog

from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import RecordDeadLettered, Source
from trackside.eventlog.keys.dead_letters import write_dead_letter
from trackside.eventlog.log import Outgoing
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.retry import retry_until_reachable
from trackside.summary_indexer.rate_limited_warnings import RateLimitedWarning

log = structlog.get_logger("trackside.summary_indexer")
_warn = RateLimitedWarning("points of an event file wait for the log")

READER = "summary-watcher"


class PointsPublisher:
    """Writes the records of directory jobs."""

    def __init__(self, service: ServiceContext) -> None:
        self._service = service

    def encode(self, job: str, messages: Sequence[Message]) -> list[Outgoing]:
        """Returns messages as records; blocks, for as long as it takes to write some hundred KiB of JSON."""
        return [self._service.writer.single(job, message) for message in messages]

    async def publish(self, job: str, records: Sequence[Outgoing]) -> None:
        """Appends records and waits until the log has all of them, for as long as that takes."""
        topic = self._service.topics.metrics
        partition = partition_of(job, topic.partitions)
        waiting = (partial(self._service.log.publish, topic.name, partition, record) for record in records)
        await asyncio.gather(*(retry_until_reachable(request, _warn) for request in waiting))

    async def report_left_out(self, job: str, file: str, code: str, message: str) -> None:
        """Appends a dead letter for values of a file that are not indexed; the file is named as its topic."""
        log.warning("values of an event file are left out", job=job, file=file, code=code, reason=message)
        letter = RecordDeadLettered(
            source=Source(topic=f"{job}/{file}", partition=0, offset=0),
            code=code,
            message=message,
            reader=READER,
            sha256=hashlib.sha256(b"").hexdigest(),
            head_base64="",
        )
        service = self._service
        await write_dead_letter(service.log, service.topics.dead_letters, service.writer, letter)
