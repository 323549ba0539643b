"""Lanes: the service's side of its advisor processes, so that a slow tuner never holds back the log.

A lane owns one child process, asks it one request at a time in the order they came, and kills it when an
answer is late. What the child knew is then gone: the lane's `generation` has changed, and the next request of
each search sends that search's history again. Tuners and assessors have a lane each.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trackside.dispatcher.tuners.tuner import TunerWaits

AdvisorOp = dict[str, Any]
SearchSetup = Mapping[str, Any]
SuggestedItem = tuple[Literal["suggested"], int, Mapping[str, Any]]
EndedItem = tuple[Literal["ended"], int, str, float | list[float] | None, Sequence[tuple[int, float]]]
ImportedItem = tuple[Literal["imported"], Mapping[str, Any], float]
HistoryItem = SuggestedItem | EndedItem | ImportedItem

BACKLOG_LIMIT = 20
"""With this many requests waiting a lane is backlogged, until no more than half of them are left."""
_OPS_A_LINE = 200
_START_LIMIT_S = 60.0
_REPLY_BYTES_MAX = 16 * 1024 * 1024


class AdvisorError(Exception):
    """A lane could not answer; nothing of the search is lost, as its history can be sent again.

    `code` says how, `traceback` is what the tuner or assessor said of its error, if it could.
    """

    code = "died"

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


class AdvisorTimeout(AdvisorError):
    """The advisor was silent past the lane's limit and has been killed."""

    code = "timed_out"


class AdvisorDied(AdvisorError):
    """The advisor process ended while it was asked."""


class AdvisorClosed(AdvisorError):
    """The lane was closed by its owner."""


class AdviceFailed(AdvisorError):
    """The tuner or assessor itself raised; one of ours would raise again on the same history."""

    code = "failed"


class InvalidAdvice(AdviceFailed):
    """The tuner said something that can't be meant."""

    code = "nonsense"


def _ignore(_lane: "AdvisorProcess") -> None:
    """Does nothing."""


def _advisor_argv() -> list[str]:
    # -P: a file that happens to lie in the working directory must not pass for a module.
    return [sys.executable, "-P", "-m", "trackside.dispatcher.advisor.advisor", "--parent", str(os.getpid())]


class AdvisorProcess:
    """One advisor process, started when first needed, asked one request at a time in the order they came.

    The process writes one JSON line when it is ready, and one for each line that it reads.
    """

    def __init__(self, name: str, argv: Sequence[str] | None = None, timeout_s: float = 30.0) -> None:
        """Prepares a lane; `argv` is the advisor's command line, `timeout_s` the limit of one answer."""
        self.name = name
        self.timeout_s = timeout_s
        self.generation = 0
        self._argv = argv
        self._turn = asyncio.Lock()
        self._child: asyncio.subprocess.Process | None = None
        self._ids = itertools.count(1)
        self._backlog = 0
        self._closed = False
        self.backlogged = False
        self.on_change: Callable[[AdvisorProcess], None] = _ignore

    @property
    def backlog(self) -> int:
        """Counts the requests that have come and are not answered yet, the one being answered included."""
        return self._backlog

    @property
    def pid(self) -> int | None:
        """Gives the process id of the living advisor, or None if none runs."""
        return self._child.pid if self._child and self._child.returncode is None else None

    async def request(
        self,
        search: str,
        ops: Callable[[int], Iterable[AdvisorOp]] | Sequence[AdvisorOp],
        ops_a_line: int = _OPS_A_LINE,
    ) -> Any:
        """Sends ops of one search and gives the result of the last one.

        A callable is asked for the ops when their turn has come, with the generation that will take them.
        Raises AdvisorTimeout, AdvisorDied, AdvisorClosed, or AdviceFailed with the advisor's own message.
        """
        self._count(+1)
        try:
            async with self._turn:
                child = await self._alive()
                try:
                    result = None
                    listed = iter(ops(self.generation) if callable(ops) else ops)
                    # Lines of bounded size: a long history neither blocks the loop nor outlives one limit.
                    while part := list(itertools.islice(listed, ops_a_line)):
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

    def _count(self, more: int) -> None:
        """Counts what waits, and tells whoever listens."""
        self._backlog += more
        if self._backlog >= BACKLOG_LIMIT:
            self.backlogged = True
        elif self._backlog <= BACKLOG_LIMIT // 2:
            self.backlogged = False
        self.on_change(self)

    async def start(self) -> None:
        """Starts the advisor now, so that the first request needn't wait for it."""
        async with self._turn:
            await self._alive()

    async def close(self) -> None:
        """Kills the advisor and refuses what is asked from now on."""
        self._closed = True
        await self._kill()

    async def _alive(self) -> asyncio.subprocess.Process:
        if self._closed:
            raise AdvisorClosed(f"lane {self.name} is closed")
        if self._child is not None and self._child.returncode is None:
            return self._child
        self.generation += 1
        self._child = child = await self._spawn()
        try:
            if self._closed:
                raise self._end(child)
            async with asyncio.timeout(_START_LIMIT_S):
                await self._reply(child)
        except BaseException as error:
            await self._kill()
            if isinstance(error, TimeoutError):
                raise AdvisorTimeout(f"lane {self.name}: advisor not ready in {_START_LIMIT_S:g} s") from None
            raise
        return child

    async def _spawn(self) -> asyncio.subprocess.Process:
        argv = self._argv or _advisor_argv()
        pipe = asyncio.subprocess.PIPE
        try:
            # In a group of its own: what a user's code starts is killed with it.
            return await asyncio.create_subprocess_exec(
                *argv, stdin=pipe, stdout=pipe, limit=_REPLY_BYTES_MAX, process_group=0
            )
        except OSError as error:
            raise AdvisorDied(f"lane {self.name}: can't start {argv[0]!r}: {error}") from error

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
                f"lane {self.name}: no answer about search {search} in {self.timeout_s:g} s; advisor killed"
            ) from None
        except ConnectionError as error:
            raise self._end(child) from error
        if reply.get("id") != number:
            raise AdvisorDied(
                f"lane {self.name}: answer {reply.get('id')!r} to request {number}; advisor killed"
            )
        if reply.get("waits"):
            raise TunerWaits
        fault = reply.get("error")
        if fault:
            kind = InvalidAdvice if fault["type"] == "NonsenseError" else AdviceFailed
            said = f"lane {self.name}, search {search}: {fault['type']}: {fault['message']}"
            raise kind(said, fault.get("traceback", ""))
        return reply.get("result")

    async def _reply(self, child: asyncio.subprocess.Process) -> dict[str, Any]:
        assert child.stdout is not None
        try:
            line = await child.stdout.readline()
        except ValueError:
            raise AdvisorDied(f"lane {self.name}: an answer longer than {_REPLY_BYTES_MAX:,} bytes") from None
        if not line.endswith(b"\n"):
            raise self._end(child)
        try:
            reply = json.loads(line)
        except ValueError:
            raise AdvisorDied(f"lane {self.name}: the advisor wrote {line[:80]!r}, not a JSON line") from None
        return reply if isinstance(reply, dict) else {}

    def _end(self, child: asyncio.subprocess.Process) -> AdvisorError:
        if self._closed:
            return AdvisorClosed(f"lane {self.name} was closed while it was asked")
        return AdvisorDied(f"lane {self.name}: advisor process {child.pid} ended while it was asked")

    async def _kill(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        # Reaped here, whatever happens to the caller: neither a zombie nor an open pipe stays behind.
        await asyncio.shield(child.wait())


async def close(lane: AdvisorProcess, search: str, sent: MutableMapping[str, Any]) -> None:
    """Has the advisor forget a search, and takes it out of `sent`, once all asked before is answered."""

    def ops(_generation: int) -> Iterator[AdvisorOp]:
        sent.pop(search, None)
        yield {"op": "close"}

    if lane.pid is None:
        sent.pop(search, None)
    else:
        await lane.request(search, ops)


@dataclass
class _Sent:
    """How much of a search's history one generation of the advisor has taken in, and the last trial asked."""

    generation: int
    count: int
    setup: SearchSetup
    asked: int | None = None


def _continues(before: _Sent, history: Sequence[HistoryItem], upto: int) -> bool:
    """Says whether a history goes on where the sent one stopped.

    A trial that was asked stays in the advisor's memory; unless the log has it too, as the next thing
    said, the answer was never used, or was asked upon less than the log says, and must not count.
    """
    if upto < before.count:
        return False
    if before.asked is None:
        return True
    return upto > before.count and history[before.count][:2] == ("suggested", before.asked)


def _op_of(item: HistoryItem) -> AdvisorOp:
    """Translates an item for an advisor."""
    if item[0] == "ended":
        _, number, state, value, intermediates = item
        op: AdvisorOp = {"op": "tell", "number": number, "state": state, "value": value}
        if state == "pruned" and intermediates:
            op["intermediates"] = [max(intermediates)]
        return op
    if item[0] == "imported":
        return {"op": "learn", "parameters": item[1], "value": item[2]}
    return {"op": "recall", "number": item[1], "parameters": item[2]}


class TunerClient:
    """Suggestions for many searches through one lane, which is sent each history once per generation."""

    def __init__(self, lane: AdvisorProcess) -> None:
        self.lane = lane
        self._sent: dict[str, _Sent] = {}

    def suggest(
        self, search_id: str, setup: SearchSetup, history: Sequence[HistoryItem], number: int
    ) -> Coroutine[Any, Any, dict[str, Any] | None]:
        """Asks for the parameters of trial `number`; None means that the space is exhausted.

        Raises TunerWaits if the tuner waits for the end of another trial.

        `setup` holds space, tuner, seed and direction as plain JSON. `history` is the search's append-only
        list as it stood when the slot of this trial opened: its length is taken at the call, not when
        awaited, so the list may grow meanwhile. It names every trial before `number` as suggested.
        """
        return self._suggest(search_id, setup, history, len(history), number)

    async def _suggest(
        self, search_id: str, setup: SearchSetup, history: Sequence[HistoryItem], upto: int, number: int
    ) -> dict[str, Any] | None:
        taken = _Sent(0, upto, setup, number)

        def ops(generation: int) -> Iterator[AdvisorOp]:
            taken.generation = generation
            before = self._sent.pop(search_id, None)
            start = 0
            if (
                before is not None
                and before.generation == generation
                and before.setup == setup
                and _continues(before, history, upto)
            ):
                start = before.count
            else:
                yield {"op": "open", "kind": "tuner", **setup}
            for item in history[start:upto]:
                yield _op_of(item)
            yield {"op": "ask", "number": number}

        try:
            result: dict[str, Any] | None = await self.lane.request(search_id, ops)
        except TunerWaits:
            taken.asked = None
            self._sent[search_id] = taken
            raise
        # Only now: after any failure the search is opened afresh, as nobody knows how far it came.
        self._sent[search_id] = taken
        return result

    async def forget(self, search_id: str) -> None:
        """Drops the memory of a search that is over."""
        await close(self.lane, search_id, self._sent)
