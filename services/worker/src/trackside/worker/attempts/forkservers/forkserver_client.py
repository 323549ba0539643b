"""The worker's forkserver: starts it, again if it has died, and requests processes."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from trackside.telemetry.process_start import running_s
from trackside.worker.attempts.forkservers.forkserver_connection import (
    ForkserverConnection,
    ForkserverGoneError,
    TaskProcess,
)
from trackside.worker.messages.forkserver_messages import ForkProcess, LogContact

log = structlog.get_logger("trackside.worker")

STARTS_KEPT = 5
"""For so many times of its own start the tasks of a worker run on: the next one may have a busier host."""
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


def allowed_environment(host: Mapping[str, str], more: Sequence[str] = ()) -> dict[str, str]:
    """Returns the part of the host's environment that tasks get: an allowlist, without secrets."""
    return {name: host[name] for name in (*ALLOWED_VARIABLES, *more) if name in host}


def environment_of(cpu_slots: int) -> dict[str, str]:
    """Returns the forkserver's environment; numeric libraries use a slot's share of the cores, not all."""
    share = str(max(1, (os.cpu_count() or 1) // max(1, cpu_slots)))
    return {"OMP_NUM_THREADS": share, **allowed_environment(os.environ)}


class ForkserverClient:
    """The client of one forkserver process; start it from the main thread, which it dies with.

    With a `folder` for its socket it outlives the worker, with the processes that it holds.
    """

    def __init__(
        self, modules: Sequence[str], environment: Mapping[str, str], folder: Path | None = None
    ) -> None:
        self._modules = list(modules)
        self._environment = dict(environment)
        self._folder = folder
        self._next = 0
        self._connection: ForkserverConnection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = asyncio.Lock()
        self._spare: TaskProcess | None = None
        self._refilling: asyncio.Task[None] | None = None
        self.keep_s = 0.0
        """How long tasks may run on without the worker, in s, where that is longer than its lease."""
        self.earlier: list[ForkserverConnection] = []
        """Forkservers of earlier workers, while they have tasks that this one has adopted."""

    async def start(self) -> None:
        """Starts the forkserver if it isn't running and waits until its modules are imported.

        Raises ForkserverGoneError if it dies of them.
        """
        async with self._starting:
            if self._connection is None or not self._connection.is_open:
                await self._start()

    async def _start(self) -> None:
        if self._process is not None:
            self._process.wait()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "trackside.worker.child.forkserver"]
        folder = "" if self._folder is None else str(self._folder)
        with theirs:
            # In this thread: the forkserver dies with the thread that starts it.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                [*command, str(theirs.fileno()), str(os.getpid()), folder, *self._modules],
                pass_fds=[theirs.fileno()],
                env=self._environment,
                stdin=subprocess.DEVNULL,
            )
        self._connection = ForkserverConnection(ours, self._on_gone)
        for module, reason in (await self._connection.ready).items():
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
        connection = self._connection
        if connection is None or not connection.is_open:
            raise ForkserverGoneError("the forkserver has died")
        self._next += 1
        number = self._next
        started, exited = connection.expect(number)
        ours, theirs = socket.socketpair()
        stdout, stdout_end = os.pipe()
        stderr, stderr_end = os.pipe()
        process = TaskProcess(number, 0, ours, stdout, stderr, exited, connection)
        try:
            connection.send(ForkProcess(number), [theirs.fileno(), stdout_end, stderr_end])
            process.pid = await started
        except BaseException:
            process.close()
            raise
        finally:
            theirs.close()
            os.close(stdout_end)
            os.close(stderr_end)
        connection.follow(process)
        return process

    @property
    def outlives(self) -> bool:
        """Whether it outlives the worker."""
        return self._folder is not None

    def keep_for_a_start(self, limit_s: float) -> float:
        """Lets tasks run on without the worker for as long as the next start may take; returns that, s.

        It is measured at the first join of this process, and `limit_s` at most.
        """
        if self.outlives and not self.keep_s:
            self.keep_s = min(limit_s, STARTS_KEPT * running_s())
        return self.keep_s

    def contact(self, at_s: float) -> None:
        """Tells when the worker has last reached the log, in monotonic seconds."""
        for each in (self._connection, *self.earlier) if self._folder is not None else ():
            if each is not None:
                each.send(LogContact(at_s))

    def close(self) -> None:
        """Ends the forkserver and all its processes."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.disconnect()

    def disconnect(self) -> None:
        """Leaves the forkserver to itself: it ends, unless it outlives the worker and holds processes."""
        self._process = None
        for each in (self._connection, *self.earlier):
            if each is not None:
                each.close()
        if self._refilling is not None:
            self._refilling.cancel()

    def _on_gone(self) -> None:
        if self._spare is not None:
            self._spare.close()
            self._spare = None
