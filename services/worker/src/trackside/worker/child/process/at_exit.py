"""Runs what a task has registered with `atexit`, as an interpreter does at its end.

A task process is forked and leaves by os._exit, which runs nothing. What modules had registered in the
forkserver is forgotten in its children: it would remove folders that belong to all of them. The same is done
for forked processes of multiprocessing since Python 3.13.
"""

import atexit
import logging
import signal
import sys
import weakref
from types import FrameType
from typing import Any

LIMIT_S = 5.0
"""Seconds that all functions may take together."""
_NEXT_S = 0.1
"""After that, seconds that each further function may take."""


class AtExitTimeoutError(Exception):
    """The functions that a task has registered took too long."""


def forget_inherited() -> None:
    """Forgets what was registered before this process was forked, but for what Python itself needs."""
    finalize: Any = weakref.finalize
    for each in list(finalize._registry):
        each.atexit = False
    atexit._clear()
    atexit.register(logging.shutdown)
    atexit.register(finalize._exitfunc)
    finalize._registered_with_atexit = True
    util: Any = sys.modules.get("multiprocessing.util")
    if util is not None:
        atexit.register(util._exit_function)


def run_functions() -> None:
    """Runs what is registered, each once; one that fails or takes too long is named in the output."""
    before = signal.signal(signal.SIGALRM, _interrupt)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S, _NEXT_S)
    try:
        atexit._run_exitfuncs()
    except AtExitTimeoutError as error:  # it came between two functions
        sys.stderr.write(f"trackside: {error}\n")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise AtExitTimeoutError(
        f"functions registered with atexit took more than {LIMIT_S:g} s and were interrupted"
    )
