"""What a worker and a running task say to each other of checkpoints."""

import asyncio
from collections.abc import Callable

from trackside.contracts.tasks.artifacts import CheckpointReference
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.worker.artifacts.checkpoints import Checkpoints
from trackside.worker.messages.process_messages import (
    CheckpointAnswer,
    CheckpointRequest,
    TrainingResumed,
    encode,
)
from trackside.worker.messages.report_messages import ArtifactReady
from trackside.worker.reporting.reporter import Reporter


class CheckpointExchange:
    """Sends a task its last checkpoint, and asks it for one before it is stopped.

    `write` sends octets to its process, `stop` tells it to end. Without a store there are no checkpoints.
    """

    def __init__(
        self,
        checkpoints: Checkpoints | None,
        reporter: Reporter,
        write: Callable[[bytes], None],
        stop: Callable[[AttemptEnd], None],
    ) -> None:
        self._checkpoints = checkpoints
        self._reporter = reporter
        self._write = write
        self._stop = stop
        self._end: AttemptEnd | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None

    def handle(self, message: CheckpointRequest | TrainingResumed) -> None:
        """Answers a request, or reports that the training continues from what was answered."""
        if isinstance(message, CheckpointRequest):
            self._answering = asyncio.create_task(self._answer(message))
        elif self._checkpoints is not None:
            known = self._checkpoints.known(message.checkpoint)
            if known is not None:
                self._reporter.resumed(known)

    def resumed_before(self, message: TrainingResumed) -> None:
        """Reports again what the training continued from, as the task has told an earlier worker."""
        if self._checkpoints is not None:
            self._checkpoints.is_used = True
            self._reporter.resumed(CheckpointReference.model_validate(message.checkpoint))

    def saved(self, ready: ArtifactReady) -> None:
        """Takes note of an artifact; stops the task if it is the checkpoint that it was asked for."""
        is_checkpoint = self._checkpoints is not None and self._checkpoints.note_saved(ready)
        if is_checkpoint and self._end is not None:
            self._stop(self._end)

    def begin_part(self, requests: int) -> None:
        """Forgets the checkpoints of a trial that is over."""
        if self._checkpoints is not None:
            self._checkpoints.begin_part(requests)

    def stop_after_checkpoint(self, end: AttemptEnd, seconds: float, is_training: bool) -> None:
        """Asks the task for a checkpoint, and tells it to end once it has saved one, or the time is over.

        A task that has nothing to do with checkpoints, or does not train, ends at once.
        """
        if self._end is not None:
            return
        if self._checkpoints is None or not self._checkpoints.is_used or not is_training:
            self._stop(end)
            return
        self._end = end
        self._checkpoints.ask()
        self._patience = asyncio.get_running_loop().call_later(seconds, self._stop, end)

    def close(self) -> None:
        """Ends what is under way: the process is gone."""
        for work in (self._patience, self._answering):
            if work is not None:
                work.cancel()

    async def _answer(self, message: CheckpointRequest) -> None:
        answer = CheckpointAnswer(message.request)
        if self._checkpoints is not None:
            answer = await self._checkpoints.fetch(message)
        self._write(encode(answer))
