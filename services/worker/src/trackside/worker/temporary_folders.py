"""Short paths of folders for temporary files.

The address of a Unix socket has at most 107 bytes (unix(7)), of which multiprocessing takes 32 for names
below the folder of temporary files. With less room its managers fail, and so does torch's DataLoader with
processes.
"""

import os
import stat
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path

MAX_BYTES = 75
"""How long a folder may be so that multiprocessing has its sockets in it."""
LINKS_BELOW = Path("/tmp")


def temporary_folder(workdir: Path) -> Path:
    """Returns a working directory, by a link to the folder that it is in if its path is too long for sockets.

    Links are in a folder of this user alone; without one, it is the working directory in any case.
    """
    link = link_of(workdir.parent)
    if len(os.fsencode(workdir)) <= MAX_BYTES or not _is_made(link, workdir.parent):
        return workdir
    return link / workdir.name


@cache
def link_of(folder: Path) -> Path:
    """Returns where the link to a folder is, if it has one."""
    digest = blake2b(os.fsencode(folder), digest_size=8).hexdigest()
    return LINKS_BELOW / f"trackside-{os.geteuid()}" / digest


def remove_link(folder: Path) -> None:
    """Removes the link to a folder of working directories, if there is one."""
    with suppress(OSError):
        link_of(folder).unlink()


def _is_made(link: Path, folder: Path) -> bool:
    """Makes a link, unless it is there (what cleans /tmp may have removed it); returns if it can be used."""
    target = str(folder.absolute())
    try:
        link.parent.mkdir(mode=0o700, exist_ok=True)
        found = link.parent.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return False
        if link.is_symlink() and str(link.readlink()) == target:
            return True
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    except OSError:
        return False
    return True
