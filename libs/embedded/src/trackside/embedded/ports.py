"""Free ports of the loopback interface, all below the ephemeral range.

A connect loop on an ephemeral port can connect to itself and take a dead server for a living one
(measured), so every port handed out here is below 32768.
"""

import secrets
import socket

FIRST_PORT = 20_000
LAST_PORT = 32_767
HOST = "127.0.0.1"


def is_free(port: int) -> bool:
    """Tells whether a server could listen on the port of the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int, taken: frozenset[int] = frozenset()) -> list[int]:
    """Gives distinct free ports from 20000 to 32767, none of them in `taken`; OSError if too few are free.

    Drawn at random, so that two stacks that start at the same moment rarely meet.
    """
    found: list[int] = []
    for _ in range(count * 200):
        if len(found) == count:
            return found
        port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT + 1)
        if port not in taken and port not in found and is_free(port):
            found.append(port)
    if len(found) == count:
        return found
    raise OSError(f"found {len(found)} of {count} free ports between {FIRST_PORT} and {LAST_PORT} on {HOST}")
