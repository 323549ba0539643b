"""The stack's folder: its lock, its leash, and its two files, the plan and the status of what runs."""

import errno
import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trackside.embedded.errors import StackError, StackMissing, StackOfAnotherUser, StackRunning
from trackside.embedded.files import write_whole
from trackside.embedded.postgres.account import user_name
from trackside.embedded.processes import ProcessSpec
from trackside.embedded.service_health import STUCK_S
from trackside.telemetry.disk_limits import DiskLimits

NAME = ".trackside"
PLAN_CHANGED = signal.SIGUSR1
"""What the supervisor is signalled when plan.json has more processes than it runs."""
DISK_LOW = "disk_low"
"""The subject of the problem that a disk is nearly full: while it is there, no new task is started."""


@dataclass(frozen=True)
class Plan:
    """What the supervisor runs: processes in starting order, and the addresses that clients need.

    With `ephemeral` the folder is removed once everything has stopped. With `leash` everything stops when the
    process that holds the leash is gone, however it died. The supervisor answers on `health_port`; `disk` is
    when it says that a disk is nearly full. `store` is the URL of the store of artifacts; `reader_dsn` has
    the login of dashboards, and is empty where a Postgres was given without one. `secure` is the folder with
    the files of clients of a Kafka with users, or empty. A service whose event loop takes no turn for
    `stuck_s` seconds is ended and started again. One that was ready for `spares_after_s` seconds gets a
    spare, if given.
    """

    processes: list[ProcessSpec]
    bootstrap_servers: str
    postgres_dsn: str
    ephemeral: bool = False
    leash: str | None = None
    grace_s: float = 10.0
    health_port: int | None = None
    disk: DiskLimits = field(default_factory=DiskLimits)
    store: str = ""
    reader_dsn: str = ""
    secure: str = ""
    stuck_s: float = STUCK_S
    spares_after_s: float | None = None


@dataclass
class ProcessStatus:
    """The status of one process: `state` is waiting, starting, ready, ended, restarting or blocked.

    A blocked process can't write: it is started when it can. `obstacle` says what is in its way. The stack is
    ready without one that is `optional`; one that runs `once` is a command. `last_end` says how it ended
    last, at `last_end_ms` since 1970. One that starts may have records of the log to fold, which it is
    `behind`.
    """

    name: str
    state: str = "waiting"
    pid: int | None = None
    restarts: int = 0
    health_port: int | None = None
    log: str = ""
    obstacle: str = ""
    port: int | None = None
    optional: bool = False
    once: bool = False
    last_end: str = ""
    last_end_ms: int = 0
    behind: int = 0


@dataclass
class StackStatus:
    """The status of a stack, as in stack.json; `state` is starting, running, stopping, stopped or failed.

    `problems` are sentences about what is wrong now, by subject; `store` is the URL of the artifacts.
    """

    state: str
    supervisor_pid: int
    bootstrap_servers: str
    postgres_dsn: str
    reason: str | None = None
    processes: dict[str, ProcessStatus] = field(default_factory=dict)
    health_port: int | None = None
    problems: dict[str, str] = field(default_factory=dict)
    store: str = ""
    reader_dsn: str = ""
    secure: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether all processes that the stack needs are ready, and it starts new tasks."""
        needed = [each for each in self.processes.values() if not each.optional]
        ready = all(each.state in ("ready", "ended") for each in needed)
        return self.state == "running" and ready and DISK_LOW not in self.problems


def claim(folder: Path) -> Path:
    """Creates the folder of a stack unless it exists; returns its resolved path.

    StackError if it can't be made or written. StackOfAnotherUser if another user started the stack in it,
    for root too: started by both in turn, a stack has files that one of them can't write.
    """
    folder = folder.resolve()
    try:
        os.fsencode(folder).decode()  # Java, in a UTF-8 locale, opens no path that isn't UTF-8
        # Postgres may run as another user, who must be able to pass through; the files inside stay private.
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        if (folder / "lock").exists() and (folder / "lock").stat().st_uid != os.geteuid():
            raise of_another_user(folder)
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
            read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
            number = errno.EROFS if read_only else errno.EACCES
            raise OSError(number, os.strerror(number))
    except OSError as error:
        raise unusable(folder, error) from error
    except UnicodeDecodeError as error:
        raise StackError(
            f"a stack can't be started in {str(folder)!r}: the path isn't UTF-8; rename the folder"
        ) from error
    return folder


def current_folder() -> Path:
    """Returns the current folder; StackError if it was removed."""
    try:
        return Path.cwd()
    except OSError as error:
        raise StackError(
            f"the current folder can't be used: {error.strerror}; change to one that exists"
        ) from error


def unusable(folder: Path, error: OSError) -> StackError:
    """Returns the error that says why no stack can be started in a folder, and what to do."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            advice = "make room there (see `df` and `df -i`), or start it on another disk"
        case errno.EEXIST | errno.ENOTDIR | errno.EISDIR:
            advice = "something else is in its place: rename that"
        case errno.ENOENT:
            advice = "something was removed meanwhile: start it again"
        case None:  # no port is free
            advice = "stop other programs that listen there"
        case _:
            advice = "start it in a folder of your own"
    name = error.filename if isinstance(error.filename, str) else ""
    where = f"{name}: " if name not in ("", str(folder)) else ""
    return StackError(f"a stack can't be started in {folder}: {where}{error.strerror or error}; {advice}")


def of_another_user(folder: Path) -> StackOfAnotherUser:
    """Returns the error that names the owner of the folder's stack, and what to do."""
    owner = user_name((folder / "lock").stat().st_uid)
    return StackOfAnotherUser(
        f"the stack in {folder} is {owner}'s, and this is {user_name(os.geteuid())}: do this as {owner}, or "
        "start a stack in another folder"
    )


def write_plan(folder: Path, plan: Plan) -> None:
    """Writes plan.json, readable by its owner only because it holds the password of Postgres."""
    write_whole(folder / "plan.json", json.dumps(asdict(plan), indent=1))


def read_plan(folder: Path) -> Plan:
    """Reads plan.json back."""
    values: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    made = {
        "processes": [ProcessSpec(**each) for each in values["processes"]],
        "disk": DiskLimits(**values["disk"]),
    }
    return Plan(**{**values, **made})


def write_status(folder: Path, status: StackStatus) -> None:
    """Writes stack.json in one step, readable by its owner only because it holds the password of Postgres."""
    write_whole(folder / "stack.json", json.dumps(asdict(status), indent=1))


def read_status(folder: Path) -> StackStatus:
    """Reads stack.json; StackMissing if the folder has none, StackError if it can't be read."""
    path = folder / "stack.json"
    try:
        values: dict[str, Any] = json.loads(path.read_text())
        processes = {name: ProcessStatus(**each) for name, each in values.pop("processes").items()}
        return StackStatus(**values, processes=processes)
    except FileNotFoundError:
        raise StackMissing(f"no stack was started in {folder}: run `trackside up`") from None
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise StackError(
            f"{path} can't be read ({error}): stop the stack with the release that started it, or remove "
            "the file if none runs"
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Holds the folder's lock and yields its descriptor; StackRunning if another stack holds it.

    A process that inherits the descriptor meanwhile continues to hold the lock.
    """
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _locks(handle, fcntl.LOCK_EX):
            if not _locks(handle, fcntl.LOCK_SH):
                raise StackRunning(
                    f"a stack already runs in {folder}: see it with `trackside status`, stop it with"
                    " `trackside down`"
                )
            fcntl.flock(handle, fcntl.LOCK_UN)  # another process only checks the lock and releases it at once
        yield handle
    finally:
        os.close(handle)


def is_locked(folder: Path) -> bool:
    """Returns whether a stack holds the folder's lock; the system releases it when the process ends."""
    try:
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _locks(handle, fcntl.LOCK_SH)
    finally:
        os.close(handle)


def change_of_place(folder: Path, lock: int) -> str:
    """Returns what happened to a folder whose lock this process holds: "removed", "moved", or nothing, ""."""
    held = os.fstat(lock)
    if held.st_nlink == 0:
        return "removed"
    try:
        return "" if os.path.samestat(held, (folder / "lock").stat()) else "moved"
    except (FileNotFoundError, NotADirectoryError):
        return "moved"
    except OSError:
        return ""  # nothing can be known now


def _locks(handle: int, how: int) -> bool:
    """Locks a file, shared or exclusive; returns False if another process holds a conflicting lock."""
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


@contextmanager
def held_leash(path: Path) -> Iterator[Path]:
    """Holds a leash, a named pipe: stacks started with it stop when this process closes it or dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield path
    finally:
        os.close(handle)
        path.unlink(missing_ok=True)


def open_leash(path: str | None) -> int | None:
    """Opens the supervisor's end of a leash, if there is one."""
    return None if path is None else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def is_cut(leash: int | None) -> bool:
    """Returns whether no process holds the other end of the leash any more."""
    if leash is None:
        return False
    try:
        return os.read(leash, 1) == b""
    except BlockingIOError:
        return False
