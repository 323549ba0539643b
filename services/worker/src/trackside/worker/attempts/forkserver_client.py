"""The worker's side of the forkserver: starts it, asks it for processes, hears when they end."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from trackside.worker.child.forkserver import PACKET_BYTES

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
    """The forkserver has died, and all processes with it."""


@dataclass(slots=True)
class TaskProcess:
    """A process forked off: its pid, our ends of its channel and output, and how it ends.

    `exited` gets the exit code, negative for a signal; ForkserverGoneError if nobody can know it.
    """

    number: int
    pid: int
    channel: socket.socket
    stdout: int
    stderr: int
    exited: asyncio.Future[int]
    connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    leftovers: list[str] = field(default_factory=list)
    """Processes that were left of it and had to be killed, at most 10."""

    async def connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Gives the streams of the channel: the same ones for all tasks of the process."""
        if self.connection is None:
            self.connection = await asyncio.open_connection(sock=self.channel, limit=MAX_CHANNEL_LINE_BYTES)
            self.connection[1].transport.set_write_buffer_limits(high=0)  # a drained one has nothing left
        return self.connection

    def new_outputs(self) -> list[int]:
        """Makes new pipes for the output of another task; gives the ends that the process shall write to."""
        self._close_outputs()
        self.stdout, stdout_end = os.pipe()
        self.stderr, stderr_end = os.pipe()
        return [stdout_end, stderr_end]

    def close(self) -> None:
        """Closes our ends that nobody has taken over."""
        if self.connection is not None:
            self.connection[1].transport.abort()  # closed only, it would watch the channel until all is sent
        self.channel.close()
        self._close_outputs()

    def _close_outputs(self) -> None:
        for descriptor in (self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def allowed_environment(host: Mapping[str, str], more: Sequence[str] = ()) -> dict[str, str]:
    """Gives what tasks may see of the host's environment: a list of names, none with a secret."""
    return {name: host[name] for name in (*ALLOWED_VARIABLES, *more) if name in host}


class ForkserverClient:
    """One forkserver process; start it from the main thread, with whose end it ends."""

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
        """Starts the process if it isn't there and waits until its modules are imported.

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
            # In this thread, with whose end the forkserver shall end.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                [*command, str(theirs.fileno()), str(os.getpid()), *self._modules],
                pass_fds=[theirs.fileno()],
                env=self._environment,
                stdin=subprocess.DEVNULL,
            )
        self._control = ours
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(ours, self._hear)
        for module, reason in (await self._ready).items():
            log.warning("module not preloaded", module=module, reason=reason)

    async def take(self) -> TaskProcess:
        """Gives a process that waits for its assignment: the one kept ready, or a new one.

        Starts a new forkserver if the last one has died. Raises ForkserverGoneError if this one does, and
        OSError if the kernel has no room for another process.
        """
        await self.start()
        ready, self._spare = self._spare, None
        if ready is not None and ready.exited.done():
            ready.close()
            ready = None
        process = ready if ready is not None else await self._fork()
        if self._spare is None and (self._refilling is None or self._refilling.done()):
            self._refilling = asyncio.create_task(self._refill())
        return process

    async def _refill(self) -> None:
        """Forks the next process while this one works, so that the next task needn't wait for it."""
        with contextlib.suppress(ForkserverGoneError, OSError):
            spare = await self._fork()
            if spare.exited.done():  # the forkserver died in between: nobody else knows of it
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
        handed_over = [theirs.fileno(), stdout_end, stderr_end]
        try:
            socket.send_fds(self._control, [json.dumps({"fork": number}).encode()], handed_over)
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
        """Sends a signal to the process group of a process, if it still lives."""
        if self._control is None or process.exited.done():
            return
        try:
            self._control.send(json.dumps({"kill": process.number, "signal": number}).encode())
        except BlockingIOError:  # it has much to do
            asyncio.get_running_loop().call_later(RETRY_S, self.kill, process, number)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has died, with all its processes: that is heard in a moment

    def close(self) -> None:
        """Ends the forkserver and all processes that it has forked."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._gone()
        if self._refilling is not None:
            self._refilling.cancel()

    def _hear(self) -> None:
        assert self._control is not None
        while True:
            try:
                packet = self._control.recv(PACKET_BYTES)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._gone()
                return
            self._take(json.loads(packet))

    def _take(self, packet: Mapping[str, object]) -> None:
        match packet:
            case {"forked": int(number), "pid": int(pid)}:
                _settle(self._started.pop(number), pid)
            case {"exited": int(number), "status": int(status), "leftovers": list(names)}:
                self._leftovers.pop(number, []).extend(names)
                _settle(self._exited.pop(number), os.waitstatus_to_exitcode(status))
            case {"exited": int(number), "error": str(reason)}:
                self._exited.pop(number).cancel()
                self._started.pop(number).set_exception(OSError(reason))
            case {"ready": _, "missing": dict(missing)}:
                assert self._ready is not None
                self._ready.set_result(missing)

    def _gone(self) -> None:
        """Tells all who wait that nothing will come any more."""
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
                future.exception()  # not everybody waits for it


def _settle(future: asyncio.Future[int], value: int) -> None:
    if not future.done():
        future.set_result(value)
