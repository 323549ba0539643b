"""Being told by the kernel: that a folder has changed, that a process has ended."""

import asyncio
import ctypes
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_MODIFIED = 0x02  # IN_MODIFY
_CREATED_OR_MOVED_HERE = 0x100 | 0x80  # IN_CREATE | IN_MOVED_TO of <sys/inotify.h>
_EVENTS_BYTES = 65_536


@contextmanager
def changes_of(paths: Iterable[Path], kinds: int = _CREATED_OR_MOVED_HERE) -> Iterator[asyncio.Event]:
    """Gives an event that is set whenever a file was made in one of the folders, or moved there."""
    told = asyncio.Event()
    descriptor = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    for path in paths:
        if _LIBC.inotify_add_watch(descriptor, os.fsencode(path), kinds) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", str(path))

    def read() -> None:
        os.read(descriptor, _EVENTS_BYTES)
        told.set()

    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, read)
    try:
        yield told
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def grown(path: Path, enough: Callable[[Path], bool]) -> None:
    """Waits until a file that is written to has in it what it shall have."""
    with changes_of([path], _MODIFIED) as changed:
        while not enough(path):
            await changed.wait()
            changed.clear()


async def ended(pid: int) -> None:
    """Waits until a process has ended; one that is gone already has."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
