"""Starts the stack of one machine: in the background, or for as long as a block runs."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from trackside.artifacts.settings import StoreSettings
from trackside.cli.render.screen import StepReporter
from trackside.cli.runtime import examples
from trackside.cli.runtime.addresses import BOOTSTRAP, DSN
from trackside.embedded import stack
from trackside.embedded.errors import StackMissing
from trackside.embedded.folder import NAME, claim, current_folder, held_leash
from trackside.embedded.kafka.secure import is_secure
from trackside.embedded.options import ServiceSpec, StackOptions
from trackside.embedded.settings import DashboardSettings, SupervisionSettings
from trackside.embedded.stack import CONSOLE, Stack
from trackside.embedded.supervision.spares import AFTER_S
from trackside.eventlog.settings import secure_folder
from trackside.eventlog.settings.settings import StackSettings, read_settings
from trackside.projections.database.settings import ReaderSettings

WORKER = "worker"
SETUP: Sequence[Sequence[str]] = ((sys.executable, "-m", "trackside.cli.setup"),)
SECURE_SETUP: Sequence[Sequence[str]] = ((*SETUP[0], "--acls", "--worker", WORKER),)


def folder() -> Path:
    """Returns the folder of the stack that is started here: `.trackside` in the current folder."""
    return current_folder() / NAME


def running() -> Stack | None:
    """Returns the stack that runs in the current folder or above, or None."""
    try:
        return stack.find()
    except StackMissing:
        return None


def services(home: Path, catalogue: Path, slots: int) -> list[ServiceSpec]:
    """Returns the services of one machine: one of each, the worker with `slots` CPU slots."""
    worker = {
        "TRACKSIDE_WORKER_ID": WORKER,
        "TRACKSIDE_WORKER_CATALOGUE": str(catalogue),
        "TRACKSIDE_WORKER_CPU_SLOTS": str(slots),
        "TRACKSIDE_WORKER_DATA_DIR": str(home / "services" / WORKER),
    }
    return [
        ServiceSpec("dispatcher"),
        ServiceSpec("scheduler"),
        ServiceSpec(WORKER, env=worker),
        ServiceSpec("summary-indexer"),
        ServiceSpec(CONSOLE, pages=True),
    ]


def start(
    catalogue: Path | None,
    slots: int,
    steps: StepReporter,
    leash: Path | None = None,
    dashboards: DashboardSettings | None = None,
    secure: bool = False,
) -> Stack:
    """Starts the stack of this folder and returns it when all of it is ready.

    Kafka and Postgres are not started where the environment names a server. The stack stops by itself when no
    process holds the pipe `leash` open. With `dashboards` Prometheus and Grafana run too; `secure` lets the
    started Kafka take only users.
    Raises StackError with the end of the log of the process that failed; nothing is left running then.
    """
    home = folder()
    listed = services(home, examples.catalogue(catalogue), slots)
    password = read_settings(ReaderSettings).reader_password_file
    with steps.shown():
        options = StackOptions(
            listed,
            setup=setup_commands(home, secure=secure),
            bootstrap_servers=os.environ.get(BOOTSTRAP) or None,
            postgres_dsn=os.environ.get(DSN) or None,
            leash=leash,
            store=read_settings(StoreSettings).store or None,
            disk=read_settings(StackSettings).disk_limits,
            reader_password=Path(password) if password else None,
            dashboards=dashboards,
            secure=secure,
            spares_after_s=spares_after_s(),
        )
        return stack.start(home, options, steps)


def spares_after_s() -> float | None:
    """Returns how many seconds after its start a service gets a spare; None if it gets none."""
    return AFTER_S if read_settings(SupervisionSettings).spares else None


def setup_commands(home: Path, *, secure: bool) -> Sequence[Sequence[str]]:
    """Returns the commands that run before the services: a secure stack has rights, and keys for events."""
    if not secure and not is_secure(home):
        return SETUP
    keys = ("--keys", str(home / secure_folder.NAME / secure_folder.KEYS))
    return [[*command, *keys] for command in SECURE_SETUP]


@contextmanager
def started(
    catalogue: Path | None,
    slots: int,
    steps: StepReporter,
    dashboards: DashboardSettings | None = None,
    secure: bool = False,
) -> Iterator[Stack]:
    """Starts a stack for the block: it is stopped at its end, or when this process ends."""
    home = claim(folder())
    with held_leash(home / "leash") as leash:
        made = start(catalogue, slots, steps, leash, dashboards, secure)
        try:
            yield made
        finally:
            stack.stop(home)


@contextmanager
def started_servers(home: Path, options: StackOptions) -> Iterator[Stack]:
    """Runs the servers of a folder for the block, and stops them at its end, or when this process ends."""
    home = claim(home)
    with held_leash(home / "leash") as leash:
        steps = StepReporter()
        with steps.shown():
            made = stack.start(home, replace(options, leash=leash), steps)
        try:
            yield made
        finally:
            stack.stop(home)
