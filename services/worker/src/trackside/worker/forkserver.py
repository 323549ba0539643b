"""The process that tasks are forked from: started once, with torch imported, and single-threaded.

It is asked over a Unix socket whose packets are small JSON objects:

    {"fork": 7} and three descriptors: channel, stdout, stderr     -> {"forked": 7, "pid": 4711}
    {"kill": 7, "signal": 15}                                       the process group, if it still lives
                                                                    -> {"exited": 7, "status": 9}
It alone reaps tasks, so only it can know that a pid still means the task: it does the killing too.
When a task's first process has ended, whatever is left of its process group is killed.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

from trackside.worker import child
from trackside.worker.lifeline import die_with

PACKET_BYTES = 65_536
DESCRIPTORS = 3


def main(arguments: Sequence[str]) -> None:
    """Serves until the worker is gone. Arguments: descriptor of the socket, pid of the worker, modules."""
    descriptor, worker_pid, *modules = arguments
    die_with(int(worker_pid))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = socket.socket(fileno=int(descriptor))
    missing = preload(modules)
    gc.collect()
    gc.freeze()
    _Forkserver(control).serve(missing)


def preload(modules: Sequence[str]) -> dict[str, str]:
    """Imports modules; gives those that can't be imported, with the reason."""
    missing = {}
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - a broken module must not stop tasks that don't need it
            missing[module] = f"{type(error).__name__}: {error}"[:500]
    return missing


class _Forkserver:
    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._pids: dict[int, int] = {}
        self._woken, self._waker = os.pipe()

    def serve(self, missing: dict[str, str]) -> None:
        os.set_blocking(self._waker, False)
        os.set_blocking(self._woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self._tell({"ready": os.getpid(), "missing": missing})
        watched: list[socket.socket | int] = [self._control, self._woken]
        while True:
            readable, _, _ = select.select(watched, [], [])
            if self._woken in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._reap()
            if self._control in readable and not self._take():
                return

    def _take(self) -> bool:
        packet, descriptors, _, _ = socket.recv_fds(self._control, PACKET_BYTES, DESCRIPTORS)
        if not packet:
            return False
        request = json.loads(packet)
        if "fork" in request:
            self._fork(request["fork"], descriptors)
        else:
            self._kill(request["kill"], request["signal"])
        return True

    def _fork(self, task: int, descriptors: list[int]) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._tell({"exited": task, "error": f"fork: {error.strerror}"})
        else:
            if pid == 0:
                self._become_child(parent, descriptors)
            self._pids[task] = pid
            self._tell({"forked": task, "pid": pid})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _become_child(self, parent: int, descriptors: list[int]) -> None:
        try:
            signal.set_wakeup_fd(-1)
            self._control.close()
            os.close(self._woken)
            os.close(self._waker)
            child.main(parent, *descriptors)
        finally:
            os._exit(70)

    def _kill(self, task: int, number: int) -> None:
        pid = self._pids.get(task)
        if pid is None:
            return
        try:
            os.killpg(pid, number)
        except ProcessLookupError:  # it has not made its group yet
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reap(self) -> None:
        tasks = {pid: task for task, pid in self._pids.items()}
        while tasks:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            # While it is a zombie nobody else can get its pid, nor a new group its number.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ended.si_pid, signal.SIGKILL)
            _, status = os.waitpid(ended.si_pid, 0)
            task = tasks.pop(ended.si_pid, None)
            if task is not None:
                del self._pids[task]
                self._tell({"exited": task, "status": status})

    def _tell(self, packet: dict[str, Any]) -> None:
        self._control.send(json.dumps(packet).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
