"""A deterministic event loop: time jumps to the next timer; processes are killed and paused at any await.

Everything that runs belongs to a process, by its context, or to the network. A process that is killed never
runs again, and none of its `finally` blocks do, as after SIGKILL; one that is paused finds its timers overdue
when it is resumed, as after SIGSTOP and SIGCONT. Both happen between any two steps. Nothing waits for
anything outside the loop, so every run of a seed is the same.

The idea is FoundationDB's; event loops with virtual time are known from looptime and aiotools.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from types import TracebackType
from typing import Any, TypeVar

from trackside.contracts.envelope.ids import CHANCE
from trackside.eventlog.clock import CLOCK
from trackside.telemetry.metrics import MUTED

_T = TypeVar("_T")

EPOCH_MS = 1_800_000_000_000
"""The wall clock when a loop begins, ms since 1970."""


class ProcessState(Enum):
    """The state of a simulated process."""

    RUNNING = auto()
    PAUSED = auto()
    DEAD = auto()


@dataclass(slots=True, eq=False)
class SimulatedProcess:
    """One process: its steps so far, the step of its next fault, the error of its wall clock."""

    name: str
    loop: "VirtualLoop"
    state: ProcessState = ProcessState.RUNNING
    steps: int = 0
    fault_at_step: int = -1
    clock_error_ms: int = 0
    deferred: list["_Call"] = field(default_factory=list)
    tasks: list["asyncio.Task[Any]"] = field(default_factory=list)
    """Its tasks; those that are done are dropped when the list has doubled."""

    compact_tasks_at: int = 32

    def add_task(self, task: "asyncio.Task[Any]") -> None:
        """Adds a task."""
        self.tasks.append(task)
        if len(self.tasks) > self.compact_tasks_at:
            self.tasks = [known for known in self.tasks if not known.done()]
            self.compact_tasks_at = 32 + 2 * len(self.tasks)

    def now_ms(self) -> int:
        """Returns the wall clock of the process, ms since 1970."""
        return EPOCH_MS + int(self.loop.now_s * 1000) + self.clock_error_ms

    def monotonic_s(self) -> float:
        """Returns the seconds since the loop began."""
        return self.loop.now_s


PROCESS: ContextVar[SimulatedProcess | None] = ContextVar("trackside_process", default=None)


class _Call(asyncio.TimerHandle):
    """A scheduled callback; asyncio knows it as a handle."""

    __slots__ = ("arguments", "callback", "context", "is_cancelled", "process")

    def __init__(
        self,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: Context,
        when: float,
        process: SimulatedProcess | None,
    ) -> None:
        self.callback, self.arguments, self.context, self.process = callback, arguments, context, process
        self.is_cancelled = False
        self._when = when

    def cancel(self) -> None:
        self.is_cancelled = True
        self.callback, self.arguments = _do_nothing, ()

    def cancelled(self) -> bool:
        return self.is_cancelled


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in the order in which they are due, and those of one time in the order of their calls.

    `on_fault` is called with a process that has reached its `fault_at_step`.
    """

    def __init__(self, on_fault: Callable[[SimulatedProcess], None] | None = None) -> None:
        self.network = Context()
        self.network.run(CLOCK.set, self)
        self.network.run(MUTED.set, True)
        self.on_fault = on_fault or (lambda _: None)
        self.steps = 0
        self.now_s = 0.0
        self.halted = False
        self._ready: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._number = 0
        self._processes: list[SimulatedProcess] = []
        self._dead: list[asyncio.Task[Any]] = []
        self._closed = False

    def time(self) -> float:
        """Returns the seconds since the loop began."""
        return self.now_s

    def now_ms(self) -> int:
        """Returns the true time, which is that of the log, ms since 1970."""
        return EPOCH_MS + int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        """Returns the seconds since the loop began."""
        return self.now_s

    def start(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]], random_bytes: Callable[[int], bytes]
    ) -> tuple[SimulatedProcess, asyncio.Task[None]]:
        """Starts a process with its own clock and its own random bytes for ids."""
        process, context = SimulatedProcess(name, self), self.network.copy()
        self._processes.append(process)
        for variable, value in ((PROCESS, process), (CLOCK, process), (CHANCE, random_bytes)):
            context.run(variable.set, value)  # type: ignore[arg-type]
        return process, context.run(lambda: self.create_task(work(), name=name))

    def kill(self, process: SimulatedProcess) -> None:
        """Stops a process for good; its tasks are kept, so that no `finally` of them runs."""
        process.state = ProcessState.DEAD
        self._dead += [task for task in process.tasks if not task.done()]

    def pause(self, process: SimulatedProcess) -> None:
        """Suspends a process until it is resumed."""
        if process.state is ProcessState.RUNNING:
            process.state = ProcessState.PAUSED

    def resume(self, process: SimulatedProcess) -> None:
        """Resumes a paused process: all that was due meanwhile is due now."""
        if process.state is ProcessState.PAUSED:
            process.state = ProcessState.RUNNING
            self._ready.extend(process.deferred)
            process.deferred.clear()

    def run_until(self, until_s: float, max_steps: float = inf) -> bool:
        """Runs until `halt` is called; returns False at `until_s`, or if nothing is left to do."""
        asyncio._set_running_loop(self)
        self.halted = False
        ready, step, running = self._ready, self._step, ProcessState.RUNNING
        try:
            while not self.halted:
                if not ready and not self._next_timers(until_s):
                    return False
                if self.steps > max_steps:
                    return False
                call = ready.popleft()
                process = call.process
                if process is None or process.state is running:
                    step(call, process)
                elif not call.is_cancelled:
                    process.deferred.append(call)  # of a dead one too: `close` ends its tasks by them
            return True
        finally:
            asyncio._set_running_loop(None)

    def run_until_complete(self, future: Any) -> Any:
        """Runs a coroutine to its end, as part of the network; raises RuntimeError if it never ends."""
        task = self.network.run(lambda: self.create_task(future))
        task.add_done_callback(self.halt, context=self.network)
        if not self.run_until(inf):
            raise RuntimeError("nothing is left to do, and it is not done")
        return task.result()

    def halt(self, *_: object) -> None:
        """Stops the loop after this step."""
        self.halted = True

    def _drain(self) -> None:
        """Runs what is ready now, whatever the time."""
        asyncio._set_running_loop(self)
        try:
            while self._ready:
                call = self._ready.popleft()
                self._step(call, call.process)
        finally:
            asyncio._set_running_loop(None)

    def _next_timers(self, until_s: float) -> bool:
        timers, pop = self._timers, heapq.heappop
        while timers and timers[0][2].is_cancelled:
            pop(timers)
        if not timers or timers[0][0] > until_s:
            return False
        now_s = self.now_s = max(self.now_s, timers[0][0])
        while timers and timers[0][0] <= now_s:
            call = pop(timers)[2]
            if not call.is_cancelled:
                self._ready.append(call)
        return bool(self._ready)

    def _step(self, call: _Call, process: SimulatedProcess | None) -> None:
        """Runs a callback, unless it was cancelled, or a fault hits its process first."""
        if call.is_cancelled:
            return
        if process is not None:
            process.steps += 1
            if process.steps == process.fault_at_step:
                self.on_fault(process)
                if process.state is not ProcessState.RUNNING:
                    process.deferred.append(call)
                    return
        self.steps += 1
        call.context.run(call.callback, *call.arguments)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Runs a callback after those that are due now."""
        context = context or copy_context()
        call = _Call(callback, args, context, self.now_s, context.get(PROCESS))
        self._ready.append(call)
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs a callback after `delay` seconds."""
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs a callback at `when` of the loop's time."""
        context = context or copy_context()
        call = _Call(callback, args, context, when, context.get(PROCESS))
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, call))
        return call

    def post(self, delay_s: float, callback: Callable[..., object], *arguments: object) -> None:
        """Schedules a callback of the network after `delay_s`."""
        when = self.now_s + delay_s
        self._number += 1
        call = _Call(callback, arguments, self.network, when, None)
        heapq.heappush(self._timers, (when, self._number, call))

    def create_future(self) -> asyncio.Future[Any]:
        """Returns a new future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, _T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[_T]:
        """Starts a task in the process of its caller."""
        context = context or copy_context()
        task = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        if (process := context.get(PROCESS)) is not None:
            process.add_task(task)
        return task

    def get_debug(self) -> bool:
        """Returns False: asyncio's debug mode is off."""
        return False

    def is_running(self) -> bool:
        """Returns whether the loop can run: that is all that callers need."""
        return not self._closed

    def is_closed(self) -> bool:
        """Returns whether the loop is closed."""
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignores what asyncio reports: killed processes leave many unfinished tasks."""

    def close(self) -> None:
        """Cancels everything that is unfinished, so that the collector finds nothing."""
        if self._closed:
            return
        for process in self._processes:
            process.state, process.fault_at_step = ProcessState.RUNNING, -1
            self._ready.extend(process.deferred)
            process.deferred.clear()
        while left := [task for task in {*self._dead, *asyncio.all_tasks(self)} if not task.done()]:
            for task in left:
                task.cancel()
            self._drain()
        self._closed = True

    def __enter__(self) -> "VirtualLoop":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _do_nothing() -> None:
    """Replaces a cancelled callback."""
