"""The process that task processes are forked from: single-threaded, with torch imported once.

Its messages (trackside.worker.process_messages) are packets on a Unix socket. Only the forkserver reaps task
processes, so only it knows whether a pid still belongs to one: therefore it sends the signals, too. When a
task process has ended, the processes that it has left are killed; its exit is reported once they are gone.
"""

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Sequence

from trackside.worker.child import child, huge_pages, orphans
from trackside.worker.child.parent_death import die_with
from trackside.worker.forkserver_messages import (
    ForkFailed,
    ForkProcess,
    ForkserverReady,
    ProcessExited,
    ProcessForked,
)
from trackside.worker.process_messages import (
    TO_FORKSERVER,
    FromForkserver,
    decode,
    encode,
)

PACKET_BYTES = 65_536
DESCRIPTORS = 3


def main(arguments: Sequence[str]) -> None:
    """Serves until the worker is gone. Arguments: descriptor of the socket, pid of the worker, modules."""
    descriptor, worker_pid, *modules = arguments
    die_with(int(worker_pid))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = socket.socket(fileno=int(descriptor))
    orphans.adopt_orphans()
    missing = preload(modules)
    gc.collect()
    gc.freeze()
    huge_pages.collapse()
    _Forkserver(control).serve(missing)


def preload(modules: Sequence[str]) -> dict[str, str]:
    """Imports modules; returns those that can't be imported, with the reasons."""
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
        self._module_processes = orphans.children(os.getpid())  # of a preloaded module
        self._ending: list[tuple[list[int], ProcessExited]] = []

    def serve(self, missing: dict[str, str]) -> None:
        os.set_blocking(self._waker, False)
        os.set_blocking(self._woken, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        self._send(ForkserverReady(os.getpid(), missing))
        watched: list[socket.socket | int] = [self._control, self._woken]
        while True:
            readable, _, _ = select.select(watched, [], [])
            if self._woken in readable:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                self._reap()
            if self._control in readable and not self._handle_packet():
                return

    def _handle_packet(self) -> bool:
        packet, descriptors, _, _ = socket.recv_fds(self._control, PACKET_BYTES, DESCRIPTORS)
        if not packet:
            return False
        message = decode(packet, TO_FORKSERVER)
        if isinstance(message, ForkProcess):
            self._fork(message.number, descriptors)
        else:
            self._kill(message.number, message.signal)
        return True

    def _fork(self, number: int, descriptors: list[int]) -> None:
        parent = os.getpid()
        # Until a child has reset its handlers it ignores SIGTERM, as this process does: block it until then.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            pid = os.fork()
        except OSError as error:
            self._send(ForkFailed(number, f"fork: {error.strerror}"))
        else:
            if pid == 0:
                self._become_child(parent, descriptors)
            self._pids[number] = pid
            self._send(ProcessForked(number, pid))
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
        except BaseException:
            traceback.print_exc()  # to the output of the task, unless that isn't there yet
            raise
        finally:
            os._exit(70)

    def _kill(self, number: int, signal_number: int) -> None:
        pid = self._pids.get(number)
        if pid is None:
            return
        try:
            os.killpg(pid, signal_number)
        except ProcessLookupError:  # it has not created its group yet
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)

    def _reap(self) -> None:
        while ended := _ended_child():
            number = next((number for number, pid in self._pids.items() if pid == ended), None)
            if number is None:  # left by a task
                os.waitpid(ended, 0)
                continue
            left, names = self._kill_orphans()
            # While it is a zombie, its pid and its group can't be reused.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ended, signal.SIGKILL)
            _, status = os.waitpid(ended, 0)
            del self._pids[number]
            self._ending.append((left, ProcessExited(number, status, names)))
        if self._ending:
            self._ending[-1][0].extend(self._kill_orphans()[0])  # those that were forked meanwhile
        self._report_exits()

    def _kill_orphans(self) -> tuple[list[int], list[str]]:
        return orphans.kill_orphans({*self._pids.values(), *self._module_processes})

    def _report_exits(self) -> None:
        """Reports tasks of which no process is left; the exit of a leftover wakes this process again."""
        ending, self._ending = self._ending, []
        for left, message in ending:
            if any(orphans.is_running(pid) for pid in left):
                self._ending.append((left, message))
            else:
                self._send(message)

    def _send(self, message: FromForkserver) -> None:
        self._control.send(encode(message))


def _ended_child() -> int | None:
    """Returns the pid of a child that has ended and wasn't reaped yet; None if there is none."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


if __name__ == "__main__":
    main(sys.argv[1:])
