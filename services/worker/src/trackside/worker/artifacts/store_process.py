"""The store process: reads and writes the store for one worker, so that no byte passes its event loop.

It knows the credentials of the host, which the processes of tasks don't, and runs no code of theirs.
`python -m` it with the descriptor of its socket and the pid of its worker, with which it ends.
"""

import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from trackside.artifacts.errors import ArtifactError
from trackside.artifacts.opening import open_store
from trackside.artifacts.settings import StoreSettings
from trackside.artifacts.store import Store
from trackside.worker.artifacts.operations import OPERATIONS
from trackside.worker.artifacts.store_messages import (
    UNREACHABLE,
    StoreAnswer,
    StoreProblem,
    StoreProgress,
    StoreRequest,
    StoreResult,
    decode_request,
    encode_answer,
)
from trackside.worker.child.process.parent_death import die_with

MAX_OPERATIONS = 8
"""How many operations run at once."""
PROGRESS_BYTES = 2**24
"""Progress is told again after so many bytes."""


def main(arguments: Sequence[str]) -> None:
    """Serves until the worker is gone. Arguments: descriptor of the socket, pid of the worker."""
    descriptor, worker_pid = arguments
    die_with(int(worker_pid))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the worker ends it
    serve(socket.socket(fileno=int(descriptor)), StoreSettings())


def serve(connection: socket.socket, settings: StoreSettings) -> None:
    """Carries out the requests of a socket until it is closed."""
    server = _Server(connection, settings)
    with connection.makefile("rb") as lines, ThreadPoolExecutor(MAX_OPERATIONS) as threads:
        for line in lines:
            threads.submit(server.carry_out, decode_request(line))


class _Server:
    def __init__(self, connection: socket.socket, settings: StoreSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._sending = Lock()
        self._opening = Lock()
        self._store: Store | None = None

    def carry_out(self, request: StoreRequest) -> None:
        """Answers one request."""
        try:
            result = OPERATIONS[request.operation](
                self._opened(), request.arguments, _Progress(self._send, request.number).report
            )
        except ArtifactError as error:
            self._send(StoreProblem(request.number, error.code, str(error)))
        except Exception as error:  # noqa: BLE001 - one operation must not end the others
            traceback.print_exc()
            self._send(StoreProblem(request.number, UNREACHABLE, f"{type(error).__name__}: {error}"))
        else:
            self._send(StoreResult(request.number, result))

    def _opened(self) -> Store:
        """Returns the store, opened again until that succeeds: a credential may be added meanwhile."""
        with self._opening:
            if self._store is None:
                self._store = open_store(self._settings)
            return self._store

    def _send(self, answer: StoreAnswer) -> None:
        with self._sending:
            self._connection.sendall(encode_answer(answer))


class _Progress:
    """Tells the progress of a request, but not each of its steps."""

    def __init__(self, send: Callable[[StoreAnswer], None], number: int) -> None:
        self._send = send
        self._number = number
        self._told = 0

    def report(self, done: int, total: int) -> None:
        """Receives how many bytes are done, and how many there are."""
        if done - self._told >= PROGRESS_BYTES:
            self._told = done
            self._send(StoreProgress(self._number, done, total))


if __name__ == "__main__":
    main(sys.argv[1:])
