"""The ceiling of P1: processes forked by the worker's own forkserver, two at a time, with no log.

It speaks the forkserver's protocol itself: the worker's half of it keeps processes ready, waits for files to
be on disk and reports, which is what is measured against it.
"""

import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.figures import MissingError
from bench.place import SLOTS, TASK_TYPE, TASKS
from trackside.eventlog.clock import monotonic_s
from trackside.worker.attempts.forkserver_client import allowed_environment
from trackside.worker.catalogue.task_catalogue import read_catalogue
from trackside.worker.child.control_states import Word, line, spoken
from trackside.worker.child.forkserver import PACKET_BYTES

WARM_UP = 10


@dataclass(frozen=True, slots=True)
class Forks:
    """Processes a second: `bare` end at once, `tasks` run the same task as the search's."""

    bare: float
    tasks: float


def measured(count: int) -> Forks:
    """Measures both rates over `count` processes each."""
    with TemporaryDirectory(prefix="trackside-bench-") as folder, _Server() as server:
        task = _assignment(Path(folder))
        _rate(server, WARM_UP, task)
        return Forks(_rate(server, count, None), _rate(server, count, task))


def _assignment(folder: Path) -> dict[str, Any]:
    """Gives what the worker would tell a process of the bench's task."""
    task_type = read_catalogue(TASKS).tasks[TASK_TYPE]
    environment = {"HOME": str(folder), **allowed_environment(os.environ), "TMPDIR": str(folder)}
    return {
        "entry": task_type.entry,
        "program": task_type.program,
        "path": task_type.path,
        "parameters": {},
        "interrupts": 0,
        "interrupted": 0,
        "outputs": 0,
        "stays": None,
        "workdir": str(folder),
        "environment": environment,
    }


def _rate(server: "_Server", count: int, task: dict[str, Any] | None) -> float:
    """Gives how many a second end, with always two of them under way."""
    began = monotonic_s()
    running, number = 0, 0
    ended = 0
    while ended < count:
        while running < SLOTS and number < count:
            server.fork(number, task)
            running, number = running + 1, number + 1
        server.until_one_ended()
        running, ended = running - 1, ended + 1
    return count / (monotonic_s() - began)


class _Server:
    """A forkserver with torch imported, and our end of its socket."""

    def __init__(self) -> None:
        self._channels: dict[int, tuple[socket.socket, Path | None]] = {}

    def __enter__(self) -> "_Server":
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        module, pid = "trackside.worker.child.forkserver", str(os.getpid())
        command = [sys.executable, "-m", module, str(theirs.fileno()), pid]
        environment = {"OMP_NUM_THREADS": "1", **allowed_environment(os.environ)}
        with theirs:
            self._process = subprocess.Popen([*command, "torch"], pass_fds=[theirs.fileno()], env=environment)
        if missing := json.loads(self._control.recv(PACKET_BYTES))["missing"]:
            raise MissingError(f"the forkserver could not import {missing}")
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()

    def fork(self, number: int, task: dict[str, Any] | None) -> None:
        """Asks for a process that runs a task, or that ends because it gets none."""
        ours, theirs = socket.socketpair()
        nothing = os.open(os.devnull, os.O_WRONLY)
        socket.send_fds(
            self._control, [json.dumps({"fork": number}).encode()], [theirs.fileno(), nothing, nothing]
        )
        theirs.close()
        ending = None
        if task is not None:
            ending = Path(task["workdir"]) / f"{number}.json"
            words = spoken(Word("LOAD")) + spoken(Word("TRAIN", "cpu"))
            socket.send_fds(ours, [line(task | {"ending": str(ending)}) + words], [nothing])
        with suppress(OSError):
            ours.shutdown(socket.SHUT_WR)
        os.close(nothing)
        self._channels[number] = (ours, ending)

    def until_one_ended(self) -> None:
        """Waits for the end of any process; raises MissingError if it went wrong."""
        while "exited" not in (packet := json.loads(self._control.recv(PACKET_BYTES))):
            pass
        channel, ending = self._channels.pop(packet["exited"])
        channel.close()
        if packet.get("status") != 0:
            raise MissingError(f"a process without the log ended with {packet}")
        if ending is not None and json.loads(ending.read_text("utf-8"))["end"] != "finished":
            raise MissingError(f"a task without the log left {ending.read_text('utf-8')}")
