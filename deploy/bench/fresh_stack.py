"""The stack that is measured: a new one in a temporary folder, stopped with this process."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trackside.cli.commands import stack_process as stacks
from trackside.contracts.topics import Topics
from trackside.embedded import jars, stack
from trackside.embedded.folder import held_leash
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s

TASKS = Path(__file__).parent / "tasks" / "catalogue.yaml"
TASK_TYPE = "stamp"
WARM_TYPE = "stamp-warm"
SLOTS = 2
TOPICS = Topics()


@contextmanager
def start_stack(log_line: Callable[[str], None]) -> Iterator[tuple[Stack, float]]:
    """Starts a stack where nothing was before; returns it, and the seconds until all of it was ready."""
    jars.classpath(log_line)  # downloads are no part of what is measured
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # Postgres may run as another user, who must be able to pass through
        home = folder / "stack"
        with held_leash(folder / "leash") as leash:
            began = monotonic_s()
            services = stacks.services(home, TASKS, SLOTS)
            options = stack.StackOptions(services, setup=stacks.SETUP, leash=leash, ephemeral=True)
            made = stack.start(home, options, log_line)
            try:
                yield made, monotonic_s() - began
            finally:
                stack.stop(home)
