"""Settings of the worker, read from TRACKSIDE_WORKER_ variables."""

import re
import shlex
import socket
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from trackside.artifacts.cache import MAX_ENTRIES
from trackside.contracts.envelope.ids import Identifier, checked_list
from trackside.contracts.envelope.memory import Memory, bytes_of


def host_as_id() -> str:
    """Returns the host's name as an identifier: other characters become dashes."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", socket.gethostname()).strip("-_")
    return name[:64] or "worker"


def checked_command(text: str) -> str:
    """Returns the text of a command; raises bad_command if its quotes are not closed."""
    try:
        shlex.split(text)
    except ValueError as error:
        reason = {"reason": str(error)}
        raise PydanticCustomError(
            "bad_command", "not a program and its arguments: {reason}", reason
        ) from error
    return text


class WorkerSettings(BaseSettings):
    """The settings of one worker."""

    model_config = SettingsConfigDict(env_prefix="TRACKSIDE_WORKER_", frozen=True)

    id: Identifier = Field(
        default_factory=host_as_id,
        description="The worker's name, the same over restarts; the host's name if not given.",
    )
    cpu_slots: int = Field(2, ge=0, le=1024, description="How many tasks may run on the CPU at once.")
    catalogue: Path = Field(
        Path("catalogue.yaml"), description="The file that names the tasks this worker may run."
    )
    data_dir: Path = Field(
        Path(".trackside/worker"), description="Journal, results, working directories and lock files."
    )
    host_dir: Path = Field(
        Path("/tmp/trackside-workers"),
        description="Folder that all workers of this host share, with the locks of its GPUs.",
    )
    queues: Annotated[str, AfterValidator(checked_list)] = Field(
        "default", min_length=1, description="Queues to take tasks from, comma separated."
    )
    preload: str = Field(
        "torch", description="Modules imported once, before tasks are forked; comma separated."
    )
    heartbeat_interval_s: float = Field(
        1.0, gt=0, le=60, description="Time between two heartbeats, s; well below the scheduler's lease."
    )
    stop_grace_s: float = Field(
        5.0, ge=0, le=600, description="Time between SIGTERM and SIGKILL for a task that is stopped, s."
    )
    load_early: int = Field(
        0, ge=0, le=1_024, description="How many tasks may load while their device is still busy."
    )
    max_tasks: int = Field(
        0, ge=0, le=10_000, description="How many tasks may have a process at once; 0 for no limit."
    )
    max_processes: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Processes and threads a task may have, where cgroups are available; 0 for no limit.",
    )
    host_reserve: Memory = Field(
        bytes_of("1GiB"),
        description="Host memory that tasks may not use, in bytes or as 2GiB; at most half of it.",
    )
    watch_interval_s: float = Field(
        1.0, gt=0, le=60, description="Time between two readings of memory, devices and tasks, s."
    )
    spool_bytes: Memory = Field(
        bytes_of("20GiB"),
        description="How much of what tasks save may wait for the store, in bytes or as 20GiB.",
    )
    cache_dir: Path | None = Field(
        None,
        description="Folder with the inputs of tasks, which workers of one user on this host may share; by "
        "default `cache` in the worker's own folder.",
    )
    cache_bytes: Memory = Field(
        bytes_of("50GiB"),
        description="How much the cache of inputs may hold, in bytes or as 50GiB; what is in use stays.",
    )
    cache_entries: int = Field(
        MAX_ENTRIES, ge=1, description="How many inputs the cache may hold; what is in use stays."
    )
    upload_timeout_s: float = Field(
        600.0,
        ge=0,
        description="Time that the store may take for the last artifacts of an attempt after its end, s; "
        "then it has failed. Summaries that the store has not taken for so long are left out.",
    )
    recovery_timeout_s: float = Field(
        30.0,
        ge=0,
        description="Time that the store may take for what an earlier process of this worker has left, s; "
        "the worker joins after it.",
    )
    adopt: bool = Field(
        True,
        description="Let tasks outlive the worker's process, so that the next one takes them over; false "
        "ends them with it.",
    )
    keep_tasks_s: float = Field(
        60.0,
        ge=0,
        le=3_600,
        description="The longest that tasks run on without the worker's process, s: they have five times "
        "what its start took, and no less than the scheduler's lease.",
    )
    keep_workdirs: bool = Field(
        False,
        description="Keep the working directories of tasks after their end is in the log, but for tasks "
        "with secrets.",
    )
    secrets_dir: Path | None = Field(
        None,
        description="Folder with the secrets of tasks: a file each, by its name, of the worker's user and "
        "mode 0600.",
    )
    secret_command: Annotated[str, AfterValidator(checked_command)] = Field(
        "",
        description="Command that writes a secret to standard output; its last argument is the name. It is "
        "run without a shell, for secrets that are not in the folder.",
    )
    secret_timeout_s: float = Field(
        10.0, gt=0, le=600, description="Time that the command has for one secret, s; then it is killed."
    )

    @property
    def queue_names(self) -> list[str]:
        """The queues as a list."""
        return _split(self.queues)

    @property
    def secret_argv(self) -> tuple[str, ...]:
        """The command for secrets as a program and its arguments."""
        return tuple(shlex.split(self.secret_command))

    @property
    def preload_modules(self) -> list[str]:
        """The modules to preload as a list."""
        return _split(self.preload)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
