"""A Postgres of tests' own, which can be killed."""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from trackside.embedded.postgres.account import Account, account
from trackside.embedded.postgres.binaries import usable_binaries


@dataclass
class KillablePostgres:
    """A Postgres in a folder of its own, which listens on a socket only."""

    folder: Path
    programs: Path
    user: Account
    process: subprocess.Popen[bytes] | None = None
    database: str = "postgres"

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@/{self.database}?host={self.folder}&port=5432"

    def start(self) -> None:
        """Starts it unless it runs, and waits until it responds; those of a killed one may have to end."""
        if self.process is not None and self.process.poll() is None:
            return
        deadline_s = time.monotonic() + 60
        while time.monotonic() < deadline_s:
            arguments = ("-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}")
            self.process = self.run("postgres", "-D", str(self.folder / "pg"), "-c", "fsync=off", *arguments)
            while self.process.poll() is None:
                if self.run("pg_isready", "-q", "-h", str(self.folder)).wait() == 0:
                    return
        raise AssertionError(f"Postgres did not start in {self.folder}")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts one of its programs as a user that isn't root."""
        return subprocess.Popen(
            [str(self.programs / program), *arguments],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self.user.uid,
            group=self.user.gid,
        )


def start_postgres() -> KillablePostgres:
    folder = Path(tempfile.mkdtemp(prefix="ts-pg-", dir="/tmp"))
    user = account()
    os.chown(folder, user.owner, -1)
    server = KillablePostgres(folder, usable_binaries(user, ExitStack()).folder, user)
    options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
    assert server.run("initdb", "-D", str(folder / "pg"), *options).wait() == 0
    server.start()
    return server


def remove_postgres(server: KillablePostgres) -> None:
    server.kill()
    shutil.rmtree(server.folder, ignore_errors=True)
