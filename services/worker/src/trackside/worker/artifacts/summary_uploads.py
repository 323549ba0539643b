"""Brings the bytes of a task's summaries from its spool to the store, and then reports the values.

Nothing here stops the task: what the store does not take in time is left out, counted, and written to the
task's output. Bytes are stored by their digest, so equal images are there once; they are no artifacts of the
task, which has a limit of those.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import structlog

from trackside.contracts.message import Json
from trackside.contracts.summaries import ItemArtifact
from trackside.eventlog.clock import monotonic_s
from trackside.telemetry import metrics
from trackside.worker.artifacts.store_client import StoreError, StoreProcess
from trackside.worker.artifacts.store_messages import RETRIED, UNREACHABLE
from trackside.worker.child.summary_spool import summary_file
from trackside.worker.process_messages import encode
from trackside.worker.report_messages import StoredAnswer, StoredRequest, SummaryOmitted, SummaryValueReport
from trackside.worker.reporting.reporter import Reporter
from trackside.worker.reporting.summary_items import problem_of

log = structlog.get_logger("trackside.worker")

MAX_TOGETHER = 64
"""How many files are uploaded with one request."""
UPLOAD_S = 10.0
"""Seconds that the store may take for one request."""
PAUSE_S = 60.0
"""Seconds without a request after one that failed: until then everything with bytes is left out."""
BAD_SUMMARY = "bad_summary"

SummaryMessage = SummaryValueReport | SummaryOmitted | StoredRequest


class SummaryUploads:
    """The values other than numbers of one attempt. `folder` has their bytes; `write` answers its process.

    A service gives no sign of life while it waits for the store: it does not have to in a `waiting` block.
    """

    def __init__(
        self,
        store: StoreProcess,
        folder: Path,
        reporter: Reporter,
        write: Callable[[bytes], None],
        waiting: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._store = store
        self._folder = folder
        self._reporter = reporter
        self._write = write
        self._pause_deadline = waiting
        self._waiting: deque[SummaryValueReport | StoredRequest] = deque()
        self._work: asyncio.Task[None] | None = None
        self._omitted: Counter[str] = Counter()
        self._retry_at_s = 0.0
        self._answers = 0

    def handle(self, message: SummaryMessage) -> None:
        """Takes what the process sends."""
        if isinstance(message, SummaryOmitted):
            self._omit(message.code, message.reason)
        elif isinstance(message, SummaryValueReport) and (problem := problem_of(message)) is not None:
            self._omit(BAD_SUMMARY, f"{message.tag[:80]}: {problem}")
            if message.file:
                summary_file(self._folder, message.file).unlink(missing_ok=True)
        elif isinstance(message, SummaryValueReport) and not message.file:
            self._reporter.summary(message, None)
        else:
            self._waiting.append(message)
            if self._work is None or self._work.done():
                self._work = asyncio.create_task(self._upload_all(), name="summary-uploads")

    async def finish(self, limit_s: float) -> None:
        """Waits until everything is stored or left out, at most so long; writes how much was left out."""
        if self._work is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    await asyncio.shield(self._work)
        await self.close()
        for code, count in self._omitted.items():
            if count > 1:
                self._tell(f"in all {count} summaries were left out: {code}")
        self._omitted.clear()

    async def close(self) -> None:
        """Ends the work; what is left is left out."""
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work
            self._work = None
        for each in self._waiting:
            if isinstance(each, SummaryValueReport):
                self._omit(UNREACHABLE, f"{each.tag[:80]}: not stored before the attempt ended")
        self._waiting.clear()

    async def _upload_all(self) -> None:
        with self._pause_deadline():
            while self._waiting:
                batch = self._next_batch()
                if batch:
                    await self._upload(batch)
                else:
                    self._waiting.popleft()
                    self._answers += 1
                    self._write(encode(StoredAnswer(self._answers)))

    def _next_batch(self) -> list[SummaryValueReport]:
        """Returns what may be uploaded together; nothing if a request has to be answered first."""
        batch: list[SummaryValueReport] = []
        while self._waiting and len(batch) < MAX_TOGETHER:
            first = self._waiting[0]
            if isinstance(first, StoredRequest):
                break
            batch.append(first)
            self._waiting.popleft()
        return batch

    async def _upload(self, batch: Sequence[SummaryValueReport]) -> None:
        """Uploads files and reports their values; removes the files in any case."""
        outcomes = await self._outcomes(batch)
        for report, outcome in zip(batch, outcomes, strict=True):
            if outcome.get("code") is not None:
                self._omit(outcome["code"], f"{report.tag[:80]}: {outcome['message']}")
                continue
            stored = ItemArtifact(
                sha256=outcome["sha256"], size_bytes=outcome["size_bytes"], media_type=report.media_type
            )
            self._reporter.summary(report, stored)
        paths = [summary_file(self._folder, report.file) for report in batch]
        await asyncio.to_thread(_remove, paths)

    async def _outcomes(self, batch: Sequence[SummaryValueReport]) -> Sequence[Json]:
        """Returns the reference of each file in the store, or the code and message of its problem."""
        if monotonic_s() < self._retry_at_s:
            problem: Json = {"code": UNREACHABLE, "message": "the store failed less than a minute ago"}
            return [problem] * len(batch)
        items = [
            {
                "path": str(summary_file(self._folder, report.file)),
                "sha256": report.sha256,
                "media_type": report.media_type,
            }
            for report in batch
        ]
        try:
            async with asyncio.timeout(UPLOAD_S):
                answer = await self._store.request("put", {"items": items})
        except TimeoutError:
            problem = {"code": UNREACHABLE, "message": f"the store did not answer within {UPLOAD_S:g} s"}
        except StoreError as error:
            problem = {"code": error.code, "message": str(error)}
        else:
            outcomes: list[Json] = answer["items"]
            if any(outcome.get("code") in RETRIED for outcome in outcomes):
                self._retry_at_s = monotonic_s() + PAUSE_S
            return outcomes
        self._retry_at_s = monotonic_s() + PAUSE_S
        return [problem] * len(batch)

    def _omit(self, code: str, reason: str) -> None:
        """Counts a value that is left out, and writes the first of each code to the task's output."""
        metrics.counter("trackside.worker.dropped.summaries").labels(code=code).inc()
        self._omitted[code] += 1
        if self._omitted[code] == 1:
            log.warning("a summary is left out", code=code, reason=reason)
            self._tell(f"a summary was left out ({code}): {reason}")

    def _tell(self, sentence: str) -> None:
        self._reporter.output("stderr", [f"trackside: {sentence}"])


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
