"""What the worker and a running task say to each other about instructions, and whether a service serves."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trackside.contracts.tasks.instructions import Instruction
from trackside.contracts.tasks.tasks import AttemptEnd, TaskError
from trackside.worker.attempts.outcome import Ending
from trackside.worker.messages.process_messages import (
    InstructionAnswer,
    InstructionMessage,
    ServiceAlive,
    ServiceReady,
    encode,
)
from trackside.worker.reporting.reporter import Reporter

ServiceMessage = ServiceReady | ServiceAlive | InstructionAnswer


class Conversation:
    """Sends a task its newest instruction, and reports what it answers; repeated ones change nothing.

    A service that is ready and gives no sign of life for `unresponsive_s` has `hung`, which is called once.
    """

    def __init__(
        self,
        reporter: Reporter,
        instruction: Instruction | None,
        unresponsive_s: float | None,
        on_hung: Callable[[str], None],
    ) -> None:
        self.hung = False
        self._reporter = reporter
        self._newest = instruction
        self._cause = ""
        self._answer: InstructionAnswer | None = None
        self._unresponsive_s = unresponsive_s
        self._on_hung = on_hung
        self._write: Callable[[bytes], None] | None = None
        self._ready = 0
        self._said: ServiceReady | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._waiting = 0

    def open(self, write: Callable[[bytes], None]) -> None:
        """Begins to write to the process: the instruction that came with its placement, or since."""
        self._write = write
        self._tell()

    def give(self, instruction: Instruction, cause: str) -> None:
        """Sends an instruction, or repeats the answer to it; `cause` is that of its command."""
        newest = 0 if self._newest is None else self._newest.number
        if instruction.number > newest:
            self._newest, self._cause = instruction, cause
            self._tell()
        elif instruction.number == newest and self._answer is not None and self._answer_number == newest:
            self._report(self._answer)
        elif instruction.number == newest:
            self._cause = cause

    def handle(self, message: ServiceMessage) -> None:
        """Takes what the process says."""
        if isinstance(message, ServiceReady) and message != self._said:
            self._said = message
            self._ready += 1
            self._reporter.ready(self._ready, message.detail)
        elif isinstance(message, InstructionAnswer):
            newest = 0 if self._newest is None else self._newest.number
            if message.number == newest and self._answer_number < newest:
                self._answer = message
                self._report(message)
        self._postpone()

    def answered_before(self, answer: InstructionAnswer) -> None:
        """Takes what the process has told an earlier worker, which may have given it later instructions."""
        newest = 0 if self._newest is None else self._newest.number
        if answer.number >= newest:
            self._newest, self._answer = Instruction(number=answer.number, body={}), answer
            self._report(answer)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Expects no sign of life while the block runs: the task waits for the worker."""
        self._waiting += 1
        self._postpone()
        try:
            yield
        finally:
            self._waiting -= 1
            self._postpone()

    def close(self) -> None:
        """Ends it: the process is gone."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._write, self._unresponsive_s = None, None

    def ending(self, ending: Ending) -> Ending:
        """Returns the ending of the process: that of a service which hung says so."""
        if not self.hung:
            return ending
        message = (
            "the service was ready, and did not ask for instructions for as long as unresponsive_s allows"
        )
        error = TaskError(stage="TRAIN", type="service_unresponsive", message=message)
        return {**ending, "end": AttemptEnd.FAILED, "error": error}

    def _tell(self) -> None:
        if self._write is not None and self._newest is not None and self._answer_number < self._newest.number:
            self._write(encode(InstructionMessage(self._newest.number, self._newest.body)))

    @property
    def _answer_number(self) -> int:
        return 0 if self._answer is None else self._answer.number

    def _report(self, answer: InstructionAnswer) -> None:
        self._reporter.acknowledged(answer.number, answer.ok, answer.detail, self._cause)

    def _postpone(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._unresponsive_s is not None and self._ready and not self._waiting:
            loop = asyncio.get_running_loop()
            self._deadline = loop.call_later(self._unresponsive_s, self._hang, self._unresponsive_s)

    def _hang(self, limit_s: float) -> None:
        self.hung = True
        self._on_hung(f"trackside: the service gave no sign of life for {limit_s:g} s: killed")
