"""What a stack has written anywhere: records, rows, files, traces, and what lists of processes show."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import asyncpg
from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.e2e.harness import UserFolder
from trackside.eventlog.kafka.kafka_log import KafkaLog


@dataclass
class Answers:
    """A server on loopback that keeps what it receives, and gives each request one answer.

    It has no object of S3: what is asked of one before it is read or written is answered so.
    """

    status: int
    body: bytes = b""
    received: list[bytes] = field(default_factory=list)

    @contextmanager
    def served(self, port: int = 0) -> Iterator[int]:
        """Serves for a block; yields the port."""

        def answer(request: BaseHTTPRequestHandler) -> None:
            self.received.append(request.rfile.read(int(request.headers.get("Content-Length", 0))))
            is_about_object = request.command == "HEAD" and request.path.count("/") > 1
            request.send_response(404 if is_about_object else self.status)
            request.send_header("Content-Length", str(len(self.body)))
            request.end_headers()
            if request.command != "HEAD":
                request.wfile.write(self.body)

        methods = {f"do_{name}": answer for name in ("GET", "HEAD", "PUT", "POST", "DELETE")}
        quiet: dict[str, Callable[..., None]] = {"log_message": lambda *_: None}
        server = ThreadingHTTPServer(
            ("127.0.0.1", port), type("Handler", (BaseHTTPRequestHandler,), methods | quiet)
        )
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()


class Told:
    """Runs commands in a folder and keeps what they say."""

    def __init__(self, home: UserFolder) -> None:
        self.home, self.said = home, list[str]()

    def run(self, *arguments: str) -> str:
        """Runs a command that must end with 0; returns its output."""
        return self.ended(0, *arguments)

    def ended(self, code: int, *arguments: str) -> str:
        """Runs a command that must end with a code; returns its output."""
        ended = self.home.run(*arguments)
        self.said.append(ended.stdout + ended.stderr)
        assert ended.returncode == code, self.said[-1]
        return ended.stdout

    def submit(self, name: str, spec: str, *more: str) -> None:
        """Submits a spec under its name."""
        (self.home.path / f"{name}.yaml").write_text(spec)
        self.run("submit", f"{name}.yaml", "--id", name, *more)


async def records(bootstrap: str, prefix: str) -> list[bytes]:
    """Returns topic, key, headers and value of each record in each topic with a prefix."""
    found = list[bytes]()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        async with KafkaLog(bootstrap, client_id="test") as log:
            names = [name for name in await consumer.topics() if name.startswith(prefix)]
            ends = {
                TopicPartition(name, at): end for name in names for at, end in (await log.ends(name)).items()
            }
        consumer.assign([*ends])
        for place, end in ends.items():
            while await consumer.position(place) < end:
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    for each in batch:
                        found.append(
                            repr((each.topic, each.key, each.headers)).encode() + (each.value or b"")
                        )
    finally:
        await consumer.stop()
    return found


async def rows(dsn: str) -> list[bytes]:
    """Returns each row of each table of a database."""
    connection = await asyncpg.connect(dsn)
    try:
        tables = await connection.fetch(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        return [
            f"{table} {row}".encode()
            for (table,) in tables
            for (row,) in await connection.fetch(f"SELECT t::text FROM {table} t")  # noqa: S608 - a name of the catalog
        ]
    finally:
        await connection.close()


def files(folder: Path) -> list[bytes]:
    """Returns the content of each file below a folder."""
    found = []
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                found.append(str(path).encode() + path.read_bytes())
        except FileNotFoundError:  # removed meanwhile
            continue
    return found


def process_lists(pids: list[int]) -> list[bytes]:
    """Returns the command line and the environment of each process, as the kernel shows them."""
    found = []
    for pid in pids:
        for name in ("cmdline", "environ"):
            try:
                found.append(f"{pid} {name} ".encode() + Path(f"/proc/{pid}/{name}").read_bytes())
            except OSError:  # it has ended
                continue
    return found
