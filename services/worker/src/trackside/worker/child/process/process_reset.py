"""Resets a warm process between two tasks, and decides whether it may run another one.

Reset are working directory, environment, arguments, import path, output, signal handlers, timers, seeds and
the number of torch's threads. Not reset are modules: their variables and caches, torch's defaults, and the
code as it was when it was imported.
"""

import gc
import os
import random
import signal
import sys
import threading
from typing import Any

from trackside.eventlog.clock import monotonic_s
from trackside.worker.child.process import orphans
from trackside.worker.child.process.process_memory import ProcessMemory, release_memory, torch_cuda
from trackside.worker.messages.assignment import Assignment

TORCH_SEED = 67_280_421_310_721
"""The seed of torch in a new process: c10::detail, default_rng_seed_val."""
THREADS_END_S = 0.1
"""Seconds that ending threads may take."""
_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


class ProcessBaseline:
    """The state of the process before its first task, when this is created."""

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
        self.used: dict[str, int] = {}
        """The memory that it used after its last task, as ProcessMemory.current."""

    def apply(self, assignment: Assignment) -> None:
        """Sets environment, folders, arguments and seeds for a task."""
        os.environ.clear()
        os.environ.update(assignment.environment)
        os.chdir(assignment.workdir)
        sys.path[:] = [assignment.path, *self._path] if assignment.path else self._path
        sys.argv = [assignment.entry] if assignment.entry else assignment.program
        numpy_random = sys.modules.get("numpy.random")
        if numpy_random is not None:  # else all tasks would draw the same numbers
            numpy_random.seed()
        if self._tasks:  # the first one is as it was forked
            random.seed()  # noqa: TID251 - by what the system has: as it is in a new process
            self._reset_torch()

    def _reset_torch(self) -> None:
        torch: Any = sys.modules.get("torch")
        if torch is None:
            return
        torch.default_generator.manual_seed(TORCH_SEED)  # torch.manual_seed takes 1 ms
        cuda = torch_cuda()
        if cuda is not None:
            cuda.manual_seed_all(TORCH_SEED)
        if self._torch_threads not in (0, torch.get_num_threads()):
            torch.set_num_threads(self._torch_threads)

    def restore(self, max_tasks: int, max_growth_bytes: int) -> str | None:
        """Cleans up after a finished task; returns why the process must end, None if it may run another task.

        Its growth is what it uses more than after its first task, on the host and on a device.
        """
        self._tasks += 1
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
        signal.setitimer(signal.ITIMER_REAL, 0)
        release_memory()
        if (reason := self._still_running()) is not None:
            sys.stderr.write(f"trackside: no other task gets this process: {reason}\n")
            return reason
        self._close_output()
        os.chdir("/")
        self.used = self._memory.current()
        used_bytes = sum(self.used.values())
        if self._tasks == 1:
            gc.freeze()  # what the first task has imported stays: it isn't collected again
            self._first_bytes = used_bytes
        grown = used_bytes - self._first_bytes
        self._memory.reset_peaks()
        if self._tasks >= max_tasks:
            return f"it has run {self._tasks} tasks"
        return f"it has grown by {grown} bytes" if grown > max_growth_bytes else None

    def _still_running(self) -> str | None:
        """Returns what of the task still runs; None if nothing does."""
        orphans.reap()
        if orphans.descendants():
            return "a process that the task has left can't be ended"
        if names := self._threads_left():
            return f"threads that the task has left still run: {', '.join(names)}"
        return None

    def _close_output(self) -> None:
        """Closes the task's output, so that later writes are discarded."""
        for stream in (sys.stdout, sys.stderr, *self._streams[1:]):
            if stream is not None:  # a task may have set it so
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = self._streams
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.close(nothing)

    def _threads_left(self) -> list[str]:
        deadline_s = monotonic_s() + THREADS_END_S
        for thread in set(threading.enumerate()) - self._threads:
            thread.join(max(0.0, deadline_s - monotonic_s()))
        return sorted(thread.name for thread in set(threading.enumerate()) - self._threads)
