"""Child processes that run tuners and assessors, so that a slow one never blocks the dispatcher's event loop.

An AdvisorProcess owns one child process, sends it one request at a time in the order of arrival, and kills it
when an answer is late. The state of the child is then lost: `generation` has changed, and the next request of
each search sends that search's history again. Tuners and assessors have separate processes.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from trackside.dispatcher.tuners.tuner import TunerWaits

AdvisorOp = dict[str, Any]
SearchSetup = Mapping[str, Any]

BACKLOG_LIMIT = 20
"""With this many waiting requests a process is backlogged, until no more than half of them are left."""
_OPS_A_LINE = 200
_START_LIMIT_S = 60.0
_REPLY_BYTES_MAX = 16 * 1024 * 1024


class AdvisorError(Exception):
    """An advisor could not answer; nothing of the search is lost, as its history can be sent again.

    `code` is the kind of failure, `traceback` the tuner's or assessor's own, if there is one.
    """

    code = "died"

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


class AdvisorTimeout(AdvisorError):
    """The advisor did not answer within its time limit and has been killed."""

    code = "timed_out"


class AdvisorDied(AdvisorError):
    """The advisor process ended before it answered."""


class AdvisorClosed(AdvisorError):
    """The advisor process was closed by its owner."""


class AdviceFailed(AdvisorError):
    """The tuner or assessor raised; a built-in one would raise again on the same history."""

    code = "failed"


class InvalidAdvice(AdviceFailed):
    """The tuner or assessor gave an answer that is not valid, such as parameters outside of the space."""

    code = "nonsense"


def _ignore(_process: "AdvisorProcess") -> None:
    """Does nothing."""


def _advisor_argv() -> list[str]:
    # -P: a file of the working directory must not be imported as a module.
    return [sys.executable, "-P", "-m", "trackside.dispatcher.advisor.advisor", "--parent", str(os.getpid())]


class AdvisorProcess:
    """One advisor process, started by its first request, which answers one request at a time in their order.

    The process writes one JSON line when it is ready, and one for each line that it reads.
    """

    def __init__(self, name: str, argv: Sequence[str] | None = None, timeout_s: float = 30.0) -> None:
        """Prepares a process; `argv` is the advisor's command line, `timeout_s` the limit of one answer."""
        self.name = name
        self.timeout_s = timeout_s
        self.generation = 0
        self._argv = argv
        self._lock = asyncio.Lock()
        self._child: asyncio.subprocess.Process | None = None
        self._ids = itertools.count(1)
        self._backlog = 0
        self._closed = False
        self.backlogged = False
        self.on_change: Callable[[AdvisorProcess], None] = _ignore

    @property
    def backlog(self) -> int:
        """Counts the unanswered requests, including the one being answered."""
        return self._backlog

    @property
    def pid(self) -> int | None:
        """Returns the process id of the running advisor, or None if none runs."""
        return self._child.pid if self._child and self._child.returncode is None else None

    async def request(
        self,
        search: str,
        ops: Callable[[int], Iterable[AdvisorOp]] | Sequence[AdvisorOp],
        ops_a_line: int = _OPS_A_LINE,
    ) -> Any:
        """Sends ops of one search and returns the result of the last one.

        A callable is called when the request's turn has come, with the generation that will receive its ops.
        Raises AdvisorTimeout, AdvisorDied, AdvisorClosed, or AdviceFailed with the advisor's own message.
        """
        self._count(+1)
        try:
            async with self._lock:
                child = await self._running_child()
                try:
                    result = None
                    remaining = iter(ops(self.generation) if callable(ops) else ops)
                    # Lines of bounded size: a long history neither blocks the loop nor outlives one limit.
                    while part := list(itertools.islice(remaining, ops_a_line)):
                        result = await self._exchange(child, search, part)
                    return result
                except (AdviceFailed, TunerWaits):
                    raise
                except BaseException:
                    # Also when cancelled: a reply still to come would be taken for the next one's.
                    await self._kill()
                    raise
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        """Updates the number of waiting requests and calls `on_change`."""
        self._backlog += change
        if self._backlog >= BACKLOG_LIMIT:
            self.backlogged = True
        elif self._backlog <= BACKLOG_LIMIT // 2:
            self.backlogged = False
        self.on_change(self)

    async def start(self) -> None:
        """Starts the advisor now, so that the first request does not wait for it."""
        async with self._lock:
            await self._running_child()

    async def close(self) -> None:
        """Kills the advisor and refuses all further requests."""
        self._closed = True
        await self._kill()

    async def _running_child(self) -> asyncio.subprocess.Process:
        if self._closed:
            raise AdvisorClosed(f"advisor {self.name} is closed")
        if self._child is not None and self._child.returncode is None:
            return self._child
        self.generation += 1
        self._child = child = await self._spawn()
        try:
            if self._closed:
                raise self._end_error(child)
            async with asyncio.timeout(_START_LIMIT_S):
                await self._reply(child)
        except BaseException as error:
            await self._kill()
            if isinstance(error, TimeoutError):
                raise AdvisorTimeout(f"advisor {self.name}: not ready in {_START_LIMIT_S:g} s") from None
            raise
        return child

    async def _spawn(self) -> asyncio.subprocess.Process:
        argv = self._argv or _advisor_argv()
        pipe = asyncio.subprocess.PIPE
        try:
            # A session is a group of its own, too: processes that a user's code starts are killed with it.
            # The event loop of services, uvloop, has no `process_group`.
            return await asyncio.create_subprocess_exec(
                *argv, stdin=pipe, stdout=pipe, limit=_REPLY_BYTES_MAX, start_new_session=True
            )
        except OSError as error:
            raise AdvisorDied(f"advisor {self.name}: can't start {argv[0]!r}: {error}") from error

    async def _exchange(self, child: asyncio.subprocess.Process, search: str, ops: list[AdvisorOp]) -> Any:
        assert child.stdin is not None
        number = next(self._ids)
        line = json.dumps({"id": number, "search": search, "ops": ops}, separators=(",", ":"))
        try:
            async with asyncio.timeout(self.timeout_s):
                child.stdin.write(line.encode() + b"\n")
                await child.stdin.drain()
                reply = await self._reply(child)
        except TimeoutError:
            raise AdvisorTimeout(
                f"advisor {self.name}: no answer about search {search} in {self.timeout_s:g} s; killed"
            ) from None
        except ConnectionError as error:
            raise self._end_error(child) from error
        if reply.get("id") != number:
            raise AdvisorDied(f"advisor {self.name}: answer {reply.get('id')!r} to request {number}; killed")
        if reply.get("waits"):
            raise TunerWaits
        failure = reply.get("error")
        if failure:
            kind = InvalidAdvice if failure["type"] == "NonsenseError" else AdviceFailed
            message = f"advisor {self.name}, search {search}: {failure['type']}: {failure['message']}"
            raise kind(message, failure.get("traceback", ""))
        return reply.get("result")

    async def _reply(self, child: asyncio.subprocess.Process) -> dict[str, Any]:
        assert child.stdout is not None
        try:
            line = await child.stdout.readline()
        except ValueError:
            raise AdvisorDied(
                f"advisor {self.name}: an answer longer than {_REPLY_BYTES_MAX:,} bytes"
            ) from None
        if not line.endswith(b"\n"):
            raise self._end_error(child)
        try:
            reply = json.loads(line)
        except ValueError:
            raise AdvisorDied(f"advisor {self.name}: wrote {line[:80]!r}, not a JSON line") from None
        return reply if isinstance(reply, dict) else {}

    def _end_error(self, child: asyncio.subprocess.Process) -> AdvisorError:
        if self._closed:
            return AdvisorClosed(f"advisor {self.name} was closed while it was asked")
        return AdvisorDied(f"advisor {self.name}: process {child.pid} ended while it was asked")

    async def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        # Reaped here, even if the caller is cancelled: neither a zombie nor an open pipe is left.
        await asyncio.shield(child.wait())


async def close_search(process: AdvisorProcess, search: str, sent: MutableMapping[str, Any]) -> None:
    """Makes the advisor drop a search after all earlier requests, and removes it from `sent`."""

    def ops(_generation: int) -> Iterator[AdvisorOp]:
        sent.pop(search, None)
        yield {"op": "close"}

    if process.pid is None:
        sent.pop(search, None)
    else:
        await process.request(search, ops)
