"""Runs `trackside` in a process of its own that is forked from one which has imported it already.

Most of a short command are its imports: this way a test that types twenty commands pays for them once. What
starts and ends stacks, and what another environment has installed, is started as a user starts it.
"""

import gc
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from trackside.cli.app import ALLOCATIONS, call

COMMAND = Path(sys.executable).with_name("trackside")
COLD = {"demo", "down", "restart", "setup", "up", "upgrade"}
"""They start or end processes that outlive them."""
IMPORTED = ("artifacts.finding", "logs", "models", "publish", "show", "submit", "watch")
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, *(f"trackside.cli.commands.{name}" for name in IMPORTED)])


def run_warm(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    text: str = "",
    timeout_s: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder to its end; raises subprocess.TimeoutExpired."""
    with TemporaryDirectory() as place:
        files = [Path(place, name) for name in ("stdin", "stdout", "stderr")]
        files[0].write_text(text)
        process = _CONTEXT.Process(target=_run, args=(list(arguments), folder, dict(environment), files))
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(list(arguments), timeout_s)
        output, errors = (file.read_text() for file in files[1:])
        return subprocess.CompletedProcess(["trackside", *arguments], process.exitcode, output, errors)


def _run(arguments: list[str], folder: Path, environment: dict[str, str], files: list[Path]) -> None:
    for number, file in enumerate(files):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115 - it stays as long as the process
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    gc.set_threshold(ALLOCATIONS)
    sys.exit(call(arguments))
