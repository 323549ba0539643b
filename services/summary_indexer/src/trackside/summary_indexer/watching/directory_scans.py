"""Scans a job: finds its files, reads on where the log ends, and appends what they hold."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import structlog

from trackside.aggregates.summary.messages import (
    MAX_FILE_NAME,
    MAX_PATH,
    SummaryFileIndexed,
    SummaryFileQuarantined,
    SummaryFileReplaced,
    SummaryJobStatus,
    SummaryJobVanished,
)
from trackside.eventlog.clock import now_ms
from trackside.eventlog.log import Outgoing
from trackside.summaries.directories import FoundFile, JobDirectory, list_job, printable_path, problem_of
from trackside.summaries.event_files.reading import PIECE
from trackside.summary_indexer.watching.file_reader import (
    ComparedFile,
    FileReader,
    JobFile,
    Reading,
    ReadStep,
    compare_files,
)
from trackside.summary_indexer.watching.log_positions import KnownJob, SummaryStreams, job_id_of
from trackside.summary_indexer.watching.publishing import PointsPublisher
from trackside.summary_indexer.watching.records import TagLimit
from trackside.summary_indexer.watching.report import WatchReport
from trackside.summary_indexer.watching.scan_rules import (
    ANOTHER_VERSION,
    LONGEST_PAUSE_MS,
    LogPosition,
    ScanHistory,
    pause_ms,
    should_compare,
    should_read,
    tail_due_ms,
    tail_problem,
    version_of,
)
from trackside.summary_indexer.watching.tag_limits import TagLimits

log = structlog.get_logger("trackside.summary_indexer")

BYTES_IN_FLIGHT = 2 * PIECE
"""Bytes of files that are read and not acknowledged yet, which bounds memory."""
BYTES_AT_ONCE = 64 * 1024
"""Bytes of a file up to which more of it is read before the log has them: nearly all small files, to their
ends. Such a one counts that much in flight, whatever its size."""
ANNOUNCED_AT_ONCE = 500
"""New files of a job that one decision has."""
INDEXED_FORMATS = frozenset({"tensorboard", "mindspore", "mindspore_graph", "mindspore_lineage"})
STARTED_AGAIN = frozenset({"file_replaced", "file_shrunk"})
"""Problems after which a file is read from its start, as another one, if they are still there later."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Place:
    """A job as its scan needs it: its id, and its path as the file system has it."""

    job_id: str
    path: str


class DirectoryScanner:
    """Scans jobs of one directory; scans of different jobs may run at the same time."""

    def __init__(
        self,
        base: str,
        streams: SummaryStreams,
        publisher: PointsPublisher,
        reader: FileReader,
        report: WatchReport,
        limits: TagLimits,
    ) -> None:
        self.base = base
        self.report = report
        self._shown_base = printable_path(base)
        self._streams, self._publisher, self._reader = streams, publisher, reader
        self._thread = ThreadPoolExecutor(1, "summary-files")
        self._in_flight = ByteBudget(BYTES_IN_FLIGHT)
        self._histories: dict[tuple[str, str], ScanHistory] = {}
        self._limits = limits
        self._left_out: set[tuple[str, str, str]] = set()

    def close(self) -> None:
        """Ends the thread that reads, once it is done with the piece that it reads."""
        self._thread.shutdown(cancel_futures=True)

    def read_again(self, job_id: str) -> str | None:
        """Gets each file of a job read at its next scan as if it was the first one; returns its path."""
        job = self._job(job_id)
        if job is None:
            return None
        self._limits.forget(job_id)
        for key in [key for key in self._histories if key[0] == job_id]:  # the log may have forgotten a file
            del self._histories[key]
        return job.path

    def known_paths(self, start: str) -> list[str]:
        """Returns the paths of the jobs at and below a path that the log has and that have not vanished."""
        head = "" if start == "." else f"{start}/"
        found = (job for job in self._streams.jobs(self._shown_base) if job.status is SummaryJobStatus.ACTIVE)
        return [job.path for job in found if f"{job.path}/".startswith(head)]

    async def compare(self, found: Sequence[JobDirectory]) -> None:
        """Compares files that are as long as the log has them with what was read, once after a start.

        One that is another file by now is read at the next scan.
        """
        compared: list[tuple[ScanHistory, FoundFile, ComparedFile]] = []
        for directory in found:
            job = self._job(job_id_of(self.base, directory.path))
            if job is None or job.status is SummaryJobStatus.DELETED:
                continue
            for file in _indexed(directory.files):
                name = printable_path(file.name)
                position, history = job.files.get(name), self._history(job.job_id, name)
                if position is not None and should_compare(position, history, file):
                    path = f"{directory.path}/{file.name}"
                    compared.append((history, file, ComparedFile(path, position.to, position.fingerprint)))
        if compared:
            wanted = [each for _, _, each in compared]
            same = await asyncio.to_thread(compare_files, self.base, wanted)
            for (history, file, _), is_same in zip(compared, same, strict=True):
                history.version = version_of(file) if is_same else ANOTHER_VERSION

    def needs_scan(self, found: JobDirectory) -> bool:
        """Returns whether a scan of a job would do anything, from what was found in its directory.

        Problems of its files that the log has are noted in the report.
        """
        job = self._job(job_id_of(self.base, found.path))
        if job is None or job.status is SummaryJobStatus.VANISHED:
            return True
        if self._skips(job):
            return False
        names = set()
        for name, known in job.files.items():
            if known.code:
                self.report.note(job.path, name, known.code)
        for file in _indexed(found.files):
            name = printable_path(file.name)
            names.add(name)
            position = job.files.get(name)
            history = self._history(job.job_id, name)
            if position is None or should_read(position, history, file, now_ms()):
                return True
        return any(name not in names and not position.code for name, position in job.files.items())

    def _skips(self, job: KnownJob) -> bool:
        """Returns whether a job is deleted, and notes it in the report."""
        if job.status is SummaryJobStatus.DELETED:
            self.report.deleted.add(job.job_id)
            return True
        self.report.deleted.discard(job.job_id)
        return False

    async def scan(self, path: str) -> int | None:
        """Reads what is new in a job; returns when it must be scanned again, None if nothing is due.

        Times are milliseconds since 1970.
        """
        place = _Place(job_id_of(self.base, path), path)
        if max(len(self._shown_base), len(printable_path(path))) > MAX_PATH:
            self.report.note(path, "", "path_too_long")
            return None
        try:
            found = _indexed((await self._in_thread(list_job, self.base, path)).files)
        except OSError as error:
            code = problem_of(error)
            if code != "file_vanished":
                self.report.note(path, "", code)
                log.warning("a directory can't be read", path=printable_path(path), code=code)
                return None
            found = []
        for file in [each for each in found if len(printable_path(each.name)) > MAX_FILE_NAME]:
            self.report.note(path, printable_path(file.name), "name_too_long")
            found.remove(file)
        job = self._job(place.job_id)
        if job is not None and self._skips(job):
            return None
        if not found:
            if job is not None and job.status is SummaryJobStatus.ACTIVE:
                await self._streams.append(self._shown_base, place.job_id, [SummaryJobVanished(sequence=0)])
            return None
        self.report.note(path, "", "")
        if not await self._announce(place, found):
            return None
        dues = [await self._look(place, file) for file in found]
        await self._report_missing(place, {printable_path(file.name) for file in found})
        return min((due for due in dues if due is not None), default=None)

    async def _announce(self, place: _Place, found: Sequence[FoundFile]) -> bool:
        """Writes the job and all of its files to the log before anything of them, which numbers the files.

        Returns whether the log has the job.
        """
        if self._job(place.job_id) is None:
            shown = printable_path(place.path)
            refused = await self._streams.register(place.job_id, self._shown_base, shown)
            if refused:
                log.warning("a directory was refused as a job", path=shown, reason=refused)
                self.report.note(place.path, "", "refused")
                return False
            self.report.jobs += 1
        job = self._job(place.job_id)
        names = [printable_path(file.name) for file in found]
        while new := [name for name in names if job is not None and name not in job.files]:
            assert job is not None
            before, first = job.reported, new[:ANNOUNCED_AT_ONCE]
            begun = [SummaryFileIndexed(sequence=0, file=name, begin=0, end=0) for name in first]
            await self._streams.append(self._shown_base, place.job_id, begun)
            if job.reported == before:  # it was deleted meanwhile, or has as many files as it may have
                break
        if job is not None and job.status is SummaryJobStatus.VANISHED:
            known = job.files[names[0]]
            again = SummaryFileIndexed(sequence=0, file=names[0], begin=known.to, end=known.to)
            await self._streams.append(self._shown_base, place.job_id, [again])
        return True

    async def _look(self, place: _Place, found: FoundFile) -> int | None:
        """Reads a file if it is to be read now; returns when it must be looked at again."""
        name = printable_path(found.name)
        history, position = self._history(place.job_id, name), self._position(place.job_id, name)
        if position is None:
            self.report.note(place.path, name, "too_many_files")
            return None
        if not should_read(position, history, found, now_ms()):
            return max(position.again_at_ms, history.again_at_ms) if position.code else None
        self.report.files += 1
        history.version = version_of(found)
        end, problem = await self._read(place, found, position)
        if problem in STARTED_AGAIN and position.code in STARTED_AGAIN and found.size:
            end, problem = await self._start_again(place, found, position.number)
        problem = problem or tail_problem(found, end, now_ms())
        if problem:
            return await self._quarantine(place, name, end, problem)
        history.failures = history.again_at_ms = 0
        self.report.note(place.path, name, "")
        if position.code and end == position.to:  # nothing to read, but nothing wrong any more
            healed = SummaryFileIndexed(sequence=0, file=name, begin=end, end=end)
            await self._streams.append(self._shown_base, place.job_id, [healed])
        return tail_due_ms(found) if end < found.size or not found.size else None

    async def _start_again(self, place: _Place, found: FoundFile, number: int) -> tuple[int, str]:
        """Reads another file in the place of the one with a number from its start, under a number of its own.

        If another watcher did so first, reading continues where the log has the file now.
        """
        job, name = self._job(place.job_id), printable_path(found.name)
        if job is not None and name in job.files and job.files[name].number == number:
            replaced = SummaryFileReplaced(sequence=0, file=name)
            await self._streams.append(self._shown_base, place.job_id, [replaced])
        position = self._position(place.job_id, name)
        return (0, "") if position is None else await self._read(place, found, position)

    async def _read(self, place: _Place, found: FoundFile, known: LogPosition) -> tuple[int, str]:
        """Appends what a file holds from a position on; returns how far the log has it, and the problem."""
        name = printable_path(found.name)
        file = JobFile(place.job_id, known.number, self.base, place.path, found.name, found.format)
        job = self._job(place.job_id)
        has_values = job is not None and any(each.to for each in job.files.values())
        limit = await self._limits.take(place.job_id, has_values)
        reading = Reading(self._reader.read(file, known.to, limit, known.fingerprint), known.to)
        try:
            while reading.goes_on:
                async with self._in_flight.taken(min(PIECE, max(found.size - reading.end, BYTES_AT_ONCE))):
                    await self._read_on(file, name, reading)
        finally:
            if not reading.is_exhausted:
                await self._in_thread(reading.steps.close)
            self._limits.keep(file.job, limit)
        if not reading.is_overtaken:
            await self._report_left_out(file.job, name, limit)
        return reading.end, reading.problem

    async def _read_on(self, file: JobFile, name: str, reading: Reading) -> None:
        """Appends the next pieces of a file; keeps nothing of them, as hundreds of files may wait at once."""
        pieces, more = await self._in_thread(self._next, reading.steps, file.job)
        reading.is_exhausted = not more
        for step, records in pieces:
            if not await self._append(file, name, step, records):
                # Another watcher was faster, or the job was deleted: the next scan goes on.
                self._history(file.job, name).version = None
                reading.is_overtaken = True
                return
            reading.end, reading.problem = step.end, step.problem or ""
            if step.problem == "record_too_long" and step.end > step.start:  # it goes on behind it
                reading.problem = ""
                message = f"a record that ends at byte {step.end} is too long and was skipped"
                await self._publisher.report_left_out(file.job, name, "record_too_long", message)

    async def _append(self, file: JobFile, name: str, step: ReadStep, records: Sequence[Outgoing]) -> bool:
        """Appends a piece of a file and how far it was read; returns whether the log has that."""
        await self._publisher.publish(file.job, records)
        if step.end > step.start:
            moved = SummaryFileIndexed(
                sequence=0,
                file=name,
                begin=step.start,
                end=step.end,
                records=step.records,
                fingerprint=step.fingerprint,
            )
            await self._streams.append(self._shown_base, file.job, [moved])
        position = self._position(file.job, name)
        if position is None or (position.to, position.number) != (step.end, file.number):
            return False
        self.report.bytes += step.end - step.start
        self.report.points += step.points
        self.report.items += step.items
        return True

    def _next(
        self, steps: Iterator[ReadStep], job: str
    ) -> tuple[list[tuple[ReadStep, list[Outgoing]]], bool]:
        """Reads and encodes the next pieces of a file; returns whether there may be more."""
        found: list[tuple[ReadStep, list[Outgoing]]] = []
        size = 0
        while size < BYTES_AT_ONCE:
            step = next(steps, None)
            if step is None:
                return found, False
            if step.reason:
                log.warning("an event file can't be read on", job=job, code=step.problem, reason=step.reason)
            found.append((step, self._publisher.encode(job, step.messages)))
            size += step.end - step.start
        return found, True

    async def _quarantine(self, place: _Place, name: str, end: int, code: str) -> int:
        """Writes to the log why a file can't be read on and until when; returns that time.

        Once the pause no longer grows, the log has it already, unless something else is wrong now.
        """
        history = self._history(place.job_id, name)
        history.failures += 1
        history.again_at_ms = now_ms() + pause_ms(history.failures)
        self.report.note(place.path, name, code)
        position = self._position(place.job_id, name)
        grows = history.failures == 1 or pause_ms(history.failures - 1) < LONGEST_PAUSE_MS
        if position is not None and (position.code != code or grows):
            event = SummaryFileQuarantined(
                sequence=0, file=name, offset=end, code=code, again_at_ms=history.again_at_ms
            )
            await self._streams.append(self._shown_base, place.job_id, [event])
        return history.again_at_ms

    async def _report_missing(self, place: _Place, names: set[str]) -> None:
        """Quarantines the files that the log has and the directory has not; each is read if it comes back."""
        job = self._job(place.job_id)
        missing = [] if job is None else [each for each in job.files.items() if each[0] not in names]
        for name, position in missing:
            if position.code != "file_vanished":
                await self._quarantine(place, name, position.to, "file_vanished")

    async def _report_left_out(self, job: str, name: str, limit: TagLimit) -> None:
        """Writes a dead letter for each reason why values of a file were left out, once."""
        reasons = (
            ("bad_tag", limit.bad, "values have tags that are no names: empty, too long, or with control"),
            ("too_many_tags", limit.beyond, f"values have tags after the first {limit.most:,} of their job:"),
        )
        self.report.left_out += limit.bad + limit.beyond
        for code, count, why in reasons:
            if count and (job, name, code) not in self._left_out:
                self._left_out.add((job, name, code))
                rest = "characters" if code == "bad_tag" else "these are not indexed"
                await self._publisher.report_left_out(job, name, code, f"{count:,} {why} {rest}")
        limit.bad = limit.beyond = 0

    def _job(self, job_id: str) -> KnownJob | None:
        return self._streams.job(self._shown_base, job_id)

    def _position(self, job_id: str, name: str) -> LogPosition | None:
        """Returns what the log has of a file; None if it has not the file, or if the job is deleted."""
        job = self._job(job_id)
        return None if job is None or job.status is SummaryJobStatus.DELETED else job.files.get(name)

    def _history(self, job_id: str, name: str) -> ScanHistory:
        return self._histories.setdefault((job_id, name), ScanHistory())

    async def _in_thread(self, work: Callable[..., Result], *values: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *values)


def _indexed(files: Sequence[FoundFile]) -> list[FoundFile]:
    return [file for file in files if file.format in INDEXED_FORMATS]


class ByteBudget:
    """A number of bytes of which parts are taken and given back; who asks first gets its part first."""

    def __init__(self, total: int) -> None:
        self._total = self._left = total
        self._turn = asyncio.Lock()
        self._returned = asyncio.Event()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Takes that many bytes while the context lasts, all of them if there are less; waits for them."""
        size = min(size, self._total)
        async with self._turn:
            while self._left < size:
                self._returned.clear()
                await self._returned.wait()
            self._left -= size
        try:
            yield
        finally:
            self._left += size
            self._returned.set()
