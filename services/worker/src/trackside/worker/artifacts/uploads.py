"""Brings what a placement saves from its spool to the store, and then says so in the log.

Only what the store has read back is reported, in the order in which the task saved it. A record stays
in the spool until its event is in the log: what a killed worker leaves is uploaded by the next one, and an
event that was in the log already has the same number, so readers ignore its copy.
"""

import asyncio
import contextlib
import json
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import CHECKPOINT, CheckpointReference
from trackside.contracts.tasks.tasks import AttemptEnd, TaskError
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Appended
from trackside.telemetry import metrics
from trackside.worker.artifacts.store_client import StoreError, StoreProcess
from trackside.worker.artifacts.store_messages import FIRST_RETRY_S, LAST_RETRY_S, RETRIED, UNREACHABLE
from trackside.worker.artifacts.upload_deadline import UploadDeadline
from trackside.worker.child.channel.spool import content_path, record_file
from trackside.worker.messages.process_messages import SPOOL_RECORD, UnreadableMessageError, decode
from trackside.worker.messages.report_messages import ArtifactReady
from trackside.worker.reporting.reporter import Reporter

log = structlog.get_logger("trackside.worker")

MAX_TOGETHER = 64
"""How many artifacts are uploaded with one request."""
CHECKPOINTS = "stored-checkpoints.jsonl"
"""The file in the spool with the checkpoints that are in the store."""


@dataclass(slots=True)
class Uploads:
    """The artifacts of one placement. `run` them in the background, and `finish` before the attempt ends."""

    store: StoreProcess
    folder: Path
    """The spool of the placement."""
    reporter: Reporter
    checkpoints: list[tuple[int, CheckpointReference]] = field(default_factory=list)
    """The checkpoints that are in the store, oldest first, each after how many requests for parameters."""
    deadline: UploadDeadline = field(default_factory=UploadDeadline)
    """When `finish` gives up."""
    _waiting: deque[ArtifactReady] = field(default_factory=deque)
    _known: int = 0
    _filled: asyncio.Event = field(default_factory=asyncio.Event)
    _empty: asyncio.Event = field(default_factory=asyncio.Event)
    _last_problem: StoreError | None = None
    _failures: dict[str, StoreError] = field(default_factory=dict)
    """The first problem of each name whose upload was given up."""
    _removals: set[asyncio.Task[None]] = field(default_factory=set)
    _work: asyncio.Task[None] | None = None

    def add(self, ready: ArtifactReady) -> None:
        """Takes an artifact that is in the spool."""
        if ready.number <= self._known:
            return
        self._known = ready.number
        self._waiting.append(ready)
        metrics.gauge("trackside.worker.spool.bytes").inc(ready.size_bytes)
        self._filled.set()
        if self._work is None:
            self._work = asyncio.create_task(self._run(), name="uploads")

    async def records(self) -> list[ArtifactReady]:
        """Returns what is in the spool, in the order in which it was saved."""
        if not self.folder.exists():  # most tasks save nothing, and a thread costs more than a look
            return []
        return await asyncio.to_thread(_records, self.folder)

    async def finish(self, ending: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Waits until all that is in the spool was uploaded, or given up; returns how the attempt ends then.

        An attempt that has finished without all that it saved has failed, in the stage SAVE; it is lost if
        the worker leaves before.
        """
        for ready in await self.records():
            self.add(ready)
        if self._work is not None:
            try:
                async with self.deadline.limit(limit_s):
                    await self._drained()
            except TimeoutError:
                self._give_up()
            await self.close()
        if not self._failures or ending["end"] != AttemptEnd.FINISHED:
            return dict(ending)
        if self.deadline.is_leaving:
            return {**ending, "end": AttemptEnd.LOST, "result": None}
        name, problem = next(iter(self._failures.items()))
        more = f" (and {len(self._failures) - 1} more)" if len(self._failures) > 1 else ""
        message = f"{name} is not in the store{more}: {problem}"
        error = TaskError(stage="SAVE", type=problem.code, message=message[:4_096])
        return {**ending, "end": AttemptEnd.FAILED, "result": None, "error": error}

    async def settle(self, limit_s: float) -> None:
        """Waits until what was taken is in the store, or given up; at most so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._drained()

    async def close(self) -> None:
        """Ends the work; what is in the spool stays there."""
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work
        for ready in self._waiting:
            metrics.gauge("trackside.worker.spool.bytes").dec(ready.size_bytes)
        self._waiting.clear()

    async def _drained(self) -> None:
        while self._waiting:
            self._empty.clear()
            await self._empty.wait()

    def _give_up(self) -> None:
        """Leaves what is left, with the last problem of the store."""
        problem = self._last_problem or StoreError(UNREACHABLE, "the store did not answer in time")
        for ready in self._waiting:
            self._fail(ready, problem)

    async def _run(self) -> None:
        pause_s = FIRST_RETRY_S
        while True:
            while not self._waiting:
                self._empty.set()
                self._filled.clear()
                await self._filled.wait()
            if await self._upload(list(self._waiting)[:MAX_TOGETHER]):
                pause_s = FIRST_RETRY_S
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LAST_RETRY_S)

    async def _upload(self, batch: Sequence[ArtifactReady]) -> bool:
        """Uploads artifacts; returns whether none of them must be tried again."""
        began_s = monotonic_s()
        try:
            answer = await self.store.request("put", {"items": [self._item(ready) for ready in batch]})
        except StoreError as error:
            outcomes: Sequence[Json] = [{"code": error.code, "message": str(error)}] * len(batch)
        else:
            outcomes = answer["items"]
        for ready, outcome in zip(batch, outcomes, strict=True):
            code = outcome.get("code")
            if code in RETRIED:
                self._note_retry(ready, StoreError(code, outcome["message"]))
                return False
            self._waiting.popleft()
            metrics.gauge("trackside.worker.spool.bytes").dec(ready.size_bytes)
            if code is not None:
                self._fail(ready, StoreError(code, outcome["message"]))
            elif ready.name not in self._failures:  # its versions have no gap
                self._publish(ready, outcome)
        metrics.histogram("trackside.worker.upload.seconds").observe(monotonic_s() - began_s)
        return True

    def _item(self, ready: ArtifactReady) -> Json:
        return {
            "path": str(content_path(self.folder, ready.number)),
            "sha256": ready.sha256,
            "media_type": ready.media_type,
        }

    def _publish(self, ready: ArtifactReady, reference: Json) -> None:
        self._last_problem = None
        metrics.counter("trackside.worker.saved.artifacts").inc()
        metrics.counter("trackside.worker.saved.bytes").inc(ready.size_bytes)
        source = self.reporter.artifact_saved(ready, reference["uri"], partial(self._on_appended, ready))
        if ready.kind == CHECKPOINT and ready.step is not None:
            named = CheckpointReference.model_validate({**reference, "source": source, "step": ready.step})
            self.checkpoints.append((ready.requests, named))
            self._record_checkpoint(ready.requests, named)

    def _record_checkpoint(self, requests: int, checkpoint: CheckpointReference) -> None:
        """Writes where a checkpoint is to the spool, for a worker that takes the placement over."""
        line = json.dumps([requests, checkpoint.model_dump(mode="json")]) + "\n"
        with contextlib.suppress(OSError), (self.folder / CHECKPOINTS).open("a") as file:
            file.write(line)

    def restore(self) -> None:
        """Takes what an earlier worker has left: the checkpoints that it has stored, and what it has not."""
        with contextlib.suppress(OSError, ValueError):  # there is none, or its last line is cut
            for line in (self.folder / CHECKPOINTS).read_text().splitlines():
                requests, fields = json.loads(line)
                self.checkpoints.append((requests, CheckpointReference.model_validate(fields)))
        for ready in _records(self.folder):
            self.add(ready)

    def _on_appended(self, ready: ArtifactReady, _: Appended) -> None:
        removal = asyncio.create_task(asyncio.to_thread(_remove, self.folder, ready.number))
        self._removals.add(removal)
        removal.add_done_callback(self._removals.discard)

    def _note_retry(self, ready: ArtifactReady, problem: StoreError) -> None:
        if self._last_problem is None:
            log.warning(
                "an upload is tried again", artifact=ready.name, code=problem.code, reason=str(problem)
            )
        self._last_problem = problem
        metrics.counter("trackside.worker.failed.uploads").labels(code=problem.code).inc()

    def _fail(self, ready: ArtifactReady, problem: StoreError) -> None:
        log.error("an upload is given up", artifact=ready.name, code=problem.code, reason=str(problem))
        metrics.counter("trackside.worker.failed.uploads").labels(code=problem.code).inc()
        self._failures.setdefault(ready.name, problem)


def _records(folder: Path) -> list[ArtifactReady]:
    """Returns what a spool has, in the order in which it was saved."""
    found = []
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, UnreadableMessageError):  # removed, or of another release
            found.append(decode(path.read_bytes(), SPOOL_RECORD))
    return found


def _remove(folder: Path, number: int) -> None:
    """Removes an artifact from its spool, the record first."""
    record_file(folder, number).unlink(missing_ok=True)
    content = content_path(folder, number)
    if content.is_dir():
        shutil.rmtree(content, ignore_errors=True)
    else:
        content.unlink(missing_ok=True)
