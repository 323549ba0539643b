"""Serves the application in the loop of the service, so that one signal ends both."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

STOP_S = 2
"""How long requests may go on when the service ends, s."""
BACKLOG = 128


class _Server(uvicorn.Server):
    """A server that leaves signals to the service."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield


class AddressTakenError(Exception):
    """Another program listens on the address of the console."""


@asynccontextmanager
async def serving(application: Any, host: str, port: int) -> AsyncIterator[int]:
    """Serves an ASGI application while the block runs, and yields the port; raises AddressTakenError."""
    bound = _bound(host, port)
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_S,
        http="h11",
        ws="none",
        loop="asyncio",
    )
    server = _Server(config)
    running = asyncio.create_task(server.serve(sockets=[bound]), name="console-server")
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        await running


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise AddressTakenError(
            f"the console can't listen on {host}:{port}: {error.strerror}; set TRACKSIDE_CONSOLE_PORT"
        ) from error
    made.listen(BACKLOG)
    made.setblocking(False)
    return made
