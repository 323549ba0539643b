"""Orphans: processes that a task leaves running. They are found, killed and named.

The task process and the forkserver above it adopt orphans: prctl(2), PR_SET_CHILD_SUBREAPER. So each process
that a task has started is a descendant of one of the two, in any session and with any environment. The
leftovers of a killed worker are found by its lock files, and by TRACKSIDE_WORKDIR in their environment, which
is unique to a placement.
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
from trackside.worker.child.process.masking import redact
from trackside.worker.output_text import printable

MAX_NAMED = 10
GRACE_S = 0.1
"""Seconds that ending processes, such as the workers of a pool, may take."""
KILL_S = 2.0
"""Seconds to wait for killed processes; only those that the kernel can't interrupt take longer."""
MAX_COMMAND_CHARACTERS = 200
MARK = "TRACKSIDE_WORKDIR"
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_PROC = Path("/proc")
_POLL_S = 0.005
_TRACKERS = "resource_tracker"
_SIGKILL_BIT = 1 << (signal.SIGKILL - 1)


def adopt_orphans() -> None:
    """Makes this process the parent of orphaned descendants. Raises OSError."""
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def end_descendants() -> list[str]:
    """Kills all descendants of this process, waits until they are gone, and returns the names of up to 10.

    Not named are processes that end within GRACE_S, and those that Python ends at its exit: daemonic
    processes of multiprocessing, such as those of a pool, and resource trackers.
    """
    if not descendants():
        return []
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a DataLoader's handler raises when its workers end
    _end_pools()
    _wait_while(lambda: bool(descendants()), GRACE_S)
    found = names_of(descendants())
    _wait_while(lambda: kill(descendants()), KILL_S)
    return found


def descendants() -> list[int]:
    """Returns the pids of all running descendants of this process, which adopts orphans."""
    return _below(()) if _has_children() else []


def _has_children() -> bool:
    """Returns whether this process has children: to ask is quicker than to look for them."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def reap() -> None:
    """Reaps all children of this process that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _end_pools() -> None:
    multiprocessing: Any = sys.modules.get("multiprocessing")
    for process in multiprocessing.active_children() if multiprocessing is not None else ():
        if process.daemon:
            process.terminate()


def kill_orphans(known: Collection[int]) -> tuple[list[int], list[str]]:
    """Kills the children of this process that aren't `known`, with descendants; returns pids and names.

    It doesn't wait until they are gone. Those that have been killed already are not named.
    """
    found_pids = _below(known)
    found = names_of(pid for pid in found_pids if not _is_killed(pid))
    kill(found_pids)
    return found_pids, found


def kill_marked(workdirs: Collection[str], locks: Collection[str]) -> dict[str, list[str]]:
    """Kills processes that an earlier worker left; returns their names by working directory or lock file.

    They have the directory in their environment, or one of the lock files open.
    """
    wanted = set(locks)
    found: dict[str, list[int]] = {}
    for pid in _pids():
        if pid == os.getpid() or not is_running(pid):
            continue
        mark = _mark_of(pid)
        place = mark if mark in workdirs else next(iter(wanted & _open_files(pid)), None)
        if place is not None:
            found.setdefault(place, []).append(pid)
    names = {place: names_of(pid for pid in pids if not _is_killed(pid)) for place, pids in found.items()}
    for pids in found.values():
        kill(pids)
    return names


def children(pid: int) -> list[int]:
    """Returns the children of a process; none if it is gone."""
    try:
        lists = [(task / "children").read_text() for task in (_PROC / str(pid) / "task").iterdir()]
    except OSError:
        return _children_by_parent(pid)
    return [int(child) for text in lists for child in text.split()]


def _children_by_parent(pid: int) -> list[int]:
    """Returns children where the kernel has no list of them, or a thread ended while it was read."""
    return [each for each in _pids() if _parent(each) == pid]


def _parent(pid: int) -> int:
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def _below(spared: Collection[int]) -> list[int]:
    """Returns the running descendants of this process, without the children in `spared` and theirs."""
    unvisited = [child for child in children(os.getpid()) if child not in spared]
    found = []
    while unvisited:
        pid = unvisited.pop(0)
        unvisited += children(pid)
        if is_running(pid):
            found.append(pid)
    return found


def is_running(pid: int) -> bool:
    """Returns whether a process runs; a zombie doesn't."""
    return _status(pid).get("State", "X")[0] not in "ZX"


def _is_killed(pid: int) -> bool:
    """Returns whether a process has been sent SIGKILL."""
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
    with contextlib.suppress(OSError):  # it has ended, or belongs to another user
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.add(os.readlink(entry))  # noqa: PTH115
    return found


def names_of(pids: Iterable[int]) -> list[str]:
    """Returns pid and command line of up to 10 processes."""
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
    """Kills processes; returns whether there were any."""
    killed = False
    for pid in pids:
        killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return killed


def _wait_while(condition: Callable[[], bool], limit_s: float) -> None:
    deadline_s = monotonic_s() + limit_s
    while condition() and monotonic_s() < deadline_s:
        time.sleep(_POLL_S)
