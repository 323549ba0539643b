"""The checkpoints that a placement may continue from: fetched from the store when its task asks for one."""

import asyncio
import contextlib
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from trackside.contracts.tasks.artifacts import CHECKPOINT, CheckpointReference
from trackside.eventlog.clock import monotonic_s
from trackside.worker.artifacts.store_client import StoreError
from trackside.worker.artifacts.store_messages import FIRST_RETRY_S, LAST_RETRY_S
from trackside.worker.artifacts.uploads import Uploads
from trackside.worker.messages.process_messages import CheckpointAnswer, CheckpointRequest
from trackside.worker.messages.report_messages import ArtifactReady

log = structlog.get_logger("trackside.worker")

ASKED_FILE = ".checkpoint-now"
"""The file in the working directory that is there while the task is asked for a checkpoint."""


@dataclass(slots=True)
class Checkpoints:
    """The checkpoints of one placement: those of its command, newest first, and those that it has saved.

    `is_used` says whether its task saves checkpoints, or has asked for one: only then it is worth while to
    wait for one before it is stopped.
    """

    uploads: Uploads
    workdir: Path
    given: list[CheckpointReference]
    limit_s: float
    """Seconds for which a store that is away is tried for the checkpoints, all together."""
    is_used: bool = False
    offered_before: list[CheckpointReference] = field(default_factory=list)
    """What an earlier worker may have offered the task."""
    _requests: int = 0
    _offered: list[CheckpointReference] = field(default_factory=list)

    def note_saved(self, ready: ArtifactReady) -> bool:
        """Takes note of an artifact; returns whether it is a checkpoint."""
        if ready.kind != CHECKPOINT:
            return False
        self.is_used = True
        return True

    def begin_part(self, requests: int) -> None:
        """Forgets the checkpoints of a trial that is over: the next one in the process has none."""
        self._requests, self.given = requests, []

    def ask(self) -> None:
        """Leaves the word for the task that a checkpoint is wanted now."""
        with contextlib.suppress(OSError):  # then it ends without one
            (self.workdir / ASKED_FILE).touch()

    def known(self, checkpoint: object) -> CheckpointReference | None:
        """Returns the checkpoint that the task got, if it names that."""
        offered = [*self._offered, *self.offered_before]
        return next((each for each in offered if each.model_dump(mode="json") == checkpoint), None)

    async def fetch(self, message: CheckpointRequest) -> CheckpointAnswer:
        """Fetches the newest checkpoint that can be read; answers without one if there is none at all."""
        self.is_used = self.is_used or message.by_task
        await self.uploads.settle(self.limit_s)
        own = [each for requests, each in self.uploads.checkpoints if requests == self._requests]
        problem: StoreError | None = None
        deadline_s = monotonic_s() + self.limit_s
        for checkpoint in [*reversed(own), *self.given]:
            target = self.workdir / f".checkpoint-{message.request}"
            try:
                await self._get(checkpoint, target, deadline_s)
            except StoreError as error:
                log.warning("a checkpoint can't be read", checkpoint=checkpoint.source, reason=str(error))
                problem = problem or error
                continue
            self._offered.append(checkpoint)
            skipped = "" if problem is None else f"the checkpoint before is taken: {problem}"
            fields = checkpoint.model_dump(mode="json")
            return CheckpointAnswer(message.request, fields, str(target), warning=skipped)
        if problem is None:
            return CheckpointAnswer(message.request)
        return CheckpointAnswer(message.request, code=problem.code, problem=str(problem))

    async def _get(self, checkpoint: CheckpointReference, target: Path, deadline_s: float) -> None:
        """Fetches one, again and again while the store is away."""
        pause_s = FIRST_RETRY_S
        while True:
            await asyncio.to_thread(_remove, target)
            try:
                arguments = {
                    "reference": checkpoint.model_dump(mode="json", exclude={"step"}),
                    "target": str(target),
                }
                await self.uploads.store.request("get", arguments)
            except StoreError as error:
                if not error.may_pass or monotonic_s() + pause_s > deadline_s:
                    raise
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LAST_RETRY_S)
            else:
                return


def _remove(target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target, ignore_errors=True)
    else:
        target.unlink(missing_ok=True)
