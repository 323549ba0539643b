"""Descriptors that a worker hands to a task process."""

import os
import socket
from collections.abc import Sequence


def send_with_descriptors(channel: socket.socket, octets: bytes, descriptors: Sequence[int]) -> bytes:
    """Sends descriptors with as many bytes as fit; returns the rest, or nothing if the process is dead."""
    try:
        return octets[socket.send_fds(channel, [octets], descriptors) :]
    except BlockingIOError:
        return octets
    except OSError:
        return b""


def close_all(descriptors: list[int]) -> None:
    """Closes descriptors, and empties the list."""
    while descriptors:
        os.close(descriptors.pop())
