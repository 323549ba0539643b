"""What a process that runs many tasks goes back to between two of them, and whether it may stay at all.

Working directory, environment, arguments, import path, output, signal handlers, timers, seeds and the number
of torch's threads are for each task as for the first. What a task has done to modules stays: their
variables and caches, torch's defaults, and the code itself as it was when it was imported.
"""

import gc
import os
import random
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any

from trackside.eventlog.clock import monotonic_s
from trackside.worker.child import orphans as leftovers
from trackside.worker.child.process_memory import ProcessMemory, release_memory, torch_cuda

TORCH_SEED = 67_280_421_310_721
"""What torch begins with in a new process: c10::detail, default_rng_seed_val."""
THREADS_END_S = 0.1
"""How long threads that are about to end may take to do so."""
_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


class ProcessBaseline:
    """How things were before the first task, when this is made."""

    def __init__(self, memory: ProcessMemory) -> None:
        self._memory = memory
        self._path = list(sys.path)
        self._streams = sys.stdin, sys.stdout, sys.stderr
        self._handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        self._threads = set(threading.enumerate())
        torch = sys.modules.get("torch")
        self._torch_threads: int = torch.get_num_threads() if torch is not None else 0
        self._tasks = 0
        self._first_bytes = 0

    def apply(self, assignment: Mapping[str, Any]) -> None:
        """Makes everything as the task that is assigned shall find it."""
        os.environ.clear()
        os.environ.update(assignment["environment"])
        os.chdir(assignment["workdir"])
        sys.path[:] = [assignment["path"], *self._path] if assignment["path"] else self._path
        sys.argv = [assignment["entry"]] if assignment["entry"] else assignment["program"]
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is not None:  # else all tasks would draw the numbers of one state
            numpy_random.seed()
        if self._tasks:  # the first one has what a fork gives
            random.seed()  # noqa: TID251 - by what the system has: as it is in a new process
            self._settle_torch()

    def _settle_torch(self) -> None:
        torch: Any = sys.modules.get("torch")
        if torch is None:
            return
        torch.default_generator.manual_seed(TORCH_SEED)  # torch.manual_seed takes 1 ms for all it looks at
        cuda = torch_cuda()
        if cuda is not None:
            cuda.manual_seed_all(TORCH_SEED)
        if self._torch_threads not in (0, torch.get_num_threads()):
            torch.set_num_threads(self._torch_threads)

    def restore(self, most_tasks: int, most_growth_bytes: int) -> str | None:
        """Takes away what a task that has finished has left; gives why the process can't stay, if it can't.

        It has grown by what it has more than at the end of its first task, on the host and on a device.
        """
        self._tasks += 1
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
        signal.setitimer(signal.ITIMER_REAL, 0)
        release_memory()
        if (reason := self._stray()) is not None:
            sys.stderr.write(f"trackside: no other task gets this process: {reason}\n")
            return reason
        self._close_output()
        os.chdir("/")
        if self._tasks == 1:
            gc.freeze()  # what the first task has imported is there to stay: it isn't looked at again
            self._first_bytes = self._bytes()
        grown = self._bytes() - self._first_bytes
        self._memory.reset()
        if self._tasks >= most_tasks:
            return f"it has run {self._tasks} tasks"
        return f"it has grown by {grown} bytes" if grown > most_growth_bytes else None

    def _stray(self) -> str | None:
        """Says what could still speak or work in the name of the task that is over."""
        leftovers.reap()
        if leftovers.descendants():
            return "a process that the task has left can't be ended"
        if names := self._threads_left():
            return f"threads that the task has left still run: {', '.join(names)}"
        return None

    def _close_output(self) -> None:
        """Closes the task's output, so that what is written from now on is nobody's."""
        for stream in (sys.stdout, sys.stderr, *self._streams[1:]):
            if stream is not None:  # a task may have set it so
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = self._streams
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.close(nothing)

    def _threads_left(self) -> list[str]:
        until_s = monotonic_s() + THREADS_END_S
        for thread in set(threading.enumerate()) - self._threads:
            thread.join(max(0.0, until_s - monotonic_s()))
        return sorted(thread.name for thread in set(threading.enumerate()) - self._threads)

    def _bytes(self) -> int:
        return sum(self._memory.now().values())
