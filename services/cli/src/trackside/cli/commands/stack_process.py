"""The stack of one machine: which services it has, and how it is started for a while or for good."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from trackside.cli.render.screen import Steps
from trackside.cli.runtime import examples
from trackside.cli.runtime.addresses import BOOTSTRAP, DSN
from trackside.embedded import stack
from trackside.embedded.errors import StackMissing
from trackside.embedded.folder import NAME, claim, held_leash
from trackside.embedded.stack import ServiceSpec, Stack, StackOptions

SLOTS = 2
WORKER = "worker"
SETUP: Sequence[Sequence[str]] = ((sys.executable, "-m", "trackside.cli.setup"),)


def folder() -> Path:
    """Gives the folder of the stack that commands of this place start: `.trackside` right here."""
    return Path.cwd() / NAME


def running() -> Stack | None:
    """Gives the stack that runs here or above, or None."""
    try:
        return stack.find()
    except StackMissing:
        return None


def services(home: Path, catalogue: Path, slots: int) -> list[ServiceSpec]:
    """Lists the services of one machine: one of each, the worker with `slots` places on the CPU."""
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
    ]


def start(catalogue: Path | None, slots: int, steps: Steps, leash: Path | None = None) -> Stack:
    """Starts the stack of this folder and gives it once all of it is ready.

    Kafka or Postgres is yours where the environment names it. The stack stops by itself when the holder of
    `leash` is gone. Raises StackError with the end of the log of what failed; nothing is left running then.
    """
    home = folder()
    listed = services(home, examples.catalogue(catalogue), slots)
    with steps.shown():
        options = StackOptions(
            listed,
            setup=SETUP,
            bootstrap_servers=os.environ.get(BOOTSTRAP) or None,
            postgres_dsn=os.environ.get(DSN) or None,
            leash=leash,
        )
        return stack.start(home, options, steps)


@contextmanager
def started(catalogue: Path | None, slots: int, steps: Steps) -> Iterator[Stack]:
    """Gives a stack that lives as long as the block: it is stopped at its end, and dies with this process."""
    home = claim(folder())
    with held_leash(home / "leash") as leash:
        made = start(catalogue, slots, steps, leash)
        try:
            yield made
        finally:
            stack.stop(home)
