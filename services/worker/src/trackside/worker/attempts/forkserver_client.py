"""The worker's side of the forkserver: starts it, requests processes, and learns when they exit."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import structlog

from trackside.worker.child.forkserver import PACKET_BYTES
from trackside.worker.forkserver_messages import (
    ForkFailed,
    ForkProcess,
    ForkserverReady,
    ProcessExited,
    ProcessForked,
    SignalProcess,
)
from trackside.worker.process_messages import (
    FROM_FORKSERVER,
    FromForkserver,
    decode,
    encode,
)

log = structlog.get_logger("trackside.worker")

MAX_CHANNEL_LINE_BYTES = 4_194_304
RETRY_S = 0.02
ALLOWED_VARIABLES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "OMP_NUM_THREADS",
)


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
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    leftovers: list[str] = field(default_factory=list)
    """Processes that it left and that were killed, at most 10."""

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Returns the streams of the channel: the same ones for all tasks of the process."""
        if self.connection is None:
            self.connection = await asyncio.open_connection(sock=self.channel, limit=MAX_CHANNEL_LINE_BYTES)
            self.connection[1].transport.set_write_buffer_limits(
                high=0
            )  # so that drain waits until all is sent
        return self.connection

    def new_outputs(self) -> list[int]:
        """Creates new pipes for the output of another task; returns the ends to write to."""
        self._close_outputs()
        self.stdout, stdout_end = os.pipe()
        self.stderr, stderr_end = os.pipe()
        return [stdout_end, stderr_end]

    def close(self) -> None:
        """Closes the worker's ends."""
        if self.connection is not None:
            self.connection[1].transport.abort()  # close would watch the channel until all is sent
        self.channel.close()
        self._close_outputs()

    def _close_outputs(self) -> None:
        for descriptor in (self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def allowed_environment(host: Mapping[str, str], more: Sequence[str] = ()) -> dict[str, str]:
    """Returns the part of the host's environment that tasks get: an allowlist, without secrets."""
    return {name: host[name] for name in (*ALLOWED_VARIABLES, *more) if name in host}


class ForkserverClient:
    """The client of one forkserver process; start it from the main thread, which it dies with."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        self._modules = list(modules)
        self._environment = dict(environment)
        self._started: dict[int, asyncio.Future[int]] = {}
        self._exited: dict[int, asyncio.Future[int]] = {}
        self._leftovers: dict[int, list[str]] = {}
        self._next = 0
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()
        self._spare: TaskProcess | None = None
        self._refilling: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[Mapping[str, str]] | None = None

    async def start(self) -> None:
        """Starts the forkserver if it isn't running and waits until its modules are imported.

        Raises ForkserverGoneError if it dies of them.
        """
        async with self._starting:
            if self._control is None:
                await self._start()

    async def _start(self) -> None:
        if self._process is not None:
            self._process.wait()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        command = [sys.executable, "-m", "trackside.worker.child.forkserver"]
        with theirs:
            # In this thread: the forkserver dies with the thread that starts it.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                [*command, str(theirs.fileno()), str(os.getpid()), *self._modules],
                pass_fds=[theirs.fileno()],
                env=self._environment,
                stdin=subprocess.DEVNULL,
            )
        self._control = ours
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(ours, self._on_readable)
        for module, reason in (await self._ready).items():
            log.warning("module not preloaded", module=module, reason=reason)

    async def acquire(self) -> TaskProcess:
        """Returns a process that waits for its assignment: the spare one, or a new one.

        Starts a new forkserver if the last one has died. Raises ForkserverGoneError if this one dies too, and
        OSError if no process can be forked.
        """
        await self.start()
        spare, self._spare = self._spare, None
        if spare is not None and spare.exited.done():
            spare.close()
            spare = None
        process = spare if spare is not None else await self._fork()
        if self._spare is None and (self._refilling is None or self._refilling.done()):
            self._refilling = asyncio.create_task(self._refill())
        return process

    async def _refill(self) -> None:
        """Forks a spare process, so that the next task doesn't wait for the fork."""
        with contextlib.suppress(ForkserverGoneError, OSError):
            spare = await self._fork()
            if spare.exited.done():  # the forkserver died in between: only this function knows the process
                spare.close()
            else:
                self._spare = spare

    async def _fork(self) -> TaskProcess:
        if self._control is None:
            raise ForkserverGoneError("the forkserver has died")
        loop = asyncio.get_running_loop()
        self._next += 1
        number = self._next
        started = self._started[number] = loop.create_future()
        exited = self._exited[number] = loop.create_future()
        ours, theirs = socket.socketpair()
        stdout, stdout_end = os.pipe()
        stderr, stderr_end = os.pipe()
        descriptors = [theirs.fileno(), stdout_end, stderr_end]
        try:
            socket.send_fds(self._control, [encode(ForkProcess(number))], descriptors)
            pid = await started
        except (BrokenPipeError, ConnectionResetError) as error:
            TaskProcess(number, 0, ours, stdout, stderr, exited).close()
            raise ForkserverGoneError("the forkserver has died") from error
        except BaseException:
            TaskProcess(number, 0, ours, stdout, stderr, exited).close()
            raise
        finally:
            theirs.close()
            os.close(stdout_end)
            os.close(stderr_end)
        process = TaskProcess(number, pid, ours, stdout, stderr, exited)
        self._leftovers[number] = process.leftovers
        return process

    def kill(self, process: TaskProcess, number: int) -> None:
        """Sends a signal to the process group of a process, if it still exists."""
        if self._control is None or process.exited.done():
            return
        try:
            self._control.send(encode(SignalProcess(process.number, number)))
        except BlockingIOError:  # its buffer is full
            asyncio.get_running_loop().call_later(RETRY_S, self.kill, process, number)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has died with all its processes, as the reader of this socket notices next

    def close(self) -> None:
        """Ends the forkserver and all its processes."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._on_disconnect()
        if self._refilling is not None:
            self._refilling.cancel()

    def _on_readable(self) -> None:
        assert self._control is not None
        while True:
            try:
                packet = self._control.recv(PACKET_BYTES)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._on_disconnect()
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
                assert self._ready is not None
                self._ready.set_result(missing)
            case _:
                assert_never(message)

    def _on_disconnect(self) -> None:
        """Fails all futures: no message will come any more."""
        if self._control is None:
            return
        asyncio.get_running_loop().remove_reader(self._control)
        self._control.close()
        self._control = None
        if self._spare is not None:
            self._spare.close()
            self._spare = None
        assert self._ready is not None
        waiting: list[asyncio.Future[Any]] = [
            self._ready,
            *self._started.values(),
            *self._exited.values(),
        ]
        self._started.clear()
        self._exited.clear()
        self._leftovers.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(ForkserverGoneError("the forkserver has died"))
                future.exception()  # mark as retrieved: it may have no waiter


def _set_result(future: asyncio.Future[int], value: int) -> None:
    if not future.done():
        future.set_result(value)
