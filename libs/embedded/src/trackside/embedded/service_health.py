"""Judges whether a service still works: its event loop answers `/health` in time, or it is stuck.

The supervisor has one thread, so nothing here waits: a request is sent, and its answer read at a later look.
"""

import signal
import socket
from pathlib import Path

from trackside.embedded.ports import HOST

STUCK_S = 30.0
"""A service that has not answered for so long is stuck. What it waited for a processor does not count."""
DUMP_S = 10.0
"""How long a stuck service may take to write its stack traces before it is killed."""
LONGEST_LOOK_S = 2.0
"""What one look counts at most: where the supervisor itself was held up, its services were, too."""
REQUEST = f"GET /health HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode()


class HealthWatch:
    """Asks a process that serves its health on a loopback port, again and again."""

    def __init__(self, port: int, pid: int, stuck_s: float = STUCK_S) -> None:
        self.silent_s = 0.0
        """For how long the open request has not been answered, in seconds."""
        self._port, self._pid, self._stuck_s = port, pid, stuck_s
        self._connection: socket.socket | None = None
        self._looked_s = self._waited_s = 0.0

    def look(self, now_s: float) -> bool:
        """Reads an answer or asks again; returns whether the process is stuck at this monotonic time."""
        waited_s = waited_for_processor_s(self._pid)
        if self._connection is None:
            self.silent_s = 0.0
            self._ask()
        elif self._is_answered():
            self.close()
            self.silent_s = 0.0
        else:
            passed_s = min(now_s - self._looked_s, LONGEST_LOOK_S)
            self.silent_s += max(0.0, passed_s - max(0.0, waited_s - self._waited_s))
        self._looked_s, self._waited_s = now_s, waited_s
        return self.silent_s >= self._stuck_s

    def close(self) -> None:
        """Closes the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self) -> None:
        connection = socket.socket()
        connection.settimeout(0.0)
        try:
            connection.connect_ex((HOST, self._port))  # on loopback it is there at once, or refused
            connection.send(REQUEST)
        except OSError:  # it does not listen yet, or no more
            connection.close()
        else:
            self._connection = connection

    def _is_answered(self) -> bool:
        assert self._connection is not None
        try:
            self._connection.recv(1)
        except BlockingIOError:
            return False
        except OSError:  # it has closed the connection: it works, or has ended
            pass
        return True


def waited_for_processor_s(pid: int) -> float:
    """Returns for how long the main thread of a process was ready to run and had no processor, in seconds.

    Source: schedstats of the Linux kernel, /proc/PID/schedstat; 0 where there is none.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def described_end(code: int) -> str:
    """Describes how a process ended by its exit code, which is negative for a signal."""
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        return f"it was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was killed by signal {-code}"
