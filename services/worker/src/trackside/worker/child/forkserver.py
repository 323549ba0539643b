"""The process that tasks are forked from: started once, with torch imported, and single-threaded.

It is asked over a Unix socket whose packets are small JSON objects:

    {"fork": 7} and three descriptors: channel, stdout, stderr     -> {"forked": 7, "pid": 4711}
    {"kill": 7, "signal": 15}                                       the process group, if it still lives
                                             -> {"exited": 7, "status": 9, "leftovers": ["4712 sh"]}
It alone reaps tasks, so only it can know that a pid still means the task: it does the killing too.
When a task's first process has ended, whatever it has left is killed, and it has exited once that is gone.
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

from trackside.worker.child import child, huge_pages
from trackside.worker.child import orphans as leftovers
from trackside.worker.child.parent_death import die_with

PACKET_BYTES = 65_536
DESCRIPTORS = 3


def main(arguments: Sequence[str]) -> None:
    """Serves until the worker is gone. Arguments: descriptor of the socket, pid of the worker, modules."""
    descriptor, worker_pid, *modules = arguments
    die_with(int(worker_pid))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = socket.socket(fileno=int(descriptor))
    leftovers.adopt_orphans()
    missing = preload(modules)
    gc.collect()
    gc.freeze()
    huge_pages.collapse()
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
        self._helpers = leftovers.children(os.getpid())  # of a module that was preloaded
        self._going: list[tuple[list[int], dict[str, Any]]] = []

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
        # A child ignores SIGTERM as we do until it has set that back: what comes before then shall wait.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
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
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
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
        while ended := _ended():
            task = next((number for number, pid in self._pids.items() if pid == ended), None)
            if task is None:  # left by a task
                os.waitpid(ended, 0)
                continue
            strays, names = self._kill_orphans()
            # While it is a zombie nobody else can get its pid, nor a new group its number.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ended, signal.SIGKILL)
            _, status = os.waitpid(ended, 0)
            del self._pids[task]
            self._going.append((strays, {"exited": task, "status": status, "leftovers": names}))
        if self._going:
            self._going[-1][0].extend(self._kill_orphans()[0])  # those that were forked meanwhile
        self._tell_who_is_gone()

    def _kill_orphans(self) -> tuple[list[int], list[str]]:
        return leftovers.kill_orphans({*self._pids.values(), *self._helpers})

    def _tell_who_is_gone(self) -> None:
        """Tells of tasks of which nothing is left; the end of what is left wakes us again."""
        going, self._going = self._going, []
        for strays, packet in going:
            if any(leftovers.is_there(pid) for pid in strays):
                self._going.append((strays, packet))
            else:
                self._tell(packet)

    def _tell(self, packet: dict[str, Any]) -> None:
        self._control.send(json.dumps(packet).encode())


def _ended() -> int | None:
    """Gives a child that has ended and wasn't asked about yet."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


if __name__ == "__main__":
    main(sys.argv[1:])
