"""A small file system of a test's own that can be filled: memory of the machine, mounted on a folder."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

CHUNK = b"\0" * 2**20
SHRINK_TRIES = 20
REFILL_S = 0.1


@dataclass(frozen=True)
class SmallDisk:
    """A mounted file system; `filler` is the file that fills it, `size` how large it was mounted."""

    folder: Path
    size: str = ""

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

    @contextmanager
    def kept_full(self) -> Iterator[None]:
        """Takes all room, also what others give back, for the duration of the block."""
        over = threading.Event()

        def fill() -> None:
            while not over.wait(REFILL_S):
                self.fill()

        self.fill()
        filling = threading.Thread(target=fill)
        filling.start()
        try:
            yield
        finally:
            over.set()
            filling.join()
            self.empty()

    def empty(self) -> None:
        """Frees the room."""
        self.filler.unlink(missing_ok=True)

    def shrink(self, leave_bytes: int = 0) -> None:
        """Makes it so small that it has no room but `leave_bytes`: unlike `fill`, it takes no memory."""
        for _ in range(SHRINK_TRIES):  # one fails if something was written meanwhile
            found = os.statvfs(self.folder)
            used_bytes = (found.f_blocks - found.f_bfree) * found.f_frsize
            if self._remount(f"size={used_bytes + leave_bytes}").returncode == 0:
                return
        raise OSError(f"{self.folder} can't be made smaller: something is written to it all the time")

    def restore(self) -> None:
        """Makes it as large again as it was mounted."""
        self._remount(f"size={self.size}").check_returncode()

    def _remount(self, option: str) -> subprocess.CompletedProcess[bytes]:
        command = ["mount", "-o", f"remount,{option}", str(self.folder)]
        return subprocess.run(command, check=False, capture_output=True)

    @property
    def free_bytes(self) -> int:
        """How much room there is."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def make_writable(self, *, writable: bool) -> None:
        """Mounts it again, read-only or not."""
        self._remount("rw" if writable else "ro").check_returncode()

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


class NotMountableError(Exception):
    """Explains why no small file system can be mounted here."""


@contextmanager
def mounted_disk(folder: Path, size: str, inodes: int = 0) -> Iterator[SmallDisk]:
    """Mounts a file system of `size` ("700m") on a folder during the block; NotMountableError."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size},mode=755" + (f",nr_inodes={inodes}" if inodes else "")
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounting.returncode != 0:
        raise NotMountableError(
            f"a small file system can't be mounted here, that needs root: {mounting.stderr.strip()}"
        )
    try:
        yield SmallDisk(folder, size)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


@contextmanager
def small_disk(folder: Path, size: str, inodes: int = 0) -> Iterator[SmallDisk]:
    """Does the same for a test, which is skipped where that isn't allowed."""
    with ExitStack() as mounts:
        try:
            disk = mounts.enter_context(mounted_disk(folder, size, inodes))
        except NotMountableError as error:
            pytest.skip(str(error))
        yield disk
