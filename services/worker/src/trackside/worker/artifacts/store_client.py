"""The worker's side of its store process: starts it when it is needed, and asks it."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from trackside.artifacts.store import ReportBytes, ignore_bytes
from trackside.contracts.envelope.message import Json
from trackside.worker.artifacts.store_messages import (
    RETRIED,
    UNREACHABLE,
    StoreProblem,
    StoreProgress,
    StoreRequest,
    StoreResult,
    decode_answer,
    encode_request,
)

log = structlog.get_logger("trackside.worker")

MAX_LINE_BYTES = 16_777_216


class StoreError(Exception):
    """The store, or its process, did not do what was asked; `code` is that of an ArtifactError."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRIED


@dataclass(frozen=True, slots=True)
class _Pending:
    result: asyncio.Future[Json]
    report: ReportBytes


class StoreProcess:
    """The store process of a worker; ask it from the main thread, with which it dies.

    A process that has died is started anew by the next request; those that it had fail as
    `store_unreachable`.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._pending: dict[int, _Pending] = {}
        self._next = 0
        self._starting = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    @property
    def has_store(self) -> bool:
        """Whether the installation has a store."""
        return bool(self._environment.get("TRACKSIDE_STORE"))

    @property
    def pid(self) -> int | None:
        """The id of the process; None while there is none."""
        return self._process.pid if self._writer is not None and self._process is not None else None

    async def request(self, operation: str, arguments: Json, report: ReportBytes = ignore_bytes) -> Json:
        """Gets an operation carried out; returns its result. Raises StoreError."""
        writer = await self._connected()
        self._next += 1
        number = self._next
        pending = _Pending(asyncio.get_running_loop().create_future(), report)
        self._pending[number] = pending
        try:
            writer.write(encode_request(StoreRequest(number, operation, arguments)))
            return await pending.result
        finally:
            self._pending.pop(number, None)

    async def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
        if self._reading is not None:
            await self._reading
        self._reap()

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._starting:
            if self._writer is None:
                self._writer = await self._start()
            return self._writer

    async def _start(self) -> asyncio.StreamWriter:
        self._reap()
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "trackside.worker.artifacts.store_process"]
        with theirs:
            try:
                # In this thread: the process dies with the thread that starts it.
                self._process = subprocess.Popen(  # noqa: ASYNC220
                    [*command, str(theirs.fileno()), str(os.getpid())],
                    pass_fds=[theirs.fileno()],
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                )
            except OSError as error:
                ours.close()
                raise StoreError(UNREACHABLE, f"the store process can't be started: {error}") from error
        reader, writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE_BYTES)
        self._reading = asyncio.create_task(self._read(reader, writer), name="store-process")
        return writer

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Passes answers on until the process has died."""
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                self._take(line)
        self._writer = None
        writer.transport.abort()
        for pending in self._pending.values():
            if not pending.result.done():
                gone = StoreError(UNREACHABLE, "the store process has died")
                pending.result.set_exception(gone)
        log.info("the store process is gone", unanswered=len(self._pending))

    def _take(self, line: bytes) -> None:
        answer = decode_answer(line)
        pending = self._pending.get(answer.number)
        if pending is None or pending.result.done():  # nobody waits for it any more
            return
        match answer:
            case StoreProgress(_, done, total):
                pending.report(done, total)
            case StoreResult(_, result):
                pending.result.set_result(result)
            case StoreProblem(_, code, message):
                pending.result.set_exception(StoreError(code, message))

    def _reap(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
