"""The Kafka and the Postgres of tests: given ones, containers, or embedded ones; one pair per run.

The process that drives the run (with xdist, the parent of the workers) holds a folder and a leash; the first
worker that needs servers starts them there, the others read their addresses. When the driving process ends,
even by a kill, the leash is released: embedded servers stop and remove their folder, containers are removed.
"""

import asyncio
import fcntl
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from tests import containers
from trackside.embedded import stack as embedded
from trackside.embedded.errors import StackMissing
from trackside.embedded.files import last_lines
from trackside.embedded.folder import NAME, held_leash, is_cut, is_locked
from trackside.embedded.options import StackOptions
from trackside.embedded.postgres.server import remove_data
from trackside.eventlog.settings import secure_folder
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.projections.database.postgres import database
from trackside.projections.writing.migrate import migrate

RUN_VARIABLE = "TRACKSIDE_TEST_RUN"
SEED_VARIABLE = "TRACKSIDE_TEST_SEED"
PREFIX = "trackside-test-"
KNOWN = "servers.json"
WITH_TABLES = "database-with-tables"
SECURE = "secure-stack"
USERS = ("dispatcher", "scheduler", "summary-indexer", "console", "worker-a", "worker-b", "rotated")
KIND_VARIABLE = "TRACKSIDE_TEST_STACK"  # embedded or containers; both are tried if it is not set


@dataclass(frozen=True)
class Servers:
    """The addresses of Kafka and Postgres, and their origin: given, containers or embedded.

    `note` is a line about them for the end of the run, or empty.
    """

    kafka_bootstrap: str
    postgres_dsn: str
    origin: str
    note: str = ""


@dataclass
class Run:
    """One test run, held by its driving process: a folder, and the leash of everything started in it."""

    folder: Path
    seed: int
    holds: ExitStack

    @property
    def note(self) -> str:
        """The note about the servers that the run used, or empty."""
        known = self.folder / KNOWN
        return str(json.loads(known.read_text())["note"]) if known.exists() else ""

    def restarts(self) -> Iterator[str]:
        """Yields which services of the stacks that tests share have restarted, and what they logged last."""
        for product in self.folder.glob(f"*/{NAME}"):
            with suppress(StackMissing):
                for each in embedded.load(product).status.processes.values():
                    if each.restarts:
                        yield f"{each.name} of {product.parent.name} was restarted: {each.last_end}"
                        log = Path(each.log)
                        lines = log.read_text("utf-8", "replace").splitlines()
                        yield from [line for line in lines if '"level": "error"' in line] or [last_lines(log)]

    def close(self) -> None:
        """Stops what the run started and removes its folder."""
        self._drop_tables()
        embedded.stop(self.folder / SECURE)
        embedded.stop(self.folder / "stack")
        products = [*self.folder.glob(f"*/{NAME}")]
        for product in products:
            embedded.stop(product)
        if (self.folder / containers.MARK).exists():
            containers.remove(self.folder)
        self.holds.close()
        for each in (self.folder / "stack", *products):
            remove_data(each / "postgres")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _drop_tables(self) -> None:
        """Drops the database that others were copied from, if its server is not the run's own."""
        template = self.folder / WITH_TABLES
        if template.exists():
            known = Servers(**json.loads((self.folder / KNOWN).read_text()))
            if known.origin == "given":
                drop = f"DROP DATABASE {template.read_text()} WITH (FORCE)"
                _in_a_thread(_execute(known.postgres_dsn, drop))


def open_run() -> Run:
    """Opens the run of this process, and passes it to its children through the environment."""
    seed = int(os.environ.setdefault(SEED_VARIABLE, str(secrets.randbelow(2**31))))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    _sweep(folder)
    folder.chmod(0o711)  # Postgres may run as another user, who must be able to pass through
    holds = ExitStack()
    holds.enter_context(held_leash(folder / "leash"))
    os.environ[RUN_VARIABLE] = str(folder)
    # Other runs on this host have GPUs and memory of their own, so that tests don't wait for each other.
    os.environ["TRACKSIDE_WORKER_HOST_DIR"] = str(folder / "host")
    return Run(folder, seed, holds)


def _sweep(folder: Path) -> None:
    """Removes the folders of runs that were killed more than a minute ago: their leash is released."""
    now_s = folder.stat().st_mtime
    for old in folder.parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if now_s - old.stat().st_mtime > 60 and _is_abandoned(old / "leash"):
                shutil.rmtree(old, ignore_errors=True)


def _is_abandoned(leash: Path) -> bool:
    """Returns whether no process holds a leash; OSError if there is none."""
    descriptor = os.open(leash, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return is_cut(descriptor)
    finally:
        os.close(descriptor)


def run_folder() -> Path:
    """Returns the folder of the run that this process belongs to."""
    return Path(os.environ[RUN_VARIABLE])


def servers() -> Servers:
    """Returns the run's servers, started by the first call."""
    folder = run_folder()
    with (folder / "servers.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = folder / KNOWN
        if known.exists():
            return Servers(**json.loads(known.read_text()))
        found = _obtain(folder)
        known.write_text(json.dumps(asdict(found)))
        return found


def _obtain(folder: Path) -> Servers:
    bootstrap = os.environ.get("TRACKSIDE_TEST_KAFKA_BOOTSTRAP")
    dsn = os.environ.get("TRACKSIDE_TEST_POSTGRES_DSN")
    if bootstrap and dsn:
        return Servers(bootstrap, dsn, "given")
    kind = os.environ.get(KIND_VARIABLE, "")
    note = ""
    if kind != "embedded":
        try:
            kafka, postgres, engine = containers.start(folder, bootstrap, dsn)
            return Servers(kafka, postgres, "containers", f"Kafka and Postgres: containers of {engine}")
        except containers.NoContainersError as error:
            if kind == "containers":
                raise
            note = f"Kafka and Postgres: embedded ones, not containers: {error}" if str(error) else ""
    options = StackOptions(
        bootstrap_servers=bootstrap,
        postgres_dsn=dsn,
        durable=False,
        ephemeral=True,
        leash=folder / "leash",
        timeout_s=240,
    )
    started = embedded.start(folder / "stack", options)
    return Servers(started.bootstrap_servers, started.postgres_dsn, "embedded", note)


@dataclass(frozen=True)
class SecureServers:
    """A Kafka that takes only users, over TLS, and the Postgres of the run; `folder` is that of its stack."""

    kafka_bootstrap: str
    postgres_dsn: str
    folder: Path

    @property
    def secrets(self) -> Path:
        """The folder of its authority, its certificate and the passwords of its users."""
        return self.folder / secure_folder.NAME

    def kafka(self, principal: str) -> KafkaSettings:
        """Returns how to connect as a user."""
        return secure_folder.settings_of(self.secrets, self.kafka_bootstrap, principal)

    def variables(self, principal: str) -> dict[str, str]:
        """Returns the environment of a process that connects as a user."""
        return {
            "TRACKSIDE_KAFKA_BOOTSTRAP": self.kafka_bootstrap,
            **secure_folder.variables_of(self.secrets, principal),
        }


def secure_servers() -> SecureServers:
    """Returns the run's Kafka with users, started by the first call, and its Postgres."""
    dsn = servers().postgres_dsn
    folder = run_folder() / SECURE
    with (run_folder() / "secure.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_locked(folder):
            options = StackOptions(
                postgres_dsn=dsn,
                durable=False,
                leash=run_folder() / "leash",
                timeout_s=240,
                secure=True,
                users=USERS,
            )
            embedded.start(folder, options)
        return SecureServers(embedded.load(folder).bootstrap_servers, dsn, folder)


def database_with_tables() -> str:
    """Returns the name of a database on the run's Postgres to copy, made by the first call.

    It has the tables and the views of this release, without rows and of no log; nobody connects to it.
    """
    dsn = servers().postgres_dsn
    known = run_folder() / WITH_TABLES
    with (run_folder() / "tables.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not known.exists():
            name = f"t_{secrets.token_hex(6)}"
            _in_a_thread(_make_tables(dsn, name))
            known.write_text(name)
        return known.read_text()


async def _make_tables(dsn: str, name: str) -> None:
    await _execute(dsn, f"CREATE DATABASE {name}")
    async with database(_on(dsn, name)) as opened:
        await opened.commit_with_retries(migrate, lambda _: None)
    # A database that somebody is connected to can't be copied.
    await _execute(dsn, f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")


@contextmanager
def fresh_database(dsn: str, template: str = "template1") -> Iterator[str]:
    """Creates a database on the server of the DSN, yields its DSN, and drops it afterwards.

    It is a copy of `template`: without it, it is empty.
    """
    name = f"t_{secrets.token_hex(6)}"
    _in_a_thread(_execute(dsn, f"CREATE DATABASE {name} TEMPLATE {template}"))
    try:
        yield _on(dsn, name)
    finally:
        _in_a_thread(_execute(dsn, f"DROP DATABASE {name} WITH (FORCE)"))


def _on(dsn: str, name: str) -> str:
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn, timeout=120)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _in_a_thread(work: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine in an event loop of its own, in a thread."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(asyncio.run, work).result()
