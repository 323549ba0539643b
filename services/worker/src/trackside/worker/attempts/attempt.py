"""Runs one placement: locks, process, what it is told, what it says, how it ended."""

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from trackside.contracts.message import Json
from trackside.contracts.tasks import AttemptEnd, TaskStatus
from trackside.worker.attempts.cgroups import Cgroups
from trackside.worker.attempts.device_locks import DeviceLocks
from trackside.worker.attempts.forkserver_client import (
    ForkserverClient,
    ForkserverGoneError,
    TaskProcess,
    allowed_environment,
)
from trackside.worker.attempts.memory_pressure import MemoryPressure
from trackside.worker.attempts.outcome import Ending, determine_ending, start_failure
from trackside.worker.attempts.output import read_lines
from trackside.worker.catalogue.task_catalogue import TaskType
from trackside.worker.child.control_states import Word, line, spoken
from trackside.worker.child.orphans import MAX_NAMED
from trackside.worker.host.devices import HostDevice, cuda_visible_devices
from trackside.worker.reporting.journal import Journal, JournalEntry
from trackside.worker.reporting.reporter import Reporter

log = structlog.get_logger("trackside.worker")

DRAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """What all placements of a worker share."""

    journal: Journal
    locks: DeviceLocks
    forkserver: ForkserverClient
    host: Mapping[str, str]
    stop_grace_s: float
    pressure: MemoryPressure
    cgroups: Cgroups


@dataclass(frozen=True, slots=True)
class AttemptSpec:
    """What one placement shall do: `shared` devices may have other tasks, too.

    `interrupts` is how often it may run out of memory in training without ending, `interrupted` how often it
    has in earlier placements. `process` is one that has run other tasks of the type and waits for this one.
    """

    entry: JournalEntry
    host_devices: Sequence[HostDevice]
    task_type: TaskType
    parameters: Json
    interrupts: int = 0
    interrupted: int = 0
    shared: bool = False
    process: TaskProcess | None = None


@dataclass(frozen=True, slots=True)
class AttemptListener:
    """Who is told at once: that a training was interrupted, that the process is gone, or that it stays.

    One that stays is free for another task of the type, and says what memory it has.
    """

    interrupted: Callable[[Json], None]
    gone: Callable[[], None]
    stays: Callable[[TaskProcess, Json], None]


class AttemptRun:
    """One placement being run; it trains once it has its devices."""

    def __init__(
        self,
        context: AttemptContext,
        spec: AttemptSpec,
        reporter: Reporter,
        listener: AttemptListener,
        traceparent: str,
    ) -> None:
        self.spec = spec
        self.phase = TaskStatus.INIT
        self._context = context
        self._reporter = reporter
        self._listener = listener
        self._traceparent = traceparent
        self._process: TaskProcess | None = None
        self._killed = False
        self._stays: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked: AttemptEnd | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._written: Mapping[str, Any] | None = None
        self._asks = self._answered = self._taken = 0
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ending] = loop.create_future()
        self._listens: asyncio.Future[asyncio.StreamWriter] = loop.create_future()
        self._telling: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process's id; None before it is there."""
        return self._process.pid if self._process is not None else None

    async def ended(self) -> Ending:
        """Waits until it is known how the attempt ended; its process may take some ms more to be gone."""
        return await self._ended

    async def run_to_end(self, has_devices: bool) -> None:
        """Runs the task until its process is gone or stays; without devices it only loads at first."""
        try:
            ending = await self._run_to_end(has_devices)
        finally:
            self._listens.cancel()
            if self._telling is not None:
                self._telling.cancel()
            if self._process is None and not self._stays.done():
                self._listener.gone()
        if not self._ended.done():
            self._ended.set_result(ending)

    def train(self) -> None:
        """Tells the process that its devices are free now: after it was made without, or interrupted."""
        self._telling = asyncio.get_running_loop().create_task(self._give_devices())

    def send_parameters(self, request: int, parameters: Json | None, problem: str) -> None:
        """Gives the process the answer to its request, once; says again that it has one that it has."""
        if request <= self._taken:
            self._reporter.parameters_taken(request)
        elif self._answered < request == self._asks:  # it speaks, so it listens
            self._answered = request
            self._listens.result().write(spoken(Word("NEXT", "", request, parameters, problem)))

    def stop(self, end: AttemptEnd, grace_s: float | None = None) -> None:
        """Asks the process to end, and kills its group after the grace time; the first reason stays.

        `end` is how the attempt has ended then, unless it had finished.
        """
        if self._asked is not None:
            return
        self._asked = end
        if self._process is not None:
            if self._listens.done() and not self._listens.cancelled():
                self._listens.result().write(spoken(Word("EXIT")))
            self._context.forkserver.kill(self._process, signal.SIGTERM)
            self._kill_after(self._context.stop_grace_s if grace_s is None else grace_s, "SIGTERM")

    async def _run_to_end(self, has_devices: bool) -> Ending:
        unused = self.spec.process
        locks: list[int] = []
        try:
            if has_devices:
                locks = await self._locks()
            if unused is not None and not unused.exited.done():
                self._process, unused = unused, None
            elif self._asked is not None:
                return determine_ending(None, None, self._asked, self.phase)
            else:
                self._process = await self._context.forkserver.take()
        except OSError as error:
            return start_failure(error)
        except ForkserverGoneError:
            return determine_ending(None, None, self._asked, self.phase)
        else:
            self._process.exited.add_done_callback(self._hear_exit)
            return await self._followed(self._process, locks)
        finally:
            _close(locks)
            if unused is not None:
                unused.close()  # it has ended already, or ends with its channel

    async def _locks(self) -> list[int]:
        taken: list[int] = []
        try:
            for host_device in sorted(self.spec.host_devices, key=lambda host_device: host_device.id):
                lock = await self._context.locks.acquire(host_device.id, self.spec.shared)
                taken.append(lock)
        except BaseException:
            _close(taken)
            raise
        return taken

    def _kill_after(self, grace_s: float, what: str) -> None:
        if self._deadline is None:
            kill = partial(self._kill, f"trackside: still there {grace_s:g} s after {what}: killed")
            self._deadline = asyncio.get_running_loop().call_later(grace_s, kill)

    def _kill(self, sentence: str) -> None:
        if self._process is not None:
            self._killed = True
            self._reporter.output("stderr", [sentence])
            self._context.forkserver.kill(self._process, signal.SIGKILL)

    async def _followed(self, process: TaskProcess, locks: list[int]) -> Ending:
        code: int | None
        try:
            code = await self._until_over(process, locks)
        except ForkserverGoneError:
            code = None
        finally:
            if self._deadline is not None:
                self._deadline.cancel()
            if not self._stays.done():
                process.close()
        if self._ended.done():
            return self._ended.result()
        if process is self.spec.process and self.phase is TaskStatus.INIT:
            code = None  # it died before it was this task's: that isn't the task's fault
        written = self._context.journal.ending(self.spec.entry) or self._written
        ending = determine_ending(written, code, self._asked, self.phase, self._memory_ran_out(process))
        return ending | {"leftovers": [*ending.get("leftovers", []), *process.leftovers][:MAX_NAMED]}

    async def _until_over(self, process: TaskProcess, locks: list[int]) -> int | None:
        """Runs the task in its process; gives the exit code, or None if the process stays."""
        await self._context.cgroups.enter(process.pid, process.exited, self.spec.task_type.max_memory_bytes)
        if self._asked is not None:  # asked to stop while the process was made: no code of the task has run
            self._context.forkserver.kill(process, signal.SIGKILL)
        outputs = process.new_outputs() if process is self.spec.process else []
        words = line(self._assignment() | {"outputs": len(outputs)}) + spoken(Word("LOAD"))
        if locks:
            words += self._train_word()
        unsent = _sent(process.channel, words, [*outputs, *locks])
        _close(outputs)
        _close(locks)  # from here on the process holds them, and with its end they are free
        channel, writer = await process.connected()
        writer.write(unsent)
        self._listens.set_result(writer)
        say = self._reporter.output
        listening = [
            asyncio.create_task(self._hear(channel)),
            asyncio.create_task(read_lines(process.stdout, partial(say, "stdout"))),
            asyncio.create_task(read_lines(process.stderr, partial(say, "stderr"))),
        ]
        try:
            over: list[asyncio.Future[Any]] = [process.exited, self._stays]
            await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
            code = None if self._stays.done() else process.exited.result()
            # What has left the group may still hold the pipes open: it is not waited for.
            await asyncio.wait(listening, timeout=DRAIN_S)
        finally:
            for task in listening:
                task.cancel()
            failures = await asyncio.gather(*listening, return_exceptions=True)
        for failure in failures:
            if isinstance(failure, Exception):
                task_id = self.spec.entry.task_id
                log.warning("a task said what can't be read", task=task_id, reason=repr(failure))
        return code

    async def _give_devices(self) -> None:
        writer = await asyncio.shield(self._listens)
        try:
            locks = await self._locks()
        except OSError as error:
            log.error("a device can't be locked", task=self.spec.entry.task_id, reason=str(error))
            self.stop(AttemptEnd.LOST)
            return
        try:
            assert self._process is not None, "it listens"
            with contextlib.suppress(OSError):  # it is dead: its exit code says more
                await writer.drain()
                writer.write(_sent(self._process.channel, self._train_word(), locks))
        finally:
            _close(locks)

    def _train_word(self) -> bytes:
        return spoken(Word("TRAIN", self.spec.host_devices[0].torch_name))

    def _assignment(self) -> dict[str, Any]:
        journal, entry, task_type = self._context.journal, self.spec.entry, self.spec.task_type
        workdir = str(journal.workdir(entry))
        environment = {
            "HOME": str(journal.home),
            **allowed_environment(self._context.host, task_type.environment),
            "TMPDIR": workdir,
            "TRACKSIDE_TASK_ID": entry.task_id,
            "TRACKSIDE_ATTEMPT": str(entry.attempt),
            "TRACKSIDE_WORKDIR": workdir,
            "TRACEPARENT": self._traceparent,
            "CUDA_VISIBLE_DEVICES": cuda_visible_devices(self.spec.host_devices),
        }
        return {
            "entry": task_type.entry,
            "program": task_type.program,
            "path": task_type.path,
            "parameters": self.spec.parameters,
            "interrupts": self.spec.interrupts,
            "interrupted": self.spec.interrupted,
            "workdir": workdir,
            "stays": task_type.stays,
            "ending": str(journal.ending_file(entry)),
            "environment": environment,
        }

    async def _hear(self, channel: asyncio.StreamReader) -> None:
        try:
            while not self._stays.done() and (octets := await channel.readline()):
                self._say(json.loads(octets))
        except ConnectionResetError:
            pass  # killed while it spoke

    def _say(self, word: Mapping[str, Any]) -> None:
        match word:
            case {"status": int(status)}:
                self.phase = TaskStatus.of(status)
                self._reporter.status(self.phase)
            case {"reports": list(items)}:
                self._reporter.reports([(step, value, time_ms) for step, value, time_ms in items])
            case {"final": value}:
                self._reporter.final(value)
            case {"ended": True, **more} if not self._ended.done():
                self._hear_end(more)
            case {"points": list(items)}:
                self._reporter.points([(tag, step, time_ms, value) for tag, step, time_ms, value in items])
            case {"asks": int(request)}:
                self._asks = request
                self._reporter.parameters_requested(request)
            case {"taken": int(request), "goes_on": bool(goes_on)}:
                self._taken = request
                self._reporter.parameters_taken(request)
                self._reporter.count_requests(request, goes_on)
            case {"interrupted": dict(interrupt)}:
                self.phase = TaskStatus.INTERRUPT
                self._listener.interrupted(interrupt)
            case {"free": dict(memory)}:
                self._hear_free(memory)

    def _hear_end(self, said: Mapping[str, Any]) -> None:
        """Ends the attempt before its process has: by its ending on disk, or in the word if that is full."""
        self._written = said.get("ending")
        written = self._context.journal.ending(self.spec.entry) or self._written
        if self._written is None:
            self._context.journal.sync_soon(self.spec.entry)
        if written is not None and self._asked is None:
            assert self._process is not None, "it speaks"
            ran_out = written.get("end") != AttemptEnd.FINISHED and self._memory_ran_out(self._process)
            self._ended.set_result(determine_ending(written, 0, None, self.phase, ran_out))
            self._kill_after(self._context.stop_grace_s, "its end")

    def _memory_ran_out(self, process: TaskProcess) -> bool:
        killed, pressure = self._context.cgroups.killed_for_memory(process.pid), self._context.pressure
        return pressure.nearly_full() or (pressure.oom_killed() if killed is None else killed)

    def _hear_free(self, memory: Json) -> None:
        """Lets another task have the process, unless a signal meant for this one is on its way to it."""
        assert self._process is not None, "it speaks"
        if self._asked is not None or self._killed or not self._ended.done():
            self._context.forkserver.kill(self._process, signal.SIGKILL)
            return
        if self._deadline is not None:
            self._deadline.cancel()
        process, self._process = self._process, None
        process.exited.remove_done_callback(self._hear_exit)
        self._stays.set_result(None)
        self._listener.stays(process, memory)

    def _hear_exit(self, _: asyncio.Future[int]) -> None:
        self._listener.gone()


def _sent(channel: socket.socket, octets: bytes, descriptors: Sequence[int]) -> bytes:
    """Sends descriptors with as many bytes as fit; gives the rest, or nothing if the process is dead."""
    try:
        return octets[socket.send_fds(channel, [octets], descriptors) :]
    except BlockingIOError:
        return octets
    except OSError:
        return b""


def _close(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())
