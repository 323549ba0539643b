"""The status of a stack as its supervisor has it in memory: on a full disk `stack.json` is out of date.

The supervisor answers `/health`, `/ready` and `/status` on a loopback port from its only thread, one request
at a time. The passwords of Postgres are in no answer: every user of the machine may ask.
"""

import contextlib
import http.client
import json
import socket
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from trackside.embedded.folder import ProcessStatus, StackStatus, read_status
from trackside.embedded.ports import HOST

ASK_S = 3.0
"""How long the supervisor may take to answer: a readiness check of a stalled server takes it 2 s."""
REQUEST_S = 0.2
"""How long a client may take to send its request, while the supervisor does nothing else."""
REQUEST_BYTES = 4_096
WITH_PASSWORD = ("postgres_dsn", "reader_dsn")


def current_status(folder: Path) -> StackStatus:
    """Returns the status that the supervisor answers with, else that in stack.json; StackMissing if none."""
    written = read_status(folder)
    answer = json_answer(written.health_port, "/status", ASK_S) if written.health_port else None
    if answer is None or answer.get("supervisor_pid") != written.supervisor_pid:
        return written
    processes = {name: ProcessStatus(**each) for name, each in answer.pop("processes").items()}
    return replace(written, **answer, processes=processes)


def json_answer(port: int, path: str, timeout_s: float) -> dict[str, Any] | None:
    """Returns the object that a process of the stack answers with; None without an answer in time."""
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        found = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return found if isinstance(found, dict) else None


def listen(port: int) -> socket.socket:
    """Returns the listening socket of the supervisor; OSError if the port is taken."""
    listening = socket.create_server((HOST, port), backlog=16)
    listening.setblocking(False)
    return listening


def answer_requests(listening: socket.socket, status: StackStatus) -> None:
    """Answers the requests that are waiting; a client that sends none in time gets no answer."""
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:  # none is waiting, or it is gone again
            return
        with connection, contextlib.suppress(OSError):
            connection.settimeout(REQUEST_S)
            connection.sendall(_response(_request_line(connection), status))


def _request_line(connection: socket.socket) -> str:
    head = b""
    while b"\r\n\r\n" not in head and len(head) < REQUEST_BYTES:
        part = connection.recv(REQUEST_BYTES)
        if not part:
            break
        head += part
    return head.partition(b"\r\n")[0].decode("latin-1")


def _response(request_line: str, status: StackStatus) -> bytes:
    body: dict[str, Any]
    code = "200 OK"
    match request_line.split()[:2]:
        case ["GET", "/health"]:
            body = {"service": "supervisor", "alive": True}
        case ["GET", "/ready"]:
            waiting = "; ".join(status.problems.values()) or None
            body = {"service": "supervisor", "ready": status.is_ready, "waiting": waiting}
            code = code if status.is_ready else "503 Service Unavailable"
        case ["GET", "/status"]:
            body = {name: value for name, value in asdict(status).items() if name not in WITH_PASSWORD}
        case _:
            body, code = {"error": "available: GET /health, /ready and /status"}, "404 Not Found"
    octets = json.dumps(body).encode() + b"\n"
    head = f"HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {len(octets)}\r\n"
    return head.encode() + b"Cache-Control: no-store\r\nConnection: close\r\n\r\n" + octets
