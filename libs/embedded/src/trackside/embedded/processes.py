"""What the supervisor runs: one spec per process, as data, and how processes are spawned."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Check = Literal["started", "exit", "kafka", "kafka-tls", "postgres", "http"]
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


FORKSERVER = b"trackside.worker.child.forkserver"
"""The module of the processes that keep the tasks of a worker that was killed for the next one."""


@dataclass(frozen=True)
class ProcessSpec:
    """A process to keep running: its command, environment, log file, and its readiness check.

    Processes of tier n start once all of tier n-1 are ready. `check` is "exit" for a command that runs once
    and must end with 0; "kafka" (or "kafka-tls"), "postgres" and "http" ask `port` in that protocol, "http"
    for `ready_path`. `env` is added to the supervisor's own environment, without what leads into Postgres
    there: who may read that has it in `env`. `uid` and `gid` are set only where
    root starts it. It writes to the folder `data`. The stack is ready, and continues, without a process that
    is `optional`. One with a `package` is `python -m package`, and may have a spare (see `spares`).
    """

    name: str
    argv: list[str]
    log: str
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    tier: int = 0
    check: Check = "started"
    port: int | None = None
    health_port: int | None = None
    uid: int | None = None
    gid: int | None = None
    stop_signal: str = "SIGTERM"
    data: str | None = None
    ready_path: str = "/ready"
    optional: bool = False
    package: str | None = None


def leads_into_postgres(variable: str) -> bool:
    """Returns whether a variable may have an address or a password of Postgres, ours or its clients'."""
    return variable.startswith(("TRACKSIDE_POSTGRES_", "TRACKSIDE_READER_", "PG"))


def without_postgres(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment without what leads into Postgres."""
    return {name: value for name, value in variables.items() if not leads_into_postgres(name)}


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def adopt_orphans() -> None:
    """Makes this process the parent of the orphans that its children leave behind (Linux only)."""
    if libc := _libc():
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(libc: ctypes.CDLL | None, parent: int) -> Callable[[], None]:
    """Returns what a child runs before exec, so that it is killed when `parent` dies, even if it just did.

    It runs after the child took its uid, which would clear the setting. The signal follows the parent's
    thread, so children are spawned from the supervisor's only one.
    """

    def before_exec() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    return before_exec


def spawn(
    spec: ProcessSpec, log: int | None = None, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Starts a process in a session of its own; OSError if it can't.

    Its output is appended to its log, or written to the descriptor `log`; `stdin` is as for `Popen`.
    """
    if log is None:
        opened = open_log(spec.log)
        try:
            return spawn(spec, opened, stdin)
        finally:
            os.close(opened)
    # The supervisor has one thread and before_exec only makes two system calls, so fork is safe.
    return subprocess.Popen(
        spec.argv,
        env={**without_postgres(os.environ), **spec.env},
        cwd=spec.cwd,
        stdin=stdin,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        user=spec.uid,
        group=spec.gid,
        extra_groups=None if spec.uid is None else [],
        preexec_fn=die_with_parent(_libc(), os.getpid()),
    )


def open_log(path: str) -> int:
    """Opens a log file to append to, which only its owner may read; OSError if it can't be written."""
    Path(path).parent.mkdir(mode=0o700, exist_ok=True)  # not the folder above: it may have been removed
    opened = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.fchmod(opened, 0o600)  # of a file that an earlier release made
    return opened


def signal_group(pid: int, number: int) -> None:
    """Sends a signal to a child's process group; a group that is gone is no error."""
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def children_of(parent: int) -> list[int]:
    """Lists the living or unreaped children of a process (Linux; elsewhere none are listed)."""
    try:
        text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
        return [int(each) for each in text.split()]
    except OSError:
        return _children_by_scan(parent)


def end_all_children() -> None:
    """Kills all children and waits for their end, and so those that this process adopts from them."""
    while left := children_of(os.getpid()):
        for pid in left:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def outlives_parent(pid: int) -> bool:
    """Returns whether a process runs on without its parent: the forkserver of a worker, with the tasks.

    It ends by itself if no next worker takes them over.
    """
    return has_argument(pid, FORKSERVER)


def has_argument(pid: int, argument: bytes) -> bool:
    """Returns whether a process was started with an argument; False for one that is gone."""
    try:
        return argument in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _children_by_scan(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == parent:
            found.append(int(entry.parent.name))
    return found


def processor_times_s(folder: Path) -> tuple[float, float]:
    """Returns for how long a thread has run, and was ready to run and had no processor, in seconds.

    `folder` is /proc/PID for the main thread of a process, or one of /proc/PID/task. Source: schedstats of
    the Linux kernel; (0, 0) where there are none.
    """
    try:
        ran, waited, _ = (folder / "schedstat").read_text().split()
        return int(ran) / 1e9, int(waited) / 1e9
    except (OSError, ValueError):  # it has just ended
        return 0.0, 0.0


def is_alive(pid: int) -> bool:
    """Returns whether a process runs (a zombie does not)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return sys.platform != "linux"
