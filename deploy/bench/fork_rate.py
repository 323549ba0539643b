"""The reference of P1: processes forked by the worker's forkserver, two at a time, without a log.

It implements the client's side of the protocol itself: the worker's own client also keeps processes ready,
waits until files are on disk and reports, which is the cost that P1 measures.
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

from bench.fresh_stack import SLOTS, TASK_TYPE, TASKS
from bench.measurements import MissingError
from trackside.eventlog.clock import monotonic_s
from trackside.worker.attempts.forkservers.forkserver_client import allowed_environment
from trackside.worker.catalogue.task_catalogue import read_catalogue
from trackside.worker.child.forkserver import PACKET_BYTES
from trackside.worker.messages.assignment import Assignment
from trackside.worker.messages.forkserver_messages import (
    ForkFailed,
    ForkProcess,
    ForkserverReady,
    ProcessExited,
)
from trackside.worker.messages.process_messages import (
    FROM_FORKSERVER,
    FromForkserver,
    LoadCommand,
    TrainCommand,
    decode,
    encode,
)

WARM_UP = 10


@dataclass(frozen=True, slots=True)
class ForkRates:
    """Processes per second: `bare` ones exit at once, `tasks` run the search's task."""

    bare: float
    tasks: float


def measure(count: int) -> ForkRates:
    """Measures both rates over `count` processes each."""
    with TemporaryDirectory(prefix="trackside-bench-") as folder, _Server() as server:
        task = _assignment(Path(folder))
        _rate(server, WARM_UP, task)
        return ForkRates(_rate(server, count, None), _rate(server, count, task))


def _assignment(folder: Path) -> Assignment:
    """Returns the assignment of the benchmark's task, without its ending file."""
    task_type = read_catalogue(TASKS).tasks[TASK_TYPE]
    environment = {"HOME": str(folder), **allowed_environment(os.environ), "TMPDIR": str(folder)}
    program, workdir = list(task_type.program), str(folder)
    return Assignment(task_type.entry, program, task_type.path, {}, environment, workdir, ending="")


def _rate(server: "_Server", count: int, task: Assignment | None) -> float:
    """Returns how many processes per second exit, with two of them running at any time."""
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
    """A forkserver with torch imported, and this end of its socket."""

    def __init__(self) -> None:
        self._channels: dict[int, tuple[socket.socket, Path | None]] = {}

    def __enter__(self) -> "_Server":
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        module, pid = "trackside.worker.child.forkserver", str(os.getpid())
        command = [sys.executable, "-m", module, str(theirs.fileno()), pid]
        environment = {"OMP_NUM_THREADS": "1", **allowed_environment(os.environ)}
        with theirs:
            # Without a folder for a socket it dies with this process.
            self._process = subprocess.Popen(
                [*command, "", "torch"], pass_fds=[theirs.fileno()], env=environment
            )
        ready = self._receive()
        if isinstance(ready, ForkserverReady) and ready.missing:
            raise MissingError(f"the forkserver could not import {ready.missing}")
        return self

    def __exit__(self, *_: object) -> None:
        self._control.close()
        self._process.kill()
        self._process.wait()

    def fork(self, number: int, task: Assignment | None) -> None:
        """Requests a process that runs a task, or that exits because it gets none."""
        ours, theirs = socket.socketpair()
        nothing = os.open(os.devnull, os.O_WRONLY)
        socket.send_fds(self._control, [encode(ForkProcess(number))], [theirs.fileno(), nothing, nothing])
        theirs.close()
        ending = None
        if task is not None:
            ending = Path(task.workdir) / f"{number}.json"
            assignment = task._replace(ending=str(ending))
            messages = encode(assignment) + encode(LoadCommand()) + encode(TrainCommand("cpu"))
            socket.send_fds(ours, [messages], [nothing])
        with suppress(OSError):
            ours.shutdown(socket.SHUT_WR)
        os.close(nothing)
        self._channels[number] = (ours, ending)

    def until_one_ended(self) -> None:
        """Waits for the end of any process; raises MissingError if it went wrong."""
        while not isinstance(message := self._receive(), ProcessExited | ForkFailed):
            pass
        channel, ending = self._channels.pop(message.number)
        channel.close()
        if isinstance(message, ForkFailed) or message.status != 0:
            raise MissingError(f"a process without the log ended with {message}")
        if ending is not None and json.loads(ending.read_text("utf-8"))["end"] != "finished":
            raise MissingError(f"a task without the log left {ending.read_text('utf-8')}")

    def _receive(self) -> FromForkserver:
        return decode(self._control.recv(PACKET_BYTES), FROM_FORKSERVER)
