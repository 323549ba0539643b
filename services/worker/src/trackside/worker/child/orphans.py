"""Processes that a task leaves behind: found wherever they hid, killed, and named.

A task's first process and the forkserver above it adopt orphans: prctl(2), PR_SET_CHILD_SUBREAPER. So
whatever a task has started stays below one of the two, in any session and with any environment. What a
killed worker has left is found by its lock files, and by TRACKSIDE_WORKDIR in the environment, which no two
placements share.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from trackside.eventlog.clock import monotonic_s
from trackside.worker.redaction import printable, redact

MAX_NAMED = 10
GRACE_S = 0.1
"""How long what is about to end, as the workers of a pool, may take to do so."""
KILL_S = 2.0
"""How long killed processes are waited for; longer takes only one that the kernel can't interrupt."""
MAX_COMMAND_CHARACTERS = 200
MARK = "TRACKSIDE_WORKDIR"
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_PROC = Path("/proc")
_POLL_S = 0.005
_TRACKERS = "resource_tracker"
_SIGKILL_BIT = 1 << (signal.SIGKILL - 1)


def adopt_orphans() -> None:
    """Makes this process the parent of what its descendants leave behind; raises OSError if it can't."""
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def end_descendants() -> list[str]:
    """Kills all processes below this one, waits until they are gone, and names at most 10 of them.

    What ends by itself within GRACE_S isn't named, nor is what Python itself ends with a program: daemonic
    processes of multiprocessing, such as those of a pool, and trackers of shared memory.
    """
    if not descendants():
        return []
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a DataLoader's handler raises when its workers end
    _end_pools()
    _wait_while(lambda: bool(descendants()), GRACE_S)
    found = named(descendants())
    _wait_while(lambda: kill(descendants()), KILL_S)
    return found


def descendants() -> list[int]:
    """Lists all processes below this one that are there."""
    return _below(())


def reap() -> None:
    """Asks of every child of this process that has ended how it has, so that none stays as a zombie."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _end_pools() -> None:
    multiprocessing: Any = sys.modules.get("multiprocessing")
    for process in multiprocessing.active_children() if multiprocessing is not None else ():
        if process.daemon:
            process.terminate()


def kill_orphans(known: Collection[int]) -> tuple[list[int], list[str]]:
    """Kills this process's children that aren't `known`, and all below them; gives their pids and names.

    It doesn't wait until they are gone. What somebody has killed already isn't named.
    """
    strays = _below(known)
    found = named(pid for pid in strays if not _is_doomed(pid))
    kill(strays)
    return strays, found


def kill_marked(workdirs: Collection[str], locks: Collection[str]) -> dict[str, list[str]]:
    """Kills processes that an earlier worker left, and names them by the folder they were made for.

    They have the folder in their environment, or one of the lock files open; those that have only the lock
    are named under it.
    """
    wanted = set(locks)
    found: dict[str, list[int]] = {}
    for pid in _pids():
        if pid == os.getpid() or not is_there(pid):
            continue
        mark = _mark_of(pid)
        place = mark if mark in workdirs else next(iter(wanted & _open_files(pid)), None)
        if place is not None:
            found.setdefault(place, []).append(pid)
    names = {place: named(pid for pid in pids if not _is_doomed(pid)) for place, pids in found.items()}
    for pids in found.values():
        kill(pids)
    return names


def children(pid: int) -> list[int]:
    """Lists the children of a process; none if it is gone."""
    try:
        lists = [(task / "children").read_text() for task in (_PROC / str(pid) / "task").iterdir()]
    except OSError:
        return _children_by_parent(pid)
    return [int(child) for text in lists for child in text.split()]


def _children_by_parent(pid: int) -> list[int]:
    """Lists children where the kernel has no list of them, or a thread ended while it was read."""
    return [each for each in _pids() if _parent(each) == pid]


def _parent(pid: int) -> int:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def _below(spared: Collection[int]) -> list[int]:
    """Lists all processes below this one that are there, but not children that are spared."""
    waiting = [child for child in children(os.getpid()) if child not in spared]
    found = []
    while waiting:
        pid = waiting.pop(0)
        waiting += children(pid)
        if is_there(pid):
            found.append(pid)
    return found


def is_there(pid: int) -> bool:
    """Says whether a process runs; one that has ended and waits for its parent to ask doesn't."""
    return _status(pid).get("State", "X")[0] not in "ZX"


def _is_doomed(pid: int) -> bool:
    """Says whether a process has been sent SIGKILL."""
    status = _status(pid)
    pending = int(status.get("SigPnd", "0"), 16) | int(status.get("ShdPnd", "0"), 16)
    return bool(pending & _SIGKILL_BIT)


def _status(pid: int) -> dict[str, str]:
    try:
        lines = (_PROC / str(pid) / "status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    return dict(line.partition(":\t")[::2] for line in lines)


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _mark_of(pid: int) -> str | None:
    try:
        variables = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = [each for each in variables if each.startswith(f"{MARK}=".encode())]
    return found[0].partition(b"=")[2].decode("utf-8", "replace") if found else None


def _open_files(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.add(os.readlink(entry))  # noqa: PTH115
    return found


def named(pids: Iterable[int]) -> list[str]:
    """Gives pid and command line of processes, of at most 10."""
    names = [name for pid in pids if (name := _name(pid)) is not None]
    return names[:MAX_NAMED]


def _name(pid: int) -> str | None:
    try:
        command = _command(pid)
    except OSError:
        return None
    if _TRACKERS in command:
        return None
    if command == _command(os.getpid()):
        return f"{pid} (forked off the task's process)"
    return f"{pid} {redact(printable(command))[:MAX_COMMAND_CHARACTERS]}"


def _command(pid: int) -> str:
    process = _PROC / str(pid)
    words = (process / "cmdline").read_bytes().split(b"\0")[:-1] or [(process / "comm").read_bytes().strip()]
    return " ".join(word.decode("utf-8", "replace") for word in words)


def kill(pids: Iterable[int]) -> bool:
    """Kills processes; says whether there were any."""
    killed = False
    for pid in pids:
        killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return killed


def _wait_while(condition: Callable[[], bool], limit_s: float) -> None:
    until_s = monotonic_s() + limit_s
    while condition() and monotonic_s() < until_s:
        time.sleep(_POLL_S)
