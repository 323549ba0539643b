"""Services as real processes: started with settings, killed by tests, stopped at the end of a test."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.forked_processes import ForkedProcess, fork_service

STOP_S = 60.0


class ServiceProcess:
    """One process of a service; its output goes to a file, which is shown if the test fails."""

    def __init__(self, name: str, variables: Mapping[str, str], output: Path) -> None:
        self._name = name
        self._variables = dict(variables)
        self._output = output
        self._log_offset = 0
        self.process = self._started()

    def restart(self) -> None:
        """Kills the process with SIGKILL and starts it again."""
        self.kill()
        self.start()

    def kill(self) -> None:
        """Kills the process with SIGKILL."""
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Starts it again after it was killed."""
        self.process = self._started()

    @property
    def is_up(self) -> bool:
        """Whether the process has logged that it started; before that, a signal ends it at once."""
        return b"service started" in self._output.read_bytes()[self._log_offset :]

    def stop(self) -> int:
        """Stops it with SIGTERM and returns its exit code.

        One that has not ended after a minute is aborted, and writes to its output where it is.
        """
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            return self.process.wait()

    def _started(self) -> ForkedProcess:
        self._output.touch()
        self._log_offset = self._output.stat().st_size
        return fork_service(self._name, {**os.environ, **self._variables}, self._output)


@contextmanager
def service_process(name: str, variables: Mapping[str, str], folder: Path) -> Iterator[ServiceProcess]:
    """Runs a service while the block does; once it is up, it must exit with 0 on SIGTERM."""
    running = ServiceProcess(name, variables, folder / f"{name}.log")
    try:
        yield running
    except BaseException:
        sys.stderr.write(f"--- {name} ---\n{(folder / f'{name}.log').read_text()[-4000:]}\n")
        raise
    finally:
        was_up = running.is_up
        code = running.stop()
    assert code == 0 or (code == -signal.SIGTERM and not was_up), (
        f"{name} ended with {code}: {(folder / f'{name}.log').read_text()[-4000:]}"
    )
