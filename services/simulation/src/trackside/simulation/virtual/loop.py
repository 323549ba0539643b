"""A deterministic event loop: time jumps to the next timer, and processes are killed and paused at any await.

Everything that runs belongs to a process, by its context, or to nobody: then it is the network. A process
that is killed never runs again, with no `finally` and no goodbye, as by SIGKILL; one that is paused finds its
timers overdue when it goes on, as after SIGSTOP and SIGCONT. Either strikes between any two steps.
Nothing here waits for anything outside, so a run is the same each time.

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

from trackside.contracts.ids import CHANCE
from trackside.eventlog.clock import CLOCK
from trackside.telemetry.metrics import MUTED

Result = TypeVar("Result")

EPOCH_MS = 1_800_000_000_000
"""What time it is when a loop begins, ms since 1970."""


class State(Enum):
    """Whether a process runs."""

    RUNNING = auto()
    PAUSED = auto()
    DEAD = auto()


@dataclass(slots=True, eq=False)
class Process:
    """One process: its steps so far, at which of them something strikes, how wrong its wall clock is."""

    name: str
    loop: "VirtualLoop"
    state: State = State.RUNNING
    steps: int = 0
    strike_at: int = -1
    wrong_ms: int = 0
    held: list["_Call"] = field(default_factory=list)
    tasks: list["asyncio.Task[Any]"] = field(default_factory=list)
    """All that may not be done; those that are are forgotten when there are twice as many."""

    most_tasks: int = 32

    def takes(self, task: "asyncio.Task[Any]") -> None:
        """Notes a task."""
        self.tasks.append(task)
        if len(self.tasks) > self.most_tasks:
            self.tasks = [known for known in self.tasks if not known.done()]
            self.most_tasks = 32 + 2 * len(self.tasks)

    def now_ms(self) -> int:
        """Gives the wall clock of the process, ms since 1970."""
        return EPOCH_MS + int(self.loop.now_s * 1000) + self.wrong_ms

    def monotonic_s(self) -> float:
        """Gives the seconds since the loop began."""
        return self.loop.now_s


PROCESS: ContextVar[Process | None] = ContextVar("trackside_process", default=None)


class _Call(asyncio.TimerHandle):
    """A callback that is due; asyncio knows it as a handle."""

    __slots__ = ("arguments", "gone", "process", "what", "where")

    def __init__(
        self,
        what: Callable[..., object],
        arguments: tuple[Any, ...],
        where: Context,
        when: float,
        process: Process | None,
    ) -> None:
        self.what, self.arguments, self.where, self.process = what, arguments, where, process
        self.gone = False
        self._when = when

    def cancel(self) -> None:
        self.gone = True
        self.what, self.arguments = _nothing, ()

    def cancelled(self) -> bool:
        return self.gone


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in the order in which they are due, and those of one moment in the order they came.

    `struck` is called when a process has reached the step at which something is to happen to it.
    """

    def __init__(self, struck: Callable[[Process], None] | None = None) -> None:
        self.network = Context()
        self.network.run(CLOCK.set, self)
        self.network.run(MUTED.set, True)
        self.struck = struck or (lambda _: None)
        self.steps = 0
        self.now_s = 0.0
        self.halted = False
        self._ready: deque[_Call] = deque()
        self._timers: list[tuple[float, int, _Call]] = []
        self._number = 0
        self._processes: list[Process] = []
        self._dead: list[asyncio.Task[Any]] = []
        self._closed = False

    def time(self) -> float:
        """Gives the seconds since the loop began."""
        return self.now_s

    def now_ms(self) -> int:
        """Gives the true time, ms since 1970: the log's."""
        return EPOCH_MS + int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        """Gives the seconds since the loop began."""
        return self.now_s

    def start(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]], chance: Callable[[int], bytes]
    ) -> tuple[Process, asyncio.Task[None]]:
        """Starts a process, with a clock and a chance of its own for ids."""
        process, context = Process(name, self), self.network.copy()
        self._processes.append(process)
        for variable, value in ((PROCESS, process), (CLOCK, process), (CHANCE, chance)):
            context.run(variable.set, value)  # type: ignore[arg-type]
        return process, context.run(lambda: self.create_task(work(), name=name))

    def kill(self, process: Process) -> None:
        """Lets a process never run again; what it had begun is kept, so that nothing of it is cleaned up."""
        process.state = State.DEAD
        self._dead += [task for task in process.tasks if not task.done()]

    def pause(self, process: Process) -> None:
        """Lets a process do nothing until it is resumed."""
        if process.state is State.RUNNING:
            process.state = State.PAUSED

    def resume(self, process: Process) -> None:
        """Lets a paused process go on: all that was due meanwhile is due now."""
        if process.state is State.PAUSED:
            process.state = State.RUNNING
            self._ready.extend(process.held)
            process.held.clear()

    def run_until(self, until_s: float, most_steps: float = inf) -> bool:
        """Runs until `halt` is called; False if it isn't by then, or if nothing is left to do."""
        asyncio._set_running_loop(self)
        self.halted = False
        ready, step, running = self._ready, self._step, State.RUNNING
        try:
            while not self.halted:
                if not ready and not self._next_timers(until_s):
                    return False
                if self.steps > most_steps:
                    return False
                call = ready.popleft()
                process = call.process
                if process is None or process.state is running:
                    step(call, process)
                elif not call.gone:
                    process.held.append(call)  # of a dead one too: what it began can only be ended by these
            return True
        finally:
            asyncio._set_running_loop(None)

    def run_until_complete(self, future: Any) -> Any:
        """Runs a coroutine to its end, in the network's context; raises RuntimeError if it waits for ever."""
        task = self.network.run(lambda: self.create_task(future))
        task.add_done_callback(self.halt, context=self.network)
        if not self.run_until(inf):
            raise RuntimeError("nothing is left to do, and it is not done")
        return task.result()

    def halt(self, *_: object) -> None:
        """Has the loop stop after this step."""
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
        while timers and timers[0][2].gone:
            pop(timers)
        if not timers or timers[0][0] > until_s:
            return False
        now_s = self.now_s = max(self.now_s, timers[0][0])
        while timers and timers[0][0] <= now_s:
            call = pop(timers)[2]
            if not call.gone:
                self._ready.append(call)
        return bool(self._ready)

    def _step(self, call: _Call, process: Process | None) -> None:
        """Runs a callback, unless it was cancelled, or its process is struck first."""
        if call.gone:
            return
        if process is not None:
            process.steps += 1
            if process.steps == process.strike_at:
                self.struck(process)
                if process.state is not State.RUNNING:
                    process.held.append(call)
                    return
        self.steps += 1
        call.where.run(call.what, *call.arguments)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Runs a callback as the last one of this moment."""
        where = context or copy_context()
        call = _Call(callback, args, where, self.now_s, where.get(PROCESS))
        self._ready.append(call)
        return call

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs a callback after so many seconds."""
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Runs a callback at a moment of the loop's time."""
        where = context or copy_context()
        call = _Call(callback, args, where, when, where.get(PROCESS))
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, call))
        return call

    def post(self, delay_s: float, what: Callable[..., object], *arguments: object) -> None:
        """Has the network do something after so many seconds."""
        when = self.now_s + delay_s
        self._number += 1
        call = _Call(what, arguments, self.network, when, None)
        heapq.heappush(self._timers, (when, self._number, call))

    def create_future(self) -> asyncio.Future[Any]:
        """Makes a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Result], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Result]:
        """Makes a task, in the process of whoever calls."""
        context = context or copy_context()
        task = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        if (process := context.get(PROCESS)) is not None:
            process.takes(task)
        return task

    def get_debug(self) -> bool:
        """Says that asyncio needn't look closely."""
        return False

    def is_running(self) -> bool:
        """Says that the loop runs, as far as anybody who asks can see."""
        return not self._closed

    def is_closed(self) -> bool:
        """Says whether the loop is over."""
        return self._closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Passes over what asyncio has to say: processes that are killed leave much behind."""

    def close(self) -> None:
        """Ends all that was ever begun and isn't over, so that nothing of it is left to the collector."""
        if self._closed:
            return
        for process in self._processes:
            process.state, process.strike_at = State.RUNNING, -1
            self._ready.extend(process.held)
            process.held.clear()
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


def _nothing() -> None:
    """Takes the place of a callback that was cancelled."""
