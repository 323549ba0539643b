"""The control channel of a task process: the assignment and control messages from its worker."""

import array
import os
import select
import socket
import sys
import threading
from typing import TypeVar

from trackside.eventlog.clock import monotonic_s
from trackside.worker.child.control_states import ControlGuard
from trackside.worker.process_messages import (
    ASSIGNMENT,
    CONTROL,
    Assignment,
    CheckpointAnswer,
    ControlMessage,
    ExitCommand,
    InstructionMessage,
    ParametersAnswer,
    UnreadableMessageError,
    decode,
)

READ_BYTES = 65_536
MAX_DESCRIPTORS = 130
"""Two outputs, and two locks for each of the 64 devices that a task may have."""

_ANCILLARY_BYTES = socket.CMSG_LEN(MAX_DESCRIPTORS * array.array("i").itemsize)
AnswerT = TypeVar("AnswerT", ParametersAnswer, CheckpointAnswer)


class WorkerGoneError(Exception):
    """The worker has closed the channel: it doesn't need this process any more."""


class ControlChannel:
    """Reads the worker's messages; reports those that are rejected in the output of the task.

    `gone` is set once the worker has closed it. `locks` are the descriptors of lock files that came with the
    messages; the process keeps them open.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.locks: list[int] = []
        self._connection = connection
        self._guard = ControlGuard()
        self._unread = b""
        self._accepted: list[ControlMessage] = []
        self._answers: list[ParametersAnswer | CheckpointAnswer] = []
        self._instruction: InstructionMessage | None = None
        self.gone = False
        self._reading = threading.Lock()

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
        self._take_lines()
        while not self._accepted:
            self._receive()
            self._take_lines()
        return self._accepted.pop(0)

    def answer(self, request: int, kind: type[AnswerT]) -> AnswerT | None:
        """Waits for the answer to a request; None after an EXIT. Raises WorkerGoneError."""
        while True:
            self._take_lines()
            for answer in self._answers:
                if isinstance(answer, kind) and answer.request == request:
                    self._answers.clear()
                    return answer
            if any(isinstance(message, ExitCommand) for message in self._accepted):
                return None
            self._receive()

    def instruction(self, wait_s: float) -> InstructionMessage | None:
        """Waits up to `wait_s` for an instruction that was not returned yet; any thread may call it."""
        due_s = monotonic_s() + wait_s
        while True:
            with self._reading:
                self._take_what_is_there()
                found, self._instruction = self._instruction, None
            left_s = due_s - monotonic_s()
            if found is not None or left_s <= 0 or self.gone:
                return found
            select.select([self._connection], [], [], left_s)

    def interrupted(self) -> None:
        """Rejects what came during a training that ran out of memory; then another TRAIN is accepted.

        The devices are given back: their locks are closed, and others come with the next TRAIN.
        """
        self._take_what_is_there()
        self._guard.interrupted()
        self._close_locks()

    def reset(self) -> None:
        """Prepares for another assignment: releases devices and drops messages for the last one."""
        self._guard, self._unread = ControlGuard(), b""
        self._accepted.clear()
        self._answers.clear()
        self._instruction = None
        self._close_locks()

    def over(self) -> None:
        """Rejects what has come and will come: the work is over."""
        self._guard.over()
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
        for line in lines:
            try:
                message = decode(line, CONTROL)
            except UnreadableMessageError as error:
                sys.stderr.write(f"trackside: {error}\n")
                continue
            if (objection := self._guard.objection(message)) is not None:
                sys.stderr.write(f"trackside: {objection}\n")
            elif isinstance(message, ParametersAnswer | CheckpointAnswer):
                self._answers.append(message)
            elif isinstance(message, InstructionMessage):
                self._instruction = message
            else:
                self._accepted.append(message)
