"""Short paths of folders for temporary files.

The address of a Unix socket has at most 107 bytes (unix(7)), of which multiprocessing takes 32 for names
below the folder of temporary files. With less room its managers fail, and so does torch's DataLoader with
processes.
"""

import os
import stat
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

MAX_BYTES = 75
"""How long a folder may be so that multiprocessing has its sockets in it."""
LINKS_BELOW = Path("/tmp")


def temporary_folder(workdir: Path) -> Path:
    """Returns a working directory, or a link to it that is made where its path is too long for sockets.

    Links are in a folder of this user alone; without one, it is the working directory in any case.
    """
    link = link_of(workdir)
    if link is None:
        return workdir
    try:
        link.parent.mkdir(mode=0o700, exist_ok=True)
        found = link.parent.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return workdir
        link.unlink(missing_ok=True)
        link.symlink_to(workdir.absolute())
    except OSError:
        return workdir
    return link


def link_of(workdir: Path) -> Path | None:
    """Returns where the link to a folder is; None if it needs none."""
    path = os.fsencode(workdir)
    if len(path) <= MAX_BYTES:
        return None
    return LINKS_BELOW / f"trackside-{os.geteuid()}" / blake2b(path, digest_size=8).hexdigest()


def remove_link(workdir: Path) -> None:
    """Removes the link to a working directory, if there is one."""
    link = link_of(workdir)
    if link is not None:
        with suppress(OSError):
            link.unlink()
