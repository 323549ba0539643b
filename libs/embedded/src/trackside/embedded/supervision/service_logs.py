"""The logs of the processes of a stack: neither they nor what was before grows without limit."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

ROTATED_BYTES = 10_000_000
"""How long a log gets: as long again is what was before it, in `NAME.log.1`."""


def rotate_logs(folder: Path) -> None:
    """Moves what is in long logs to `NAME.log.1`, in place of what was there.

    A process that runs has its log open: so the file is copied and emptied, and the process appends to its
    new end. What is written between both is lost. Without room for the copy the log stays as it is.
    """
    for log in folder.glob("*.log"):
        with suppress(OSError):  # it can't be read or written now: a later call does it
            if log.stat().st_size > ROTATED_BYTES:
                before = log.with_suffix(".log.1")
                before.unlink(missing_ok=True)
                shutil.copy(log, before)
                os.truncate(log, 0)
