"""The process that task processes are forked from: single-threaded, with torch imported once.

Its messages (`worker.messages.process_messages`) are packets on a Unix socket. Only the forkserver reaps task
processes, so only it knows whether a pid still belongs to one: therefore it sends the signals, too. When a
task process has ended, the processes that it has left are killed; its exit is reported once they are gone.

It outlives a worker that adopts tasks, with the processes that this has told it to hold. The next worker
connects to its socket in the file system, and gets these; it forks no more then, and ends with the last one.
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
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, assert_never

from trackside.worker.child import child
from trackside.worker.child.held_processes import HeldProcesses
from trackside.worker.child.process import huge_pages, orphans
from trackside.worker.child.process.parent_death import die_with
from trackside.worker.messages.forkserver_messages import (
    PROTOCOL,
    ForkFailed,
    ForkProcess,
    ForkserverOffer,
    ForkserverReady,
    HoldProcess,
    LogContact,
    ProcessExited,
    ProcessForked,
    ProgressAppended,
    ReleaseProcess,
    SignalProcess,
)
from trackside.worker.messages.process_messages import (
    TO_FORKSERVER,
    FromForkserver,
    ToForkserver,
    decode,
    encode,
)

PACKET_BYTES = 65_536
DESCRIPTORS = 3
SUFFIX = ".socket"
"""What the names of the sockets end with that the next worker connects to."""


def main(arguments: Sequence[str]) -> None:
    """Serves until the worker and all processes that it holds are gone.

    Arguments: descriptor of the socket, pid of the worker, folder for the socket that the next worker
    connects to, modules. Without a folder it dies with the worker, and its processes with it.
    """
    descriptor, worker_pid, folder, *modules = arguments
    if folder:
        os.setsid()  # what ends the worker's group spares it
    else:
        die_with(int(worker_pid))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = socket.socket(fileno=int(descriptor))
    orphans.adopt_orphans()
    missing = preload(modules)
    gc.collect()
    gc.freeze()
    huge_pages.collapse()
    path = Path(folder, f"{os.getpid()}{SUFFIX}") if folder else None
    server = _Forkserver(control, None if path is None else listen(path))
    try:
        server.serve(missing)
    finally:
        if path is not None:
            path.unlink(missing_ok=True)


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
    def __init__(self, control: socket.socket, listener: socket.socket | None) -> None:
        self._control: socket.socket | None = control
        self._listener = listener
        self._held = HeldProcesses()
        self._is_adopted = False
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
        while self._is_needed():
            if self._control is not None:
                self._serve_worker(self._control)
            else:
                self._wait_for_worker()

    def _is_needed(self) -> bool:
        return bool(self._held or self._pids) if self._is_adopted or self._control is None else True

    def _serve_worker(self, control: socket.socket) -> None:
        watched: list[socket.socket | int] = [control, self._woken, *self._listeners()]
        readable, _, _ = select.select(watched, [], [])
        self._reap_if_woken(readable)
        if (control in readable and not self._handle_packet(control)) or self._listener in readable:
            self._on_worker_gone()

    def _wait_for_worker(self) -> None:
        """Reads what the processes write, and ends them when their time without a worker is over."""
        streams = self._held.readable()
        watched: list[socket.socket | int] = [*streams, self._woken, *self._listeners()]
        readable, _, _ = select.select(watched, [], [], self._held.left_s())
        for descriptor in streams.keys() & set(readable):
            streams[descriptor].read()
        self._reap_if_woken(readable)
        for number in self._held.overdue():
            self._kill(number, signal.SIGKILL)
            self._held.release(number)
        if self._listener in readable:
            self._accept()

    def _listeners(self) -> list[socket.socket]:
        return [] if self._listener is None else [self._listener]

    def _reap_if_woken(self, readable: Collection[Any]) -> None:
        if self._woken in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, 4096)
            self._reap()

    def _on_worker_gone(self) -> None:
        """Ends what nobody needs without a worker: processes that have no task, or may not outlive it."""
        assert self._control is not None
        self._control.close()
        self._control = None
        for number in [each for each in self._pids if each not in self._held]:
            self._kill(number, signal.SIGKILL)
        self._held.worker_gone()

    def _accept(self) -> None:
        """Sends a new worker what has outlived the last one."""
        assert self._listener is not None
        control, _ = self._listener.accept()
        offers = self._held.offers()
        try:
            control.send(encode(ForkserverOffer(os.getpid(), PROTOCOL, len(offers))))
            for offer, descriptors in offers:
                socket.send_fds(control, [encode(offer)], descriptors)
        except OSError:  # it is gone: the processes wait for another one
            control.close()
            return
        self._control, self._is_adopted = control, True
        self._held.taken_over()

    def _handle_packet(self, control: socket.socket) -> bool:
        try:
            packet, descriptors, _, _ = socket.recv_fds(control, PACKET_BYTES, DESCRIPTORS)
        except ConnectionResetError:
            return False
        if not packet:
            return False
        self._handle(decode(packet, TO_FORKSERVER), descriptors)
        return True

    def _handle(self, message: ToForkserver, descriptors: list[int]) -> None:
        match message:
            case ForkProcess(number):
                self._fork(number, descriptors)
            case SignalProcess(number, signal_number):
                self._kill(number, signal_number)
            case HoldProcess(number):
                if number in self._pids:
                    self._held.hold(message, self._pids[number], descriptors)
                else:  # it has exited, which the worker has yet to read
                    _close_all(descriptors)
            case ReleaseProcess(number):
                self._held.release(number)
            case ProgressAppended(number, messages):
                self._held.appended(number, messages)
            case LogContact(at_s):
                self._held.contact(at_s)
            case _:
                assert_never(message)

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
            _close_all(descriptors)

    def _become_child(self, parent: int, descriptors: list[int]) -> None:
        try:
            signal.set_wakeup_fd(-1)
            for each in (self._control, *self._listeners()):
                if each is not None:
                    each.close()
            self._held.close()  # those of other tasks
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
            elif self._control is None:
                self._held.exited(message.number, message.status, message.leftovers)
            else:
                self._held.release(message.number)
                self._send(message)

    def _send(self, message: FromForkserver) -> None:
        if self._control is not None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # as is read next
                self._control.send(encode(message))


def listen(path: Path) -> socket.socket:
    """Returns a socket that listens at a path of any length. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with short_path(path) as short:
        listener.bind(short)
    listener.listen()
    return listener


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yields another name of a path that fits into the 108 bytes which the address of a socket may have."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _ended_child() -> int | None:
    """Returns the pid of a child that has ended and wasn't reaped yet; None if there is none."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if found is None else found.si_pid


if __name__ == "__main__":
    main(sys.argv[1:])
