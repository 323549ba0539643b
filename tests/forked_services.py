"""Services as processes forked from one that has imported all of them: a start takes a tenth of the time."""

import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.service_processes import ServiceProcess
from trackside.worker.child.parent_death import die_with

SERVICES = ("dispatcher", "scheduler", "worker")


class ForkingProcess:
    """The process that services are forked from; it ends with this one, and they end with it."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **question: Any) -> Any:
        """Returns its answer to a question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """Ends it."""
        with self._process:  # closes its input, waits, and closes its output
            pass


class ForkedProcess(subprocess.Popen[bytes]):
    """A process that another one has forked, with what `ServiceProcess` uses of its own children."""

    def __init__(self, forking: ForkingProcess, pid: int) -> None:
        self.pid, self.returncode = pid, None
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


class ForkedService(ServiceProcess):
    """A service whose process is forked."""

    def __init__(self, name: str, variables: Mapping[str, str], output: Path, *, by: ForkingProcess) -> None:
        self._by, self._name = by, name
        super().__init__(name, variables, output)

    def _started(self) -> "subprocess.Popen[bytes]":
        self._output.touch()
        self._log_offset = self._output.stat().st_size
        asked = {"name": self._name, "variables": self._variables, "output": str(self._output)}
        return ForkedProcess(self._by, self._by.ask(start=asked))


@contextmanager
def forked_services(variables: Mapping[str, str]) -> Iterator[Any]:
    """Yields what to call as `ServiceProcess`."""
    forking = ForkingProcess(variables)
    try:
        yield partial(ForkedService, by=forking)
    finally:
        forking.close()


def _serve() -> str:
    """Answers questions until there are none; returns in each new process, with the service that it is."""
    for line in sys.stdin:
        question = json.loads(line)
        if "reap" in question:
            answer = os.waitstatus_to_exitcode(os.waitpid(question["reap"], 0)[1])
        else:
            parent, answer = os.getpid(), os.fork()
            if not answer:
                return _begin(parent, **question["start"])
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    return ""


def _begin(parent: int, name: str, variables: Mapping[str, str], output: str) -> str:
    """Makes this process look as if it had been started with these variables and this output."""
    die_with(parent)
    os.environ.update(variables)
    written = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for at, descriptor in enumerate((nothing, written, written)):
        os.dup2(descriptor, at)
    return name


def main() -> None:
    """Runs the process that forks, and in each process that it forks the service."""
    apps = {name: importlib.import_module(f"trackside.{name}.app") for name in SERVICES}
    gc.freeze()
    if name := _serve():
        apps[name].main()


if __name__ == "__main__":
    main()
