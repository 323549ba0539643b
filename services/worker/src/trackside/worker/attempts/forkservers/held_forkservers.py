"""Takes over the task processes that forkservers of earlier workers hold."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from trackside.worker.attempts.forkservers.descriptors import close_all
from trackside.worker.attempts.forkservers.forkserver_connection import ForkserverConnection, TaskProcess
from trackside.worker.child.forkserver import PACKET_BYTES, SUFFIX, short_path
from trackside.worker.messages.forkserver_messages import PROTOCOL, ForkserverOffer, HeldProcess
from trackside.worker.messages.process_messages import FROM_FORKSERVER, UnreadableMessageError, decode

log = structlog.get_logger("trackside.worker")

ANSWER_S = 10.0
"""Seconds that a forkserver has to say what it holds."""
_DESCRIPTORS = 6
_Offer = tuple[HeldProcess, list[int]]


async def take_over(folder: Path) -> tuple[list[ForkserverConnection], dict[str, TaskProcess]]:
    """Returns the forkservers whose sockets are in a folder, and their processes by placement.

    One that can't be taken over is killed, and its processes with it: it doesn't answer, or is of a release
    with other messages.
    """
    connections: list[ForkserverConnection] = []
    processes: dict[str, TaskProcess] = {}
    for path in await asyncio.to_thread(_sockets, folder):
        taken = await asyncio.to_thread(_connect, path)
        if taken is not None:
            control, offers = taken
            connections.append(connection := ForkserverConnection(control))
            processes |= {offer.key: _process(offer, given, connection) for offer, given in offers}
    return connections, processes


def private_folder(path: Path) -> Path:
    """Creates a folder that only this user may use; what is connected to there has the tasks."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def _sockets(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"))


def _connect(path: Path) -> tuple[socket.socket, list[_Offer]] | None:
    """Connects to a forkserver; returns the connection and what it holds, None if that can't be used."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    control.settimeout(ANSWER_S)
    try:
        with short_path(path) as short:
            control.connect(short)
    except OSError:  # it is gone: killed, or ended by itself
        path.unlink(missing_ok=True)
        control.close()
        return None
    offers: list[_Offer] = []
    try:
        first = decode(control.recv(PACKET_BYTES), FROM_FORKSERVER)
        if not isinstance(first, ForkserverOffer) or first.protocol != PROTOCOL:
            raise UnreadableMessageError(f"expected protocol {PROTOCOL}, got {first}")
        offers += [_receive(control) for _ in range(first.processes)]
    except (OSError, UnreadableMessageError) as error:
        log.warning("tasks of an earlier worker can't be taken over: they end", reason=str(error))
        for _, descriptors in offers:
            close_all(descriptors)
        control.close()
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(path.stem), signal.SIGKILL)
        return None
    return control, offers


def _receive(control: socket.socket) -> _Offer:
    packet, descriptors, _, _ = socket.recv_fds(control, PACKET_BYTES, _DESCRIPTORS)
    offer = decode(packet, FROM_FORKSERVER)
    if not isinstance(offer, HeldProcess) or len(descriptors) != _DESCRIPTORS:
        close_all(descriptors)
        raise UnreadableMessageError(f"expected a held process with {_DESCRIPTORS} descriptors, got {offer}")
    return offer, descriptors


def _process(offer: HeldProcess, descriptors: list[int], connection: ForkserverConnection) -> TaskProcess:
    channel, stdout, stderr, *files = descriptors
    first, second, third = map(_content, files)
    exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    process = TaskProcess(
        number=offer.number,
        pid=offer.pid,
        channel=socket.socket(fileno=channel),
        stdout=stdout,
        stderr=stderr,
        exited=exited,
        forkserver=connection,
        leftovers=list(offer.leftovers),
        unread=(first, second, third),
        in_log=offer.in_log,
    )
    if offer.status is not None:
        exited.set_result(os.waitstatus_to_exitcode(offer.status))
    connection.follow(process)
    return process


def _content(descriptor: int) -> bytes:
    """Reads a file from its beginning, and closes it."""
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


def pids_of(processes: Mapping[str, Any]) -> frozenset[int]:
    """Returns the pids of processes."""
    return frozenset(process.pid for process in processes.values())
