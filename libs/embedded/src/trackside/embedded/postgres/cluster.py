"""The database cluster of the embedded Postgres: how it is created, and its password's verifier."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from trackside.embedded.errors import StackError
from trackside.embedded.files import summarised, write_whole
from trackside.embedded.postgres.account import Account
from trackside.embedded.postgres.binaries import run_as
from trackside.embedded.postgres.shared import owned_folder

USER = "trackside"
DATABASE = "trackside"
SCRAM_ITERATIONS = 4096
"""Postgres's own default. Go's lib/pq, and with it Grafana, logs in to no server that asks for fewer."""
WEAK_SETTING = re.compile(r"^scram_iterations\s*=.*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Programs:
    """The folder of Postgres's programs, the account that runs them, and the log that gets their output."""

    folder: Path
    who: Account
    log: Path

    def run(self, program: str, *options: str, data: Path, text: str = "") -> None:
        """Runs a program to its end in `data`; StackError with its reason if it fails.

        All of its output goes to the log.
        """
        ended = run_as(self.who, [str(self.folder / program), *options], data, text)
        output = ended.stdout + ended.stderr
        if ended.returncode == 0 and "ERROR:" not in output:  # a refused statement doesn't change the code
            return
        reason = summarised(output, self.log) or f"exit {ended.returncode}"
        raise StackError(f"Postgres's data can't be prepared in {data.parent}: {program}: {reason}")


def create_cluster(programs: Programs, data: Path, password: str) -> None:
    """Makes the cluster and its database next to `data`, then renames it: a kill leaves no partial one."""
    part, owner = data.with_name("new"), programs.who.owner
    shutil.rmtree(part, ignore_errors=True)
    owned_folder(part, 0o700, owner)
    secret = data.with_name("secret")
    write_whole(secret, f"{password}\n")
    os.chown(secret, owner, -1)
    settings = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
    try:
        programs.run("initdb", "-D", str(part), "-U", USER, f"--pwfile={secret}", *settings, data=part)
        _execute(programs, part, f"CREATE DATABASE {DATABASE}")
        part.rename(data)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    finally:
        secret.unlink(missing_ok=True)


def has_weak_verifier(data: Path) -> bool:
    """Returns whether an earlier release made the cluster, with a verifier of 64 iterations."""
    return bool(WEAK_SETTING.search((data / "postgresql.conf").read_text()))


def renew_verifier(programs: Programs, data: Path, password: str) -> None:
    """Stores the password's verifier with `SCRAM_ITERATIONS`; the server must be down."""
    _execute(programs, data, f"ALTER ROLE {USER} PASSWORD '{password}'")
    settings = data / "postgresql.conf"
    write_whole(settings, WEAK_SETTING.sub("", settings.read_text()))
    os.chown(settings, programs.who.owner, -1)


def _execute(programs: Programs, data: Path, statement: str) -> None:
    """Executes a statement in the cluster of a server that is down."""
    strength = f"scram_iterations={SCRAM_ITERATIONS}"
    options = ("--single", "-c", strength, "-D", str(data), "postgres")
    programs.run("postgres", *options, data=data, text=f"{statement};\n")
