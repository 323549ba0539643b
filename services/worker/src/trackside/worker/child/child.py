"""The main function of a task process: separates it from the forkserver, then runs its assignments."""

import contextlib
import faulthandler
import os
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

from trackside.sdk import trial
from trackside.telemetry.process_start import end_core_dumps
from trackside.worker.child import phases
from trackside.worker.child.channel.control_channel import ControlChannel, WorkerGoneError
from trackside.worker.child.channel.progress import ProgressFile
from trackside.worker.child.channel.spool import spool_of
from trackside.worker.child.channel.worker_channel import WorkerChannel
from trackside.worker.child.process import at_exit, masking, orphans
from trackside.worker.child.process.parent_death import die_with
from trackside.worker.child.process.process_memory import ProcessMemory
from trackside.worker.child.process.process_reset import ProcessBaseline
from trackside.worker.messages.process_messages import ProcessFree


def main(parent: int, channel: int, stdout: int, stderr: int) -> NoReturn:
    """Runs one task, or many one after another, and ends the process.

    `parent` is the forkserver's pid, the rest are descriptors.
    """
    os.setsid()
    die_with(parent)
    orphans.adopt_orphans()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    at_exit.forget_inherited()
    end_core_dumps()  # one of a task would fill the disk, and may have secrets
    _redirect(stdout, stderr)
    connection = socket.socket(fileno=channel)
    control = ControlChannel(connection)
    with contextlib.suppress(WorkerGoneError):  # the process is not needed any more
        _run(connection, control)
    at_exit.run_functions()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _run(connection: socket.socket, control: ControlChannel) -> None:
    """Runs tasks until one has failed, was the last, or has left what can't be cleaned up."""
    memory = ProcessMemory()
    baseline = ProcessBaseline(memory)
    while True:
        assignment = control.assignment()
        for descriptor, target in zip(control.take_outputs(assignment.outputs), (1, 2), strict=False):
            os.dup2(descriptor, target)
            os.close(descriptor)
        masking.begin(assignment.secrets)
        baseline.apply(assignment)
        progress = ProgressFile(Path(assignment.progress)) if assignment.progress else None
        channel = WorkerChannel(connection, assignment.parameters, spool_of(assignment), progress)
        trial.connect(channel)
        finished = phases.run(assignment, channel, control, memory)
        if not finished or assignment.max_tasks is None:
            return
        channel.close()
        if baseline.restore(assignment.max_tasks, assignment.max_growth_bytes) is not None:
            return
        control.reset()
        channel.send(ProcessFree(**baseline.used))


def _redirect(stdout: int, stderr: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((nothing, 0), (stdout, 1), (stderr, 2)):
        os.dup2(descriptor, target)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a descriptor, for the life of the process
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    faulthandler.enable(file=2)
