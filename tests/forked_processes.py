"""Services and commands as processes forked from one that has imported their code.

A start takes a tenth of the time; the supervisor's spares do so too. A service that imports from folders of
its own comes from another process. Commands that start or end stacks, and what another environment has
installed, are started as a user starts them.
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
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.growth import say_what_is_held
from trackside.worker.child.process.parent_death import die_with

COMMAND = Path(sys.executable).with_name("trackside")
COLD = {"demo", "down", "restart", "setup", "up", "upgrade"}
"""Commands that start or end processes which outlive them."""
READ_LATER = ("artifacts.finding", "logs", "models", "publish", "show", "submit", "watch")
MODULES = {"cli": [f"commands.{name}" for name in READ_LATER]}
"""What is imported beside the app of a service or of the command line."""
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
    return _fork([name], Path.cwd(), environment, [Path(os.devnull), output, output], environment)


def run_command(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    text: str = "",
    timeout_s: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Runs `trackside` in a folder to its end; raises subprocess.TimeoutExpired."""
    with TemporaryDirectory() as place:
        files = [Path(place, name) for name in ("stdin", "stdout", "stderr")]
        files[0].write_text(text)
        process = _fork(["cli", *arguments], folder, environment, files, os.environ)
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        output, errors = (file.read_text() for file in files[1:])
        return subprocess.CompletedProcess(["trackside", *arguments], code, output, errors)


def _fork(
    argv: list[str],
    folder: Path,
    environment: Mapping[str, str],
    files: list[Path],
    imported_with: Mapping[str, str],
) -> ForkedProcess:
    forking = _forking(tuple((each, imported_with.get(each, "")) for each in IMPORTED_FROM))
    names = [str(file) for file in files]
    start = {"argv": argv, "folder": str(folder.absolute()), "environment": dict(environment), "files": names}
    return ForkedProcess(forking, forking.ask(start=start))


@cache
def _forking(variables: tuple[tuple[str, str], ...]) -> ForkingProcess:
    forking = ForkingProcess(dict(variables))
    atexit.register(forking.close)
    return forking


def _serve() -> str:
    """Answers questions until there are none; returns in each new process, with the name of its app."""
    for line in sys.stdin:
        question = json.loads(line)
        if "reap" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["reap"], 0)[1])
        else:
            name = question["start"]["argv"][0]
            for module in ("app", *MODULES.get(name, ())):
                importlib.import_module(f"trackside.{name}.{module}")
            gc.freeze()
            parent, answer = os.getpid(), os.fork()
            if not answer:
                _begin(parent, **question["start"])
                return str(name)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    return ""


def _begin(
    parent: int, argv: list[str], folder: str, environment: Mapping[str, str], files: list[str]
) -> None:
    """Makes this process look as if it had been started so."""
    die_with(parent)
    sys.argv = argv
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(files):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.dup2(descriptor, number)
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115 - it stays as long as the process


def main() -> None:
    """Runs the process that forks, and in each process that it forks the service or the command line."""
    if name := _serve():
        say_what_is_held(name)
        importlib.import_module(f"trackside.{name}.app").main()


if __name__ == "__main__":
    main()
