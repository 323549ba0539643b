"""An event file that is written: each record at once, so that no crash of the program loses one."""

import os
import socket
import weakref
from itertools import count
from pathlib import Path
from threading import Lock

from trackside.eventlog.clock import now_ms
from trackside.summaries.event_files.writing import first_record

_numbers = count()


class EventFile:
    """An event file of a folder, which is made. Any thread may write."""

    def __init__(self, folder: str, suffix: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        time_ms = now_ms()
        self._writing = Lock()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        while True:
            name = f"events.out.tfevents.{time_ms // 1000:010d}.{socket.gethostname()}"
            path = Path(folder) / f"{name}.{os.getpid()}.{next(_numbers)}{suffix}"
            try:
                self._descriptor = os.open(path, flags, 0o666)
            except FileExistsError:  # of another process with this number
                continue
            break
        self.path = path
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self.write(first_record(time_ms))

    def write(self, records: bytes) -> None:
        """Writes whole records. Raises OSError, as for a disk that is full."""
        with self._writing:
            while records:
                records = records[os.write(self._descriptor, records) :]

    def close(self) -> None:
        """Closes the file."""
        with self._writing:
            self._close()
