"""Ends a process with its parent: forkserver with worker, task process with forkserver.

Source: prctl(2), PR_SET_PDEATHSIG. The signal is sent when the *thread* of the parent that forked ends,
so the parent must fork in its main thread.
"""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def die_with(parent_pid: int) -> None:
    """Makes the kernel kill this process when its parent ends; exits at once if it has ended already.

    Raises OSError if the kernel refuses.
    """
    if _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        os._exit(1)
