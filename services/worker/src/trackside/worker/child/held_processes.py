"""What a forkserver keeps of task processes, so that they outlive the worker.

It has the worker's ends of their channels and output, too: none of them closes when the worker dies. While
there is no worker it reads them into files in memory, so that no task waits; from MAX_UNREAD_BYTES on a task
waits, as one does whose worker is slow.
"""

import os
from dataclasses import dataclass, field

from trackside.eventlog.clock import monotonic_s
from trackside.worker.durable_files import write_all
from trackside.worker.messages.forkserver_messages import HeldProcess, HoldProcess

MAX_UNREAD_BYTES = 16_777_216
READ_BYTES = 65_536


@dataclass(slots=True)
class _Stream:
    """One end of a process's channel or output; `file` has what no worker has read, once that is needed."""

    descriptor: int
    file: int | None = None
    size_bytes: int = 0
    is_open: bool = True

    @property
    def unread(self) -> int:
        """The file with what no worker has read."""
        if self.file is None:
            self.file = os.memfd_create("trackside-unread")
        return self.file

    def read(self) -> None:
        try:
            octets = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # the process was killed with bytes on the way to it
            octets = b""
        if not octets:
            self.is_open = False
        else:
            write_all(self.unread, octets)
            self.size_bytes += len(octets)

    def forget(self) -> None:
        """Begins anew with what no worker has read."""
        if self.file is not None:
            os.close(self.file)
        self.file, self.size_bytes = None, 0

    def close(self) -> None:
        os.close(self.descriptor)
        self.forget()


@dataclass(slots=True)
class _Held:
    told: HoldProcess
    pid: int
    streams: list[_Stream]
    status: int | None = None
    leftovers: list[str] = field(default_factory=list)
    due_s: float = 0.0
    in_log: int = 0


class HeldProcesses:
    """The processes that outlive the worker, by their number."""

    def __init__(self) -> None:
        self._held: dict[int, _Held] = {}
        self._contact_s = monotonic_s()

    def __bool__(self) -> bool:
        return bool(self._held)

    def __contains__(self, number: int) -> bool:
        return number in self._held

    def hold(self, told: HoldProcess, pid: int, descriptors: list[int]) -> None:
        """Keeps a process and its descriptors, which come from the worker."""
        self.release(told.number)
        self._held[told.number] = _Held(told, pid, [_Stream(each) for each in descriptors])

    def release(self, number: int) -> None:
        """Keeps a process no longer, if it is kept."""
        if number in self._held:
            for stream in self._held.pop(number).streams:
                stream.close()

    def appended(self, number: int, messages: int) -> None:
        """Records how much of the progress of a process is in the log."""
        if number in self._held:
            self._held[number].in_log = messages

    def contact(self, at_s: float) -> None:
        """Records when the worker has last reached the log."""
        self._contact_s = max(self._contact_s, at_s)

    def exited(self, number: int, status: int, leftovers: list[str]) -> None:
        """Records that a process has exited while there was no worker."""
        if number in self._held:
            self._held[number].status, self._held[number].leftovers = status, leftovers

    def worker_gone(self) -> None:
        """Begins the time that the processes have without a worker."""
        now_s = monotonic_s()
        for each in self._held.values():
            each.due_s = now_s + each.told.keep_s
            if each.told.silent_s:
                each.due_s = min(each.due_s, self._contact_s + each.told.silent_s)

    def overdue(self) -> list[int]:
        """Returns the processes whose time without a worker is over."""
        now_s = monotonic_s()
        return [number for number, each in self._held.items() if each.due_s <= now_s]

    def left_s(self) -> float | None:
        """Returns in how many seconds the time of the next one is over; None if there is none."""
        due_s = min((each.due_s for each in self._held.values()), default=None)
        return None if due_s is None else max(0.0, due_s - monotonic_s())

    def readable(self) -> dict[int, _Stream]:
        """Returns what is read while there is no worker, by descriptor."""
        return {
            stream.descriptor: stream
            for each in self._held.values()
            for stream in each.streams
            if stream.is_open and stream.size_bytes < MAX_UNREAD_BYTES
        }

    def offers(self) -> list[tuple[HeldProcess, list[int]]]:
        """Returns what a new worker is told of each process, and the descriptors that it gets."""
        return [
            (
                HeldProcess(number, each.pid, each.told.key, each.status, each.leftovers, each.in_log),
                [stream.descriptor for stream in each.streams] + [stream.unread for stream in each.streams],
            )
            for number, each in self._held.items()
        ]

    def taken_over(self) -> None:
        """Begins anew with what no worker has read: a new one has got the files."""
        for number, each in list(self._held.items()):
            if each.status is not None:
                self.release(number)
                continue
            for stream in each.streams:
                stream.forget()

    def close(self) -> None:
        """Closes everything, as in a process that was forked."""
        for number in list(self._held):
            self.release(number)
