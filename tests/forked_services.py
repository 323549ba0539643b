"""Services as processes forked from one that has imported their code: a start takes a tenth of the time.

The supervisor's spares do so too. A service that imports from folders of its own comes from another process.
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from trackside.worker.child.parent_death import die_with

ROOT = Path(__file__).resolve().parents[1]
IMPORTED_FROM = ("PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD")
"""Variables that say what a process imports: those with others are forked from another process."""


class ForkingProcess:
    """The process that services are forked from; it ends with this one, and they end with it."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.lock = threading.RLock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **question: Any) -> Any:
        """Returns its answer to a question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self.lock:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """Ends it."""
        with self._process:  # closes its input, waits, and closes its output
            pass


class ForkedProcess:
    """A process that another one has forked, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, forking: ForkingProcess, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forking = forking
        self._descriptor = os.pidfd_open(pid)

    def __del__(self) -> None:
        os.close(self._descriptor)

    def send_signal(self, sig: int) -> None:
        """Sends a signal, if it still runs: pids of those that have ended aren't used again before."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._descriptor, sig)

    def kill(self) -> None:
        """Kills it with SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Returns its exit code, negative for a signal; None while it runs."""
        with self._forking.lock:
            if self.returncode is None and select.select([self._descriptor], [], [], 0)[0]:
                self.returncode = self._forking.ask(reap=self.pid)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end, s."""
        if self.returncode is None and not select.select([self._descriptor], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a forked service", timeout or 0)
        code = self.poll()
        assert code is not None
        return code


def fork_service(name: str, environment: Mapping[str, str], output: Path) -> ForkedProcess:
    """Starts a service with an environment, in this process's folder; its output is added to a file."""
    forking = _forking(tuple((each, environment.get(each, "")) for each in IMPORTED_FROM))
    start = {"name": name, "environment": dict(environment), "folder": str(Path.cwd()), "output": str(output)}
    return ForkedProcess(forking, forking.ask(start=start))


@cache
def _forking(variables: tuple[tuple[str, str], ...]) -> ForkingProcess:
    forking = ForkingProcess(dict(variables))
    atexit.register(forking.close)
    return forking


def _serve() -> str:
    """Answers questions until there are none; returns in each new process, with the service that it is."""
    for line in sys.stdin:
        question = json.loads(line)
        if "reap" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["reap"], 0)[1])
        else:
            importlib.import_module(f"trackside.{question['start']['name']}.app")
            gc.freeze()
            parent, answer = os.getpid(), os.fork()
            if not answer:
                return _begin(parent, **question["start"])
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    return ""


def _begin(parent: int, name: str, environment: Mapping[str, str], folder: str, output: str) -> str:
    """Makes this process look as if it had been started with this environment, in a folder."""
    die_with(parent)
    sys.argv = [name]
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    written = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for at, descriptor in enumerate((nothing, written, written)):
        os.dup2(descriptor, at)
    return name


def main() -> None:
    """Runs the process that forks, and in each process that it forks the service."""
    if name := _serve():
        importlib.import_module(f"trackside.{name}.app").main()


if __name__ == "__main__":
    main()
