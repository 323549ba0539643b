"""Signals that come while a service still imports its code: they end it, and nothing is in its way."""

import os
import signal
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)
"""What ends a service cleanly; SIGUSR1 has a worker hand its tasks over to the next one."""


def end_cleanly() -> None:
    """Has these signals end the process with 0, until its event loop takes them; call it before imports."""
    for number in STOP_SIGNALS:
        signal.signal(number, _end)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)  # nothing has begun that could be left unfinished, and an import may catch SystemExit
