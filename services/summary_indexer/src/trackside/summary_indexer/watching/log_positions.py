"""What the log has of directory jobs: their files, how far each was read, what was deleted.

Their streams are folded from the log as every reader folds them, and what is appended counts once it is
folded: of two watchers of one directory, the log decides.
"""

import asyncio
import heapq
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.summary.messages import (
    RegisterSummaryDirectory,
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryFileReplaced,
    SummaryFileRetried,
    SummaryJobStatus,
    SummaryJobVanished,
    directory_job_id,
)
from trackside.aggregates.summary.state import Summary, SummaryFile, summary_of
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import CommandRefused
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import decode, stream_of
from trackside.eventlog.keys.noted_keys import NotedKeys
from trackside.eventlog.log import Entry
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import from_start
from trackside.eventlog.reactor.spill import SpillStore
from trackside.eventlog.released_streams import read_again
from trackside.eventlog.retry import retry_until_reachable, retry_with_timeout
from trackside.sdk.connection.publication import command_record
from trackside.sdk.connection.signing import Signer
from trackside.summaries.directories import path_of
from trackside.summary_indexer.rate_limited_warnings import RateLimitedWarning
from trackside.summary_indexer.watching.scan_rules import LogPosition

log = structlog.get_logger("trackside.summary_indexer")
_warn = RateLimitedWarning("a watched directory waits for the log")

READ_S = 0.5
FOLDED_AT_ONCE = 1_000
"""Records that are folded before another part of the process has its turn."""
ANSWER_S = 10.0
"""Seconds without an answer of a dispatcher, after which a command is published again."""
SUMMARY_STREAM = b"summary-"
"""How the id of the stream of a directory job begins."""

Fact = SummaryFileIndexed | SummaryFileReplaced | SummaryFileQuarantined | SummaryJobVanished
"""What a reader writes of a job; who appends it numbers it."""
_FILE_EVENTS = (SummaryFileIndexed, SummaryFileReplaced, SummaryFileQuarantined, SummaryFileRetried)


@dataclass(slots=True)
class KnownJob:
    """A job of a directory that is watched here, as far as the log is folded."""

    job_id: str
    path: str
    """Its path below the directory, as the file system has it."""
    status: SummaryJobStatus
    reported: int = 0
    """How many events of readers the log has of it."""
    files: dict[str, LogPosition] = field(default_factory=dict)
    """Its files by their printable names."""


class SummaryStreams:
    """The streams of directory jobs; `bases` are the directories, printable, whose jobs are kept at hand.

    The whole state of a stream is not needed between its records, so all but the newest are spilled to disk.
    """

    def __init__(self, service: ServiceContext, bases: Collection[str], signer: Signer | None = None) -> None:
        self._service, self._bases, self._signer = service, bases, signer
        self._topic = service.topics.events
        self._streams = Streams(
            AGGREGATES,
            partitions=service.topics.event_partitions,
            spilled=SpillStore(),
        )
        self._positions: dict[int, int] = {}
        self._jobs: dict[str, dict[str, KnownJob]] = {base: {} for base in bases}
        self._elsewhere: set[bytes] = set()
        self._keys = NotedKeys()
        self._answered: dict[str, asyncio.Future[str]] = {}
        self._waiting: dict[int, list[tuple[int, int, asyncio.Future[None]]]] = {}
        self.on_event: Callable[[str, str, Event], None] = lambda _base, _job_id, _event: None
        """Called with each event of a job that has an effect, and with the base of the job."""

    async def run(self) -> None:
        """Reads the log from its start, until it is cancelled. Raises PreflightError."""
        starts = await from_start(self._service.log, self._topic)
        self._positions = {partition: offset for (_, partition), offset in starts.items()}
        reader = self._service.log.reader(starts)
        try:
            while True:
                entries = await reader.read(READ_S, FOLDED_AT_ONCE)
                for entry in entries:
                    self._fold(entry)
                if self._streams.released:
                    await self._read_again()
                if entries:
                    self._streams.spill_idle()
                    self._wake()
                await asyncio.sleep(0)  # what was fetched already is read without a pause
        finally:
            await reader.close()

    def _fold(self, entry: Entry) -> None:
        self._positions[entry.partition] = entry.offset + 1
        # Most of the log is about other streams, and decoding is what costs.
        name = stream_of(entry)
        is_read = name.startswith(SUMMARY_STREAM) and name not in self._elsewhere
        record = self._keys.noted(entry, decode(entry) if is_read else None)
        if record is None:
            return
        stream, outcome = self._streams.fold(record)
        self._folded(stream, outcome, record)

    async def _read_again(self) -> None:
        """Folds what streams lack that were parked and go on; keys are those that were noted."""
        names = (self._topic.name, self._streams, self._folded, self._keys.checked)
        await retry_until_reachable(partial(read_again, self._service.log, *names), _warn)

    def _folded(self, stream: Stream, outcome: Outcome, record: Record) -> None:
        message, job = record.message, summary_of(stream)
        if isinstance(message, CommandRefused):
            self._answer(stream.stream_id, message.message)
        if job is None or outcome is not Outcome.APPLIED:
            return
        if job.spec.base not in self._bases:  # and never will be
            self._elsewhere.add(job.job_id.encode())
            self._streams.by_id.pop(job.job_id, None)
            return
        self._take_in(job, message)
        self._answer(job.job_id, "")
        if isinstance(message, Event):
            self.on_event(job.spec.base, job.job_id, message)

    def _take_in(self, job: Summary, message: object) -> None:
        jobs = self._jobs[job.spec.base]
        known = jobs.get(job.job_id)
        if known is None:
            known = jobs[job.job_id] = KnownJob(job.job_id, path_of(job.spec.path), job.status)
        known.status, known.reported = job.status, job.reported
        if isinstance(message, _FILE_EVENTS):
            known.files[message.file] = _position(job.files[message.file])
        elif len(known.files) != len(job.files):  # a job that was purged begins anew when it is restored
            known.files = {name: _position(file) for name, file in job.files.items()}

    async def catch_up(self) -> None:
        """Waits until everything is folded that the log has now."""
        ends = await retry_with_timeout(partial(self._service.log.ends, self._topic.name), self._topic.name)
        for partition, end in ends.items():
            await self._until(partition, end)

    async def _until(self, partition: int, end: int) -> None:
        """Waits until a partition is folded up to an offset."""
        if self._positions.get(partition, 0) < end:
            folded = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting.setdefault(partition, []), (end, id(folded), folded))
            await folded

    def _wake(self) -> None:
        """Wakes those whose offsets are folded, and no others: hundreds of scans may wait."""
        for partition, waiting in self._waiting.items():
            while waiting and waiting[0][0] <= self._positions.get(partition, 0):
                folded = heapq.heappop(waiting)[-1]
                if not folded.done():
                    folded.set_result(None)

    def _answer(self, job_id: str, refusal: str) -> None:
        answered = self._answered.get(job_id)
        if answered is not None and not answered.done():
            answered.set_result(refusal)

    def job(self, base: str, job_id: str) -> KnownJob | None:
        """Returns a job of a directory; None if the log has none of this id."""
        return self._jobs[base].get(job_id)

    def jobs(self, base: str) -> Iterator[KnownJob]:
        """Yields the jobs of a directory."""
        yield from list(self._jobs[base].values())

    async def register(self, job_id: str, base: str, path: str) -> str:
        """Writes a job to the log; returns why it was refused, else an empty text.

        A dispatcher answers. While none does, the command is published again: its id is always the same, so
        it has an effect once.
        """
        command = RegisterSummaryDirectory(base=base, path=path)
        topic = self._service.topics.commands
        record = command_record(command, job_id, f"register-{job_id}", self._service.writer.source, "")
        if self._signer is not None:
            record = self._signer.signed(record, topic.name)
        partition = partition_of(job_id, topic.partitions)
        answered = self._answered[job_id] = asyncio.get_running_loop().create_future()
        try:
            while True:
                request = partial(self._service.log.publish, topic.name, partition, record)
                await retry_until_reachable(request, _warn)
                try:
                    async with asyncio.timeout(ANSWER_S):
                        return await asyncio.shield(answered)
                except TimeoutError:
                    log.error("a watched directory waits for a dispatcher", directory=base, path=path)
        finally:
            del self._answered[job_id]

    async def append(self, base: str, job_id: str, facts: Sequence[Fact]) -> None:
        """Numbers events and appends them as one decision; waits until they are folded.

        Retries until the log has them. Those of a reader that was faster have taken their numbers.
        """
        first = self._jobs[base][job_id].reported + 1
        events = [fact.model_copy(update={"sequence": at}) for at, fact in enumerate(facts, first)]
        partition = partition_of(job_id, self._topic.partitions)
        records = self._service.writer.decision(job_id, events, topic=self._topic.name)
        request = partial(self._service.log.append, self._topic.name, partition, records)
        if len(records) == 1:  # then its request is shared with other jobs
            request = partial(self._service.log.publish, self._topic.name, partition, records[0])
        appended = await retry_until_reachable(request, _warn)
        end = appended.offset + len(records)
        await self._until(partition, end)


def job_id_of(base: str, path: str) -> str:
    """Returns the id of a job by its paths as the file system has them."""
    return directory_job_id(os.fsencode(base), os.fsencode(path))


def _position(file: SummaryFile) -> LogPosition:
    return LogPosition(file.end, file.code, file.again_at_ms, file.number, file.fingerprint)
