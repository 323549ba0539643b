"""Judges whether a service still works: its event loop answers `/health` in time, or it is stuck.

The supervisor has one thread, so nothing here waits: a request is sent, and its answer read at a later look.
"""

import socket
from pathlib import Path

from trackside.embedded.ports import HOST
from trackside.embedded.processes import processor_times_s

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
        _, waited_s = processor_times_s(Path(f"/proc/{self._pid}"))
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
