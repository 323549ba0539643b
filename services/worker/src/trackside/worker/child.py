"""What a task's process does first: cut itself off from the forkserver, learn what it shall be, become it."""

import faulthandler
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from trackside.sdk import trial
from trackside.sdk.channel import WorkerChannel
from trackside.worker import leftovers, phases
from trackside.worker.lifeline import die_with

LOCK_FOLLOWS = b"L"


def main(parent: int, channel: int, stdout: int, stderr: int) -> NoReturn:
    """Runs one task and ends the process; `parent` is the forkserver's pid, the rest are descriptors."""
    os.setsid()
    die_with(parent)
    leftovers.adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    _redirect(stdout, stderr)
    connection = socket.socket(fileno=channel)
    assignment = _assignment(connection)
    _settle(assignment)
    sink = WorkerChannel(connection, assignment["parameters"])
    trial.connect(sink)
    phases.run(assignment, sink)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _redirect(stdout: int, stderr: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((nothing, 0), (stdout, 1), (stderr, 2)):
        os.dup2(descriptor, target)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a descriptor, for the life of the process
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    faulthandler.enable(file=2)


def _assignment(connection: socket.socket) -> dict[str, Any]:
    """Reads what this process shall run; the device's lock comes with it and stays open to the end."""
    mark, locks, _, _ = socket.recv_fds(connection, 1, 1)
    if mark != LOCK_FOLLOWS:
        os._exit(0)  # the worker needs no task after all
    with connection.makefile("rb") as lines:
        found: dict[str, Any] = json.loads(lines.readline())
    return found | {"locks": locks}


def _settle(assignment: Mapping[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(assignment["environment"])
    os.chdir(assignment["workdir"])
    if assignment["path"]:
        sys.path.insert(0, assignment["path"])
    sys.argv = [assignment["entry"]] if assignment["entry"] else assignment["program"]
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:  # else all tasks would draw the numbers that the forkserver's state holds
        numpy_random.seed()
