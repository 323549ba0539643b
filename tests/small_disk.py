"""A small file system of a test's own that can be filled: memory of the machine, mounted on a folder."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

CHUNK = b"\0" * 2**20


@dataclass(frozen=True)
class SmallDisk:
    """A mounted file system; `filler` is the file that fills it."""

    folder: Path

    @property
    def filler(self) -> Path:
        """The file that takes the room; its folder is made by the mount."""
        return self.folder / "filler"

    def fill(self, leave_bytes: int = 0) -> None:
        """Takes all room but `leave_bytes`."""
        with self.filler.open("ab", buffering=0) as out:
            try:
                while (free := self.free_bytes - leave_bytes) > 0:
                    out.write(CHUNK[:free])
            except OSError:
                return  # another process took the rest

    def empty(self) -> None:
        """Gives the room back."""
        self.filler.unlink(missing_ok=True)

    @property
    def free_bytes(self) -> int:
        """How much room there is."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def make_writable(self, *, writable: bool) -> None:
        """Mounts it again, read-only or not."""
        mode = "remount,rw" if writable else "remount,ro"
        subprocess.run(["mount", "-o", mode, str(self.folder)], check=True)

    def take_inodes(self) -> list[Path]:
        """Makes files until there is no inode for another; returns them."""
        made: list[Path] = []
        while True:
            path = self.folder / f"inode-{len(made)}"
            try:
                path.touch()
            except OSError:
                return made
            made.append(path)


@contextmanager
def small_disk(folder: Path, size: str, inodes: int = 0) -> Iterator[SmallDisk]:
    """Mounts a file system of `size` ("700m") on a folder; skips the test where that isn't allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size},mode=755" + (f",nr_inodes={inodes}" if inodes else "")
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounting.returncode != 0:
        pytest.skip(f"a small file system can't be mounted here, that needs root: {mounting.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
