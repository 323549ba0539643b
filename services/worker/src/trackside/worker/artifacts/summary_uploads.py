"""Brings the bytes of a task's summaries from its spool to the store, and then reports the values.

While the store fails they wait in the spool and are tried again, and a task that reports more waits too. What
the store has not taken after its time limit is left out, counted, and written to the task's output: nothing
here stops the task. Bytes are stored by their digest, so equal images are there once; they are no artifacts
of the task, which has a limit of those.
"""

import asyncio
import contextlib
import itertools
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.summaries import ItemArtifact
from trackside.eventlog.clock import monotonic_s
from trackside.telemetry import metrics
from trackside.worker.artifacts.store_client import StoreError, StoreProcess
from trackside.worker.artifacts.store_messages import FIRST_RETRY_S, LAST_RETRY_S, RETRIED, UNREACHABLE
from trackside.worker.artifacts.upload_deadline import UploadDeadline
from trackside.worker.child.channel.summary_spool import BAD_SUMMARY, summary_file
from trackside.worker.messages.process_messages import encode
from trackside.worker.messages.report_messages import (
    StoredAnswer,
    StoredRequest,
    SummaryOmitted,
    SummaryValueReport,
)
from trackside.worker.reporting.reporter import Reporter
from trackside.worker.reporting.summary_items import problem_of

log = structlog.get_logger("trackside.worker")

MAX_TOGETHER = 64
"""How many files are uploaded with one request."""
UPLOAD_S, SLOWEST_BYTES_PER_S = 10.0, 2**20
"""Seconds that the store may take for one request, and how many bytes in each second more."""
LOST_ATTEMPT_S = 2.0
"""Seconds for what is left of an attempt that is lost: its placement ends, or its worker leaves."""

SummaryMessage = SummaryValueReport | SummaryOmitted | StoredRequest


class SummaryUploads:
    """The values other than numbers of one attempt. `folder` has their bytes; `write` answers its process.

    A service gives no sign of life while it waits for the store: it does not have to in a `waiting` block.
    `limit_s` is how long the store may fail before what waits is left out.
    """

    def __init__(
        self,
        store: StoreProcess,
        folder: Path,
        reporter: Reporter,
        write: Callable[[bytes], None],
        waiting: Callable[[], AbstractContextManager[None]],
        limit_s: float,
    ) -> None:
        self._store = store
        self._folder = folder
        self._reporter = reporter
        self._write = write
        self._pause_deadline = waiting
        self._waiting: deque[SummaryValueReport | StoredRequest] = deque()
        self._work: asyncio.Task[None] | None = None
        self._omitted: Counter[str] = Counter()
        self._limit_s = limit_s
        self._outage = StoreOutage(limit_s)
        self.deadline = UploadDeadline()

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

    async def finish(self, *, is_lost: bool) -> None:
        """Waits until everything is stored or left out; writes how much was left out."""
        if self._work is not None:
            with contextlib.suppress(TimeoutError):
                async with self.deadline.limit(LOST_ATTEMPT_S if is_lost else self._limit_s):
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
                reason = self._outage.problem.get("message", "the store did not answer in time")
                self._omit(self._outage.problem.get("code", UNREACHABLE), f"{each.tag[:80]}: {reason}")
        self._waiting.clear()

    async def _upload_all(self) -> None:
        with self._pause_deadline():
            while self._waiting:
                batch = self._first_batch()
                if not batch:
                    asked = self._waiting.popleft()
                    assert isinstance(asked, StoredRequest)
                    self._write(encode(StoredAnswer(asked.request)))
                elif not await self._upload(batch):
                    await asyncio.sleep(self._outage.pause_s)

    def _first_batch(self) -> list[SummaryValueReport]:
        """Returns what may be uploaded together; nothing if a request has to be answered first."""
        batch: list[SummaryValueReport] = []
        for first in itertools.islice(self._waiting, MAX_TOGETHER):
            if isinstance(first, StoredRequest):
                break
            batch.append(first)
        return batch

    async def _upload(self, batch: Sequence[SummaryValueReport]) -> bool:
        """Uploads the files that wait first, reports their values, and removes the files.

        Returns False if some of them wait on, to be tried again after a pause.
        """
        outcomes: Sequence[Json] = [self._outage.problem] * len(batch)
        if not self._outage.is_given_up(monotonic_s()) or monotonic_s() >= self._outage.retry_at_s:
            outcomes = await self._outcomes(batch)
            self._note(outcomes)
        gives_up = self._outage.is_given_up(monotonic_s())
        settled, kept = [], []
        for report, outcome in zip(batch, outcomes, strict=True):
            self._waiting.popleft()
            if outcome.get("code") in RETRIED and not gives_up:
                kept.append(report)
            else:
                self._settle(report, outcome)
                settled.append(summary_file(self._folder, report.file))
        self._waiting.extendleft(reversed(kept))
        await asyncio.to_thread(_remove, settled)
        return not kept

    def _settle(self, report: SummaryValueReport, outcome: Json) -> None:
        if (code := outcome.get("code")) is not None:
            self._omit(code, f"{report.tag[:80]}: {outcome['message']}")
            return
        sha256, size_bytes = outcome["sha256"], outcome["size_bytes"]
        stored = ItemArtifact(sha256=sha256, size_bytes=size_bytes, media_type=report.media_type)
        self._reporter.summary(report, stored)

    def _note(self, outcomes: Sequence[Json]) -> None:
        """Notes whether the store fails; the first failure is written to the task's output."""
        problem = next((outcome for outcome in outcomes if outcome.get("code") in RETRIED), None)
        if problem is None:
            self._outage.end()
            return
        metrics.counter("trackside.worker.failed.uploads").labels(code=problem["code"]).inc()
        if self._outage.note(problem, monotonic_s()):
            log.warning("summaries wait for the store", code=problem["code"], reason=problem["message"])
            self._tell(f"summaries wait for the store ({problem['code']}): {problem['message']}")

    async def _outcomes(self, batch: Sequence[SummaryValueReport]) -> Sequence[Json]:
        """Returns the reference of each file in the store, or the code and message of its problem."""
        items = [
            {
                "path": str(summary_file(self._folder, report.file)),
                "sha256": report.sha256,
                "media_type": report.media_type,
            }
            for report in batch
        ]
        limit_s = UPLOAD_S + sum(report.size_bytes for report in batch) / SLOWEST_BYTES_PER_S
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._store.request("put", {"items": items})
        except TimeoutError:
            problem: Json = {
                "code": UNREACHABLE,
                "message": f"the store did not answer within {limit_s:.0f} s",
            }
        except StoreError as error:
            problem = {"code": error.code, "message": str(error)}
        else:
            outcomes: list[Json] = answer["items"]
            return outcomes
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


@dataclass(slots=True)
class StoreOutage:
    """The failures of a store since it last did all that it was asked; times are monotonic seconds.

    After `limit_s` seconds it is given up: what waits is left out, and each pause one request looks whether
    it is there again.
    """

    limit_s: float
    pause_s: float = FIRST_RETRY_S
    retry_at_s: float = 0.0
    problem: Json = field(default_factory=dict)
    """Code and message of the last failure; empty while there is none."""
    _began_s: float = 0.0

    def note(self, problem: Json, now_s: float) -> bool:
        """Notes a failure; returns whether it is the first one."""
        is_first = not self.problem
        if is_first:
            self._began_s = now_s
        self.pause_s = FIRST_RETRY_S if is_first else min(2 * self.pause_s, LAST_RETRY_S)
        self.retry_at_s = now_s + self.pause_s
        self.problem = problem
        return is_first

    def end(self) -> None:
        """Notes that the store has done all that it was asked."""
        self.problem = {}

    def is_given_up(self, now_s: float) -> bool:
        """Whether it has failed for too long."""
        return bool(self.problem) and now_s - self._began_s >= self.limit_s
