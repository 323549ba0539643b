"""The stack that is measured: a new one in a temporary folder, stopped with this process."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from bench.cpu_time import tree_ms
from bench.smallest import size
from trackside.cli.commands import stack_process as stacks
from trackside.contracts.envelope.topics import Topics
from trackside.embedded import stack
from trackside.embedded.folder import held_leash
from trackside.embedded.kafka import jars
from trackside.embedded.options import ServiceSpec, StackOptions
from trackside.embedded.processes import children_of, has_argument
from trackside.embedded.stack import Stack
from trackside.embedded.supervision.spares import MODULE
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.keys.key_folder import SERVICES, WORKER, KeyFolder
from trackside.eventlog.settings import secure_folder

TASKS = Path(__file__).parent / "tasks" / "catalogue.yaml"
TASK_TYPE = "stamp"
WARM_TYPE = "stamp-warm"
SLOTS = 2
TOPICS = Topics()
SPARES_AFTER_S = 6.0
"""Sooner than usual, and not before all is ready: what is measured doesn't wait long for them."""
SPARES_WITHIN_S = size(60.0, 0.0)
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
            took_s = monotonic_s() - began
            try:
                if options.spares_after_s is not None:
                    services = options.services
                    _wait_for_spares(made, sum(each.argv is None and not each.pages for each in services))
                yield made, took_s
            finally:
                stack.stop(home)


def keys_of(home: Path) -> KeyFolder:
    """Returns the keys of a stack with signatures."""
    return KeyFolder(home / secure_folder.NAME / secure_folder.KEYS)


def _options(home: Path, kind: Kind) -> StackOptions:
    services = stacks.services(home, TASKS, SLOTS)
    if kind == "open":
        after_s = None if stacks.spares_after_s() is None else SPARES_AFTER_S
        return StackOptions(services, setup=stacks.SETUP, spares_after_s=after_s)
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


def _wait_for_spares(made: Stack, count: int) -> None:
    """Waits until the spares of services have imported their code, which is no part of what is measured."""
    until_s, used_ms = monotonic_s() + SPARES_WITHIN_S, -1.0
    while monotonic_s() < until_s:
        spares = [
            pid for pid in children_of(made.status.supervisor_pid) if has_argument(pid, MODULE.encode())
        ]
        before_ms, used_ms = used_ms, sum(tree_ms(pid) for pid in spares)
        if len(spares) == count and used_ms == before_ms:
            return
        time.sleep(1.0)
