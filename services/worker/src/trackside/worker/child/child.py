"""What a task's process does first: cut itself off from the forkserver, learn what it shall be, become it."""

import contextlib
import faulthandler
import os
import resource
import signal
import socket
import sys
from typing import NoReturn

from trackside.sdk import trial
from trackside.sdk.channel import WorkerChannel
from trackside.worker.child import orphans as leftovers
from trackside.worker.child import phases
from trackside.worker.child.control_channel import ControlChannel, WorkerGoneError
from trackside.worker.child.parent_death import die_with
from trackside.worker.child.process_memory import ProcessMemory
from trackside.worker.child.process_reset import ProcessBaseline


def main(parent: int, channel: int, stdout: int, stderr: int) -> NoReturn:
    """Runs one task, or many one after another, and ends the process.

    `parent` is the forkserver's pid, the rest are descriptors.
    """
    os.setsid()
    die_with(parent)
    leftovers.adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core of a task's size would fill the disk
    _redirect(stdout, stderr)
    connection = socket.socket(fileno=channel)
    orders = ControlChannel(connection)
    with contextlib.suppress(WorkerGoneError):  # it needs no task after all
        _run(connection, orders)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _run(connection: socket.socket, orders: ControlChannel) -> None:
    """Runs tasks until one has gone wrong, has left what can't be taken away, or was the last."""
    memory = ProcessMemory()
    baseline = ProcessBaseline(memory)
    while True:
        assignment = orders.assignment() | {"locks": orders.locks}
        for descriptor, target in zip(orders.outputs(assignment["outputs"]), (1, 2), strict=False):
            os.dup2(descriptor, target)
            os.close(descriptor)
        baseline.apply(assignment)
        sink = WorkerChannel(connection, assignment["parameters"])
        trial.connect(sink)
        went_well = phases.run(assignment, sink, orders, memory)
        limits = assignment["stays"]
        if not went_well or limits is None:
            return
        sink.close()
        if baseline.restore(limits["tasks"], limits["growth_bytes"]) is not None:
            return
        orders.anew()
        sink.tell({"free": memory.now()})


def _redirect(stdout: int, stderr: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((nothing, 0), (stdout, 1), (stderr, 2)):
        os.dup2(descriptor, target)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a descriptor, for the life of the process
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    faulthandler.enable(file=2)
