"""The orders of a task's process: what its worker says on the channel, read in the process itself."""

import array
import json
import os
import socket
import sys
from typing import Any

from trackside.worker.child.control_states import ControlGuard, Word, read

READ_BYTES = 65_536
MAX_DESCRIPTORS = 64
"""As many as a task may have devices: the lock of each comes as a descriptor."""

_ROOM = socket.CMSG_LEN(MAX_DESCRIPTORS * array.array("i").itemsize)


class WorkerGoneError(Exception):
    """The worker has closed the channel: it needs this process no more."""


class ControlChannel:
    """Reads assignment and words, and turns away what makes no sense with a line of the task's output.

    `locks` are descriptors of lock files; they came along, and are open until the process ends.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.locks: list[int] = []
        self._connection = connection
        self._guard = ControlGuard()
        self._rest = b""
        self._obeyed: list[Word] = []
        self._answers: list[Word] = []

    def outputs(self, count: int) -> list[int]:
        """Gives the first descriptors that came along, which are no locks: the task's output goes there."""
        found, self.locks[:count] = self.locks[:count], []
        return found

    def assignment(self) -> dict[str, Any]:
        """Waits for what this process shall run; raises WorkerGoneError if there is nothing to run."""
        while b"\n" not in self._rest:
            self._receive()
        octets, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(octets)
        return found

    def next(self) -> Word:
        """Waits for the next word that makes sense; raises WorkerGoneError."""
        self._take_lines()
        while not self._obeyed:
            self._receive()
            self._take_lines()
        return self._obeyed.pop(0)

    def answer(self, request: int) -> Word | None:
        """Waits for the answer to a request; None if the process is told to exit. Raises WorkerGoneError."""
        while True:
            self._take_lines()
            for word in self._answers:
                if word.request == request:
                    self._answers.clear()
                    return word
            if any(word.do == "EXIT" for word in self._obeyed):
                return None
            self._receive()

    def interrupted(self) -> None:
        """Turns away what was said during a training that ran out of memory; then one more may be told.

        The devices are given back: their locks are closed, and others come with the next word.
        """
        self._take_what_is_there()
        self._guard.interrupted()
        while self.locks:
            os.close(self.locks.pop())

    def anew(self) -> None:
        """Is ready for another assignment; devices and whatever came for the last one are given up."""
        self._guard, self._rest = ControlGuard(), b""
        self._obeyed.clear()
        self._answers.clear()
        while self.locks:
            os.close(self.locks.pop())

    def over(self) -> None:
        """Turns away what was said until now; nothing is obeyed any more."""
        self._guard.over()
        self._take_what_is_there()

    def _take_what_is_there(self) -> None:
        try:
            while True:
                self._receive(socket.MSG_DONTWAIT)
        except (BlockingIOError, WorkerGoneError):
            self._take_lines()

    def _receive(self, flags: int = 0) -> None:
        try:  # not recv_fds, which leaves out the flags
            octets, ancillary, _, _ = self._connection.recvmsg(READ_BYTES, _ROOM, flags)
        except ConnectionResetError as error:
            raise WorkerGoneError from error
        for level, kind, packed in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(packed[: len(packed) - len(packed) % found.itemsize])
                self.locks += found
        if not octets:
            raise WorkerGoneError
        self._rest += octets

    def _take_lines(self) -> None:
        *lines, self._rest = self._rest.split(b"\n")
        for octets in lines:
            word = read(octets)
            objection = word if isinstance(word, str) else self._guard.objection(word)
            if objection is not None:
                sys.stderr.write(f"trackside: {objection}\n")
            elif isinstance(word, Word):
                (self._answers if word.do == "NEXT" else self._obeyed).append(word)
