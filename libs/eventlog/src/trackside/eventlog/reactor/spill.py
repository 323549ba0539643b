"""A temporary store on disk for state that need not stay in memory. It ends with its process."""

import os
import sqlite3
import zlib
from collections.abc import Iterator, MutableMapping
from typing import Any

import structlog

log = structlog.get_logger("trackside.eventlog")

CACHE_KIB = 1_024
UNLIMITED_CACHE_KIB = 1 << 30
MIN_FREE_BYTES = 64 * 1024**2
FOLDERS = ("/var/tmp", "/usr/tmp", "/tmp")
"""Where SQLite makes temporary files if no variable names a folder."""
_PUT = "INSERT INTO spilled VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET state = excluded.state"


def free_bytes() -> int:
    """Returns how much room there is in the folder in which SQLite makes temporary files."""
    named = (os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR"))
    for folder in (*named, *FOLDERS):
        if folder and os.access(folder, os.W_OK | os.X_OK):
            found = os.statvfs(folder)
            return found.f_bavail * found.f_frsize
    return 0


class SpillStore(MutableMapping[str, bytes]):
    """Maps names to bytes in an anonymous temporary file; while the disk is nearly full, in memory.

    A write that fails would destroy the file, and reading needs room too: changed pages have to leave the
    cache first. So the cache has no limit while there is little room, and nothing is written then.

    A stream of a refused command takes 3 KiB in memory and 0.5 KiB here. A lookup takes about 10 us, so the
    event loop may wait for it.
    """

    def __init__(self) -> None:
        self._opened: sqlite3.Connection | None = None
        self._count = 0
        self._is_in_memory = False

    def __setitem__(self, name: str, state: bytes) -> None:
        replaces = name in self
        self._stay_in_memory(free_bytes() < MIN_FREE_BYTES)
        self._rows(_PUT, name, zlib.compress(state, 1))
        self._count += not replaces

    def __getitem__(self, name: str) -> bytes:
        packed = self._row(name)
        if packed is None:
            raise KeyError(name)
        return zlib.decompress(packed)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._rows("DELETE FROM spilled WHERE name = ?", name)
        self._count -= 1

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._row(name) is not None

    def __iter__(self) -> Iterator[str]:
        rows = self._rows("SELECT name FROM spilled") if self._count else []
        return iter([name for (name,) in rows])

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        """Deletes all entries."""
        if self._opened is not None:
            self._opened.close()
        self._opened, self._count, self._is_in_memory = None, 0, False

    def _row(self, name: str) -> bytes | None:
        if not self._count:
            return None
        found = self._rows("SELECT state FROM spilled WHERE name = ?", name)
        return bytes(found[0][0]) if found else None

    def _rows(self, statement: str, *arguments: object) -> list[Any]:
        """Executes a statement; if the disk became full since the last write, once more in memory."""
        try:
            return self._database().execute(statement, arguments).fetchall()
        except sqlite3.OperationalError:
            if self._is_in_memory:
                raise
            self._stay_in_memory(True)
            return self._database().execute(statement, arguments).fetchall()

    def _stay_in_memory(self, stays: bool) -> None:
        if stays != self._is_in_memory:
            size_kib = UNLIMITED_CACHE_KIB if stays else CACHE_KIB
            self._database().execute(f"PRAGMA cache_size = -{size_kib}")
            self._is_in_memory = stays
            if stays:
                log.warning("can't spill to disk, keeping in memory", reason="the disk is nearly full")

    def _database(self) -> sqlite3.Connection:
        if self._opened is None:
            opened = sqlite3.connect("", isolation_level=None)
            opened.execute("PRAGMA journal_mode = OFF")
            opened.execute("PRAGMA synchronous = OFF")
            opened.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            opened.execute("CREATE TABLE spilled (name TEXT PRIMARY KEY, state BLOB) WITHOUT ROWID")
            self._opened = opened
        return self._opened
