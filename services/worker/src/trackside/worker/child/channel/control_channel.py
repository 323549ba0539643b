"""The control channel of a task process: the assignment and control messages from its worker."""

import array
import math
import os
import select
import socket
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from trackside.eventlog.clock import monotonic_s
from trackside.worker.child.channel.control_states import ControlGuard
from trackside.worker.messages.assignment import Assignment
from trackside.worker.messages.process_messages import (
    ASSIGNMENT,
    CONTROL,
    CheckpointAnswer,
    ControlMessage,
    ExitCommand,
    FetchAnswer,
    InstructionMessage,
    ParametersAnswer,
    UnreadableMessageError,
    decode,
)
from trackside.worker.messages.report_messages import StoredAnswer

READ_BYTES = 65_536
MAX_DESCRIPTORS = 130
"""Two outputs, and two locks for each of the 64 devices that a task may have."""

_ANCILLARY_BYTES = socket.CMSG_LEN(MAX_DESCRIPTORS * array.array("i").itemsize)
AnswerT = TypeVar("AnswerT", ParametersAnswer, CheckpointAnswer, FetchAnswer, StoredAnswer)


class WorkerGoneError(Exception):
    """The worker has closed the channel: it doesn't need this process any more."""


class ControlChannel:
    """Reads the worker's messages; reports those that are rejected in the output of the task.

    `gone` is set once the worker has closed it. `locks` are the descriptors of lock files that came with the
    messages; the process keeps them open. Any thread may wait for an answer or an instruction.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.locks: list[int] = []
        self._connection = connection
        self._guard = ControlGuard()
        self._unread = b""
        self._accepted: list[ControlMessage] = []
        self._answers: list[ParametersAnswer | CheckpointAnswer | FetchAnswer | StoredAnswer] = []
        self._instruction: InstructionMessage | None = None
        self._last_instruction = 0
        self.gone = False
        self._turn = threading.Condition()
        self._is_read = False

    def fileno(self) -> int:
        """Returns the descriptor of the channel."""
        return self._connection.fileno()

    def take_outputs(self, count: int) -> list[int]:
        """Removes and returns the first descriptors, which are not locks but for the task's output."""
        found, self.locks[:count] = self.locks[:count], []
        return found

    def assignment(self) -> Assignment:
        """Waits for the task to run. Raises WorkerGoneError and UnreadableMessageError."""
        while b"\n" not in self._unread:
            self._receive()
        line, _, self._unread = self._unread.partition(b"\n")
        return decode(line, ASSIGNMENT)

    def next(self) -> ControlMessage:
        """Waits for the next accepted message. Raises WorkerGoneError."""
        self._wait_until(lambda: bool(self._accepted))
        if not self._accepted:
            raise WorkerGoneError
        return self._accepted.pop(0)

    def answer(self, request: int, kind: type[AnswerT]) -> AnswerT | None:
        """Waits for the answer to a request; None after an EXIT. Raises WorkerGoneError."""

        def found() -> list[AnswerT]:
            return [each for each in self._answers if isinstance(each, kind) and each.request == request]

        def is_told_to_exit() -> bool:
            return any(isinstance(message, ExitCommand) for message in self._accepted)

        self._wait_until(lambda: bool(found()) or is_told_to_exit())
        for answer in found():
            self._answers.remove(answer)
            return answer
        if is_told_to_exit():
            return None
        raise WorkerGoneError

    def instruction(self, wait_s: float) -> InstructionMessage | None:
        """Waits up to `wait_s` for an instruction that was not returned yet."""
        self._wait_until(lambda: self._instruction is not None, monotonic_s() + wait_s)
        with self._turn:
            found, self._instruction = self._instruction, None
        return found

    def interrupted(self) -> None:
        """Rejects what came during a training that ran out of memory; then another TRAIN is accepted.

        The devices are given back: their locks are closed, and others come with the next TRAIN.
        """
        with self._turn:
            self._take_what_is_there()
            self._guard.interrupted()
        self._close_locks()

    def reset(self) -> None:
        """Prepares for another assignment: releases devices and drops messages for the last one."""
        self._guard, self._unread = ControlGuard(), b""
        self._accepted.clear()
        self._answers.clear()
        self._instruction = None
        self._last_instruction = 0
        self._close_locks()

    def over(self) -> None:
        """Rejects what has come and will come: the work is over."""
        with self._turn:
            self._guard.over()
            self._take_what_is_there()

    def _wait_until(self, is_there: Callable[[], bool], due_s: float = math.inf) -> None:
        """Reads until something is there, the worker has closed the channel, or it is time.

        One thread at a time waits for the worker, and takes what comes for all that wait.
        """
        with self._turn:
            self._take_what_is_there()
            self._turn.notify_all()
            while not is_there() and not self.gone and (left_s := due_s - monotonic_s()) > 0:
                timeout_s = None if left_s == math.inf else left_s
                if self._is_read:
                    self._turn.wait(timeout_s)
                    continue
                self._is_read = True
                self._turn.release()
                try:
                    select.select([self._connection], [], [], timeout_s)
                finally:
                    self._turn.acquire()
                    self._is_read = False
                    self._turn.notify_all()
                self._take_what_is_there()

    def _close_locks(self) -> None:
        while self.locks:
            os.close(self.locks.pop())

    def _take_what_is_there(self) -> None:
        try:
            while True:
                self._receive(socket.MSG_DONTWAIT)
        except WorkerGoneError:
            self.gone = True
        except BlockingIOError:
            pass
        self._take_lines()

    def _receive(self, flags: int = 0) -> None:
        try:  # not recv_fds, which ignores the flags
            octets, ancillary, _, _ = self._connection.recvmsg(READ_BYTES, _ANCILLARY_BYTES, flags)
        except ConnectionResetError as error:
            raise WorkerGoneError from error
        for level, kind, packed in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(packed[: len(packed) - len(packed) % found.itemsize])
                self.locks += found
        if not octets:
            raise WorkerGoneError
        self._unread += octets

    def _take_lines(self) -> None:
        *lines, self._unread = self._unread.split(b"\n")
        for line in filter(None, lines):  # a worker that takes over begins with an empty line
            try:
                message = decode(line, CONTROL)
            except UnreadableMessageError as error:
                sys.stderr.write(f"trackside: {error}\n")
                continue
            if (objection := self._guard.objection(message)) is not None:
                sys.stderr.write(f"trackside: {objection}\n")
            elif isinstance(message, ParametersAnswer | CheckpointAnswer | FetchAnswer | StoredAnswer):
                self._answers.append(message)
            elif isinstance(message, InstructionMessage):
                if message.number > self._last_instruction:  # else a worker that took over repeats it
                    self._instruction, self._last_instruction = message, message.number
            else:
                self._accepted.append(message)
