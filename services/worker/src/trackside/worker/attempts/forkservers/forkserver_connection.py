"""The worker's connection to one forkserver: what this says of its processes, and what it is told of them."""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

from trackside.worker.attempts.forkservers.descriptors import close_all
from trackside.worker.child.forkserver import PACKET_BYTES
from trackside.worker.messages.forkserver_messages import (
    ForkFailed,
    ForkserverOffer,
    ForkserverReady,
    HeldProcess,
    HoldProcess,
    ProcessExited,
    ProcessForked,
    ProgressAppended,
    ReleaseProcess,
    SignalProcess,
)
from trackside.worker.messages.process_messages import (
    FROM_FORKSERVER,
    FromForkserver,
    ToForkserver,
    decode,
    encode,
)

MAX_CHANNEL_LINE_BYTES = 4_194_304
RETRY_S = 0.02


class ForkserverGoneError(Exception):
    """The forkserver has died, and all its processes with it."""


@dataclass(slots=True)
class TaskProcess:
    """A forked process: its pid, the worker's ends of its channel and output, and how it exits.

    `exited` gets the exit code, negative for a signal; ForkserverGoneError if the forkserver died before.
    """

    number: int
    pid: int
    channel: socket.socket
    stdout: int
    stderr: int
    exited: asyncio.Future[int]
    forkserver: "ForkserverConnection"
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    leftovers: list[str] = field(default_factory=list)
    """Processes that it left and that were killed, at most 10."""
    unread: tuple[bytes, bytes, bytes] = (b"", b"", b"")
    """What it wrote to its channel, stdout and stderr while there was no worker."""
    in_log: int = 0
    """How many messages of its progress the forkserver knows to be in the log."""

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Returns the streams of the channel: the same ones for all tasks of the process."""
        if self.connection is None:
            self.connection = await _streams(self.channel, self.unread[0])
        return self.connection

    def note_in_log(self, messages: int) -> None:
        """Tells how much of its progress is in the log, for the worker that takes it over."""
        if messages > self.in_log:
            self.in_log = messages
            self.forkserver.send(ProgressAppended(self.number, messages))

    def take_unread(self) -> tuple[bytes, bytes]:
        """Removes and returns what it wrote to its output while there was no worker."""
        (_, *found), self.unread = self.unread, (b"", b"", b"")
        return found[0], found[1]

    def new_outputs(self) -> list[int]:
        """Creates new pipes for the output of another task; returns the ends to write to."""
        self._close_outputs()
        self.stdout, stdout_end = os.pipe()
        self.stderr, stderr_end = os.pipe()
        return [stdout_end, stderr_end]

    def hold(self, key: str, keep_s: float, silent_s: float) -> None:
        """Lets it outlive the worker while it runs a placement; see HoldProcess."""
        self.in_log = 0
        message = HoldProcess(self.number, key, keep_s, silent_s)
        self.forkserver.send(message, [self.channel.fileno(), self.stdout, self.stderr])

    def keep_on(self, key: str, keep_s: float, silent_s: float) -> None:
        """Reports again how long it outlives the worker, for one that was taken over."""
        in_log = self.in_log
        self.hold(key, keep_s, silent_s)
        self.note_in_log(in_log)

    def release(self) -> None:
        """Doesn't let it outlive the worker any longer."""
        self.forkserver.send(ReleaseProcess(self.number))

    def kill(self, number: int) -> None:
        """Sends a signal to its process group, if it still exists."""
        if not self.exited.done():
            self.forkserver.send(SignalProcess(self.number, number))

    def close(self) -> None:
        """Closes the worker's ends."""
        if self.connection is not None:  # which closes the channel
            self.connection[1].transport.abort()  # close would watch the channel until all is sent
        else:
            self.channel.close()
        self._close_outputs()

    def _close_outputs(self) -> None:
        for descriptor in (self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                os.close(descriptor)


async def _streams(
    channel: socket.socket, unread: bytes
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Returns the streams of a channel; what is `unread` comes first."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_CHANNEL_LINE_BYTES)
    reader.feed_data(unread)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.create_connection(lambda: protocol, sock=channel)
    transport.set_write_buffer_limits(high=0)  # so that drain waits until all is sent
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class ForkserverConnection:
    """One forkserver that is connected; `is_open` until it is gone, and all its processes with it."""

    def __init__(self, control: socket.socket, on_gone: Callable[[], None] = lambda: None) -> None:
        control.setblocking(False)
        loop = asyncio.get_running_loop()
        self.is_open = True
        self.ready: asyncio.Future[Mapping[str, str]] = loop.create_future()
        self._control = control
        self._on_gone = on_gone
        self._started: dict[int, asyncio.Future[int]] = {}
        self._exited: dict[int, asyncio.Future[int]] = {}
        self._leftovers: dict[int, list[str]] = {}
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        loop.add_reader(control, self._on_readable)

    def expect(self, number: int) -> tuple[asyncio.Future[int], asyncio.Future[int]]:
        """Returns what gets the pid of a new process, and what gets its exit code."""
        loop = asyncio.get_running_loop()
        self._started[number], self._exited[number] = loop.create_future(), loop.create_future()
        return self._started[number], self._exited[number]

    def follow(self, process: TaskProcess) -> None:
        """Sets `exited` of a process when it exits, after adding the names of what it left to `leftovers`."""
        if not process.exited.done():
            self._exited[process.number] = process.exited
            self._leftovers[process.number] = process.leftovers

    def send(self, message: ToForkserver, descriptors: Sequence[int] = ()) -> None:
        """Sends a message, later if there is no room; nothing if the forkserver is gone."""
        if not self.is_open:
            return
        octets = encode(message)
        if not self._unsent and self._sends(octets, descriptors):
            return
        self._unsent.append((octets, [os.dup(each) for each in descriptors]))
        if len(self._unsent) == 1:
            asyncio.get_running_loop().call_later(RETRY_S, self._send_rest)

    def close(self) -> None:
        """Closes the connection: no message will come any more, and all futures fail."""
        if not self.is_open:
            return
        self.is_open = False
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        while self._unsent:
            close_all(self._unsent.popleft()[1])
        waiting: list[asyncio.Future[Any]] = [self.ready, *self._started.values(), *self._exited.values()]
        for futures in (self._started, self._exited, self._leftovers):
            futures.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(ForkserverGoneError("the forkserver has died"))
                future.exception()  # mark as retrieved: it may have no waiter
        self._on_gone()

    def _sends(self, octets: bytes, descriptors: Sequence[int]) -> bool:
        try:
            socket.send_fds(self._control, [octets], descriptors)
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has died with all its processes, as the reader of this socket notices next
        return True

    def _send_rest(self) -> None:
        while self._unsent and self._sends(*self._unsent[0]):
            close_all(self._unsent.popleft()[1])
        if self._unsent:
            asyncio.get_running_loop().call_later(RETRY_S, self._send_rest)

    def _on_readable(self) -> None:
        while self.is_open:
            try:
                packet = self._control.recv(PACKET_BYTES)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self.close()
                return
            self._handle(decode(packet, FROM_FORKSERVER))

    def _handle(self, message: FromForkserver) -> None:
        match message:
            case ProcessForked(number, pid):
                _set_result(self._started.pop(number), pid)
            case ProcessExited(number, status, names):
                self._leftovers.pop(number, []).extend(names)
                _set_result(self._exited.pop(number), os.waitstatus_to_exitcode(status))
            case ForkFailed(number, reason):
                self._exited.pop(number).cancel()
                self._started.pop(number).set_exception(OSError(reason))
            case ForkserverReady(_, missing):
                self.ready.set_result(missing)
            case ForkserverOffer() | HeldProcess():
                pass  # these come before the connection is used: see held_forkservers
            case _:
                assert_never(message)


def _set_result(future: asyncio.Future[int], value: int) -> None:
    if not future.done():
        future.set_result(value)
