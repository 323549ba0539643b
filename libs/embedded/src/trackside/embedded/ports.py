"""Free ports of the loopback interface, all below the ephemeral range.

A connect loop on an ephemeral port can connect to itself and mistake a dead server for a live one
(measured), so every port returned here is below 32768.
"""

import json
import secrets
import socket
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from trackside.embedded.files import write_whole

FIRST_PORT = 20_000
LAST_PORT = 32_767
HOST = "127.0.0.1"
RECORD = "ports.json"


def is_free(port: int) -> bool:
    """Returns whether a server could listen on the port of the loopback interface now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(count: int, taken: frozenset[int] = frozenset()) -> list[int]:
    """Returns distinct free ports from 20000 to 32767, none in `taken`; OSError if too few are free."""
    with held_ports(count, taken) as found:
        return found


@contextmanager
def held_ports(count: int, taken: frozenset[int] = frozenset()) -> Iterator[list[int]]:
    """Yields free ports as `free_ports` does, reserved while the block runs (Linux only).

    Servers that listen with SO_REUSEADDR can use them meanwhile.
    """
    found: list[int] = []
    with ExitStack() as held:
        for _ in range(count * 200):
            if len(found) == count:
                break
            port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT + 1)
            if port not in taken and port not in found and _holds(held, port):
                found.append(port)
        if len(found) < count:
            raise OSError(
                f"found {len(found)} of {count} free ports between {FIRST_PORT} and {LAST_PORT} on {HOST}"
            )
        if sys.platform != "linux":
            held.close()  # other systems don't permit to listen on a port that is bound twice
        yield found


def recorded_ports(folder: Path) -> dict[str, int]:
    """Returns the ports that the servers and services of a folder were given last, by name."""
    try:
        recorded: dict[str, int] = json.loads((folder / RECORD).read_text())
    except (OSError, ValueError):
        return {}
    return recorded


@contextmanager
def kept_ports(folder: Path, names: Sequence[str], outside: Collection[str] = ()) -> Iterator[dict[str, int]]:
    """Yields the port of each name: the one that it had before in the folder if that is free, else a new one.

    What listens on the ports of the names in `outside` is not of the stack: these are kept also if they are
    taken. No other stack is given the new ones while the block runs.
    """
    own = set(names) - set(outside)
    kept = {name: port for name, port in recorded_ports(folder).items() if name not in own or is_free(port)}
    missing = [name for name in names if name not in kept]
    with held_ports(len(missing), frozenset(kept.values())) as new:
        ports = {**kept, **dict(zip(missing, new, strict=True))}
        write_whole(folder / RECORD, json.dumps(ports))
        yield ports


def _holds(held: ExitStack, port: int) -> bool:
    """Binds a port exclusively, then lets servers bind it too; returns False if it isn't free."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        probe.bind((HOST, port))
    except OSError:
        probe.close()
        return False
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.enter_context(probe)
    return True
