"""Readiness checks of servers, in their own protocols: an open port alone proves little."""

import http.client
import socket
import ssl
import struct

from trackside.embedded.ports import HOST
from trackside.embedded.processes import Check

CLIENT = b"trackside-check"
METADATA, API_VERSIONS = 3, 18
STARTUP = struct.pack("!i", 196608) + b"user\0trackside\0database\0trackside\0\0"
CANNOT_CONNECT_NOW = b"57P03"


def is_responding(check: Check, port: int | None, timeout_s: float = 2.0, path: str = "/ready") -> bool:
    """Returns whether the server on the loopback port responds now in the protocol that `check` names.

    "http" asks for `path`. "started" and "exit" are always true: whether the process runs or has ended is
    known to its parent.
    """
    if port is None:
        return True
    try:
        match check:
            case "kafka":
                return _kafka(port, timeout_s)
            case "kafka-tls":
                return _kafka_tls(port, timeout_s)
            case "postgres":
                return _postgres(port, timeout_s)
            case "http":
                return _http(port, path, timeout_s)
            case _:
                return True
    except (OSError, struct.error, http.client.HTTPException):
        return False


def _connect(port: int, timeout_s: float) -> socket.socket:
    connection = socket.create_connection((HOST, port), timeout=timeout_s)
    if connection.getsockname() == connection.getpeername():
        connection.close()
        raise ConnectionError(f"connected to itself on port {port}")
    return connection


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the server closed the connection")
        parts += part
    return bytes(parts)


def _kafka(port: int, timeout_s: float) -> bool:
    """Requests Metadata (version 1, no topics): a broker is listed once the controller has registered it."""
    head = struct.pack("!hhih", METADATA, 1, 7, len(CLIENT)) + CLIENT
    request = head + struct.pack("!i", 0)
    with _connect(port, timeout_s) as connection:
        connection.sendall(struct.pack("!i", len(request)) + request)
        (size,) = struct.unpack("!i", _read(connection, 4))
        correlation, brokers = struct.unpack("!ii", _read(connection, size)[:8])
        return bool(correlation == 7 and brokers > 0)


def _kafka_tls(port: int, timeout_s: float) -> bool:
    """Requests ApiVersions over TLS: Kafka answers users only once the controller has registered it.

    Nothing secret is sent, so whose certificate it shows does not matter here.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = struct.pack("!hhih", API_VERSIONS, 0, 7, len(CLIENT)) + CLIENT
    with _connect(port, timeout_s) as plain, context.wrap_socket(plain) as connection:
        connection.sendall(struct.pack("!i", len(request)) + request)
        _size, correlation = struct.unpack("!ii", _read(connection, 8))
        return bool(correlation == 7)


def _postgres(port: int, timeout_s: float) -> bool:
    """Starts a session up to the password request; a server that still recovers returns 57P03."""
    with _connect(port, timeout_s) as connection:
        connection.sendall(struct.pack("!i", len(STARTUP) + 4) + STARTUP)
        kind = _read(connection, 1)
        (size,) = struct.unpack("!i", _read(connection, 4))
        body = _read(connection, size - 4)
        return kind == b"R" or (kind == b"E" and CANNOT_CONNECT_NOW not in body)


def _http(port: int, path: str, timeout_s: float) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    finally:
        connection.close()
