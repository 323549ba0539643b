"""Runs one placement: journal, lock, process, what it says, how it ended."""

import asyncio
import codecs
import contextlib
import json
import os
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from trackside.contracts.message import Json
from trackside.contracts.tasks import TaskStatus
from trackside.worker.catalogue import TaskType
from trackside.worker.child import LOCK_FOLLOWS
from trackside.worker.devices import Place
from trackside.worker.endings import Ending, Why, judged, unstartable
from trackside.worker.journal import Journal, Placement
from trackside.worker.leftovers import NAMED
from trackside.worker.locks import Locks
from trackside.worker.processes import Forkserver, ForkserverGoneError, Process, allowed_environment
from trackside.worker.reporter import Reporter, Source

log = structlog.get_logger("trackside.worker")

MAX_CHANNEL_LINE_BYTES = 4_194_304
MAX_PART_OF_LINE = 65_536
DRAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class Workshop:
    """What all placements of a worker share."""

    journal: Journal
    locks: Locks
    forkserver: Forkserver
    host: Mapping[str, str]
    stop_grace_s: float


class Run:
    """One placement being run. `placement.device_id` is `place.id`."""

    def __init__(
        self,
        shop: Workshop,
        placement: Placement,
        place: Place,
        task_type: TaskType,
        parameters: Json,
    ) -> None:
        self.placement = placement
        self._shop = shop
        self._place = place
        self._task_type = task_type
        self._parameters = parameters
        self._process: Process | None = None
        self._phase = TaskStatus.INIT
        self._why: Why | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    async def ended(self) -> Ending:
        """Waits until it is known how the attempt ended; its process may take some ms more to be gone."""
        return await self._ended

    async def to_end(self, reporter: Reporter, traceparent: str) -> None:
        """Runs the task's process until it is gone."""
        ending = await self._to_end(reporter, traceparent)
        if not self._ended.done():
            self._ended.set_result(ending)

    async def _to_end(self, reporter: Reporter, traceparent: str) -> Ending:
        lock = await self._shop.locks.taken(self._place.id)
        try:
            if self._why is not None:
                return judged(None, None, self._why, self._phase)
            self._process = await self._shop.forkserver.take()
        except OSError as error:
            return unstartable(error)
        except ForkserverGoneError:
            return judged(None, None, self._why, self._phase)
        else:
            return await self._followed(self._process, lock, reporter, traceparent)
        finally:
            os.close(lock)

    def stop(self, why: Why, grace_s: float | None = None) -> None:
        """Asks the process to end, and kills its group after the grace time; the first reason stays."""
        if self._why is not None:
            return
        self._why = why
        if self._process is not None:
            self._shop.forkserver.kill(self._process, signal.SIGTERM)
            self._kill_after(self._shop.stop_grace_s if grace_s is None else grace_s)

    def _kill_after(self, grace_s: float) -> None:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(grace_s, self._kill)

    def _kill(self) -> None:
        if self._process is not None:
            self._shop.forkserver.kill(self._process, signal.SIGKILL)

    async def _followed(self, process: Process, lock: int, reporter: Reporter, traceparent: str) -> Ending:
        code: int | None
        try:
            code = await self._until_gone(process, lock, reporter, traceparent)
        except ForkserverGoneError:
            code = None
        finally:
            if self._deadline is not None:
                self._deadline.cancel()
            process.close()
        ending = judged(self._shop.journal.ending(self.placement), code, self._why, self._phase)
        return ending | {"leftovers": [*ending.get("leftovers", []), *process.leftovers][:NAMED]}

    async def _until_gone(self, process: Process, lock: int, reporter: Reporter, traceparent: str) -> int:
        if self._why is not None:  # asked to stop while the process was made: no task code has run in it
            self._shop.forkserver.kill(process, signal.SIGKILL)
        with contextlib.suppress(OSError):  # it may be dead by now; its exit code says more
            socket.send_fds(process.channel, [LOCK_FOLLOWS], [lock])
        channel, writer = await asyncio.open_connection(sock=process.channel, limit=MAX_CHANNEL_LINE_BYTES)
        writer.write(json.dumps(self._assignment(traceparent)).encode() + b"\n")
        listening = [
            asyncio.create_task(self._hear(channel, reporter)),
            asyncio.create_task(_read_output(process.stdout, "stdout", reporter)),
            asyncio.create_task(_read_output(process.stderr, "stderr", reporter)),
        ]
        try:
            code = await process.exited
            # What has left the group may still hold the pipes open: it is not waited for.
            await asyncio.wait(listening, timeout=DRAIN_S)
        finally:
            for task in listening:
                task.cancel()
            failures = await asyncio.gather(*listening, return_exceptions=True)
            writer.close()
        for failure in failures:
            if isinstance(failure, Exception):
                log.warning(
                    "a task said what can't be read", task=self.placement.task_id, reason=repr(failure)
                )
        return code

    def _assignment(self, traceparent: str) -> dict[str, Any]:
        journal, placement = self._shop.journal, self.placement
        workdir = str(journal.workdir(placement))
        environment = {
            "HOME": str(journal.home),
            **allowed_environment(self._shop.host, self._task_type.environment),
            "TMPDIR": workdir,
            "TRACKSIDE_TASK_ID": placement.task_id,
            "TRACKSIDE_ATTEMPT": str(placement.attempt),
            "TRACKSIDE_WORKDIR": workdir,
            "TRACEPARENT": traceparent,
            "CUDA_VISIBLE_DEVICES": self._place.cuda_visible_devices,
        }
        return {
            "entry": self._task_type.entry,
            "program": self._task_type.program,
            "path": self._task_type.path,
            "parameters": self._parameters,
            "device": self._place.torch_name,
            "workdir": workdir,
            "ending": str(journal.ending_file(placement)),
            "environment": environment,
        }

    async def _hear(self, channel: asyncio.StreamReader, reporter: Reporter) -> None:
        try:
            while line := await channel.readline():
                self._say(json.loads(line), reporter)
        except ConnectionResetError:
            pass  # killed while it spoke

    def _say(self, word: Mapping[str, Any], reporter: Reporter) -> None:
        match word:
            case {"status": int(status)}:
                self._phase = TaskStatus(status)
                reporter.status(self._phase)
            case {"reports": list(items)}:
                reporter.reports([(step, value, time_ms) for step, value, time_ms in items])
            case {"final": value}:
                reporter.final(value)
            case {"ended": True} if not self._ended.done():
                written = self._shop.journal.ending(self.placement)
                if written is not None and self._why is None:
                    self._ended.set_result(judged(written, 0, None, self._phase))
                    self._kill_after(self._shop.stop_grace_s)
            case {"points": list(items)}:
                reporter.points([(tag, step, time_ms, value) for tag, step, time_ms, value in items])


async def _read_output(descriptor: int, source: Source, reporter: Reporter) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    pipe = os.fdopen(os.dup(descriptor), "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    text = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    try:
        while octets := await reader.read(65_536):
            *lines, rest = (rest + text.decode(octets)).split("\n")
            if len(rest) > MAX_PART_OF_LINE:
                lines, rest = [*lines, rest], ""
            if lines:
                reporter.output(source, [_shown(line) for line in lines])
    finally:
        if rest:
            reporter.output(source, [_shown(rest)])
        transport.close()


def _shown(line: str) -> str:
    """Gives what a terminal would show of a line that a progress bar has written over."""
    return line.removesuffix("\r").rpartition("\r")[2]
