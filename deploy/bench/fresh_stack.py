"""The stack that is measured: a new one in a temporary folder, stopped with this process."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from trackside.cli.commands import stack_process as stacks
from trackside.contracts.topics import Topics
from trackside.embedded import jars, stack
from trackside.embedded.folder import held_leash
from trackside.embedded.stack import ServiceSpec, Stack, StackOptions
from trackside.eventlog import secure_folder
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.key_folder import SERVICES, WORKER, KeyFolder

TASKS = Path(__file__).parent / "tasks" / "catalogue.yaml"
TASK_TYPE = "stamp"
WARM_TYPE = "stamp-warm"
SLOTS = 2
TOPICS = Topics()
Kind = Literal["open", "signed", "secure"]
"""A stack without signatures; the same with them; one with TLS, users, rights and signatures."""


@contextmanager
def start_stack(log_line: Callable[[str], None], kind: Kind = "open") -> Iterator[tuple[Stack, float]]:
    """Starts a stack where nothing was before; returns it, and the seconds until all of it was ready."""
    jars.classpath(log_line)  # downloads are no part of what is measured
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # Postgres may run as another user, who must be able to pass through
        home = folder / "stack"
        with held_leash(folder / "leash") as leash:
            began = monotonic_s()
            options = replace(_options(home, kind), leash=leash, ephemeral=True)
            made = stack.start(home, options, log_line)
            try:
                yield made, monotonic_s() - began
            finally:
                stack.stop(home)


def keys_of(home: Path) -> KeyFolder:
    """Returns the keys of a stack with signatures."""
    return KeyFolder(home / secure_folder.NAME / secure_folder.KEYS)


def _options(home: Path, kind: Kind) -> StackOptions:
    services = stacks.services(home, TASKS, SLOTS)
    if kind == "open":
        return StackOptions(services, setup=stacks.SETUP, spares_after_s=stacks.spares_after_s())
    keys = ("--keys", str(keys_of(home).path))
    if kind == "secure":
        return StackOptions(services, setup=[[*stacks.SECURE_SETUP[0], *keys]], secure=True)
    setup = [[*stacks.SETUP[0], "--worker", stacks.WORKER, *keys]]
    return StackOptions([_signing(home, each) for each in services], setup=setup)


def _signing(home: Path, service: ServiceSpec) -> ServiceSpec:
    """Returns a service with its key; the secure stack gives it to those that write events by itself."""
    name = service.principal
    if name not in SERVICES and not name.startswith(WORKER):
        return service
    return replace(service, env={**service.env, "TRACKSIDE_SIGNING_KEY_FILE": str(keys_of(home).file(name))})
