"""Start, find and stop a stack: Kafka, Postgres and services under one supervisor, in one folder.

What only a start needs is imported by it: commands that ask a stack that runs begin sooner.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.embedded.errors import StackError, StackMissing
from trackside.embedded.folder import (
    NAME,
    Plan,
    StackStatus,
    claim,
    current_folder,
    is_locked,
    locked,
    of_another_user,
    read_status,
    unusable,
    write_plan,
)
from trackside.embedded.options import USUAL, StackOptions
from trackside.embedded.ports import HOST, kept_ports
from trackside.embedded.processes import ProcessSpec, leads_into_postgres, open_log
from trackside.embedded.supervision.live_status import current_status

if TYPE_CHECKING:
    from trackside.embedded.kafka.jars import ReportProgress
    from trackside.eventlog.settings.kafka_settings import KafkaSettings

STORE = "store"
"""The folder of the artifacts of a stack."""
PAST = "past"
"""The folder of the snapshots of past states."""
CONSOLE = "console"
"""The name of the service with pages."""
LOOK_EVERY_S = 0.02


@dataclass(frozen=True)
class Stack:
    """A stack that runs: its folder, and its status as its supervisor last gave it."""

    folder: Path
    status: StackStatus

    @property
    def bootstrap_servers(self) -> str:
        """Returns Kafka's address."""
        return self.status.bootstrap_servers

    def kafka(self, principal: str) -> "KafkaSettings | str":
        """Returns how to connect to Kafka, as a principal if it takes only users; InvalidSettingsError."""
        if not self.status.secure:
            return self.bootstrap_servers
        from trackside.eventlog.settings.secure_folder import settings_of

        return settings_of(Path(self.status.secure), self.bootstrap_servers, principal)

    @property
    def postgres_dsn(self) -> str:
        """Returns the DSN of Postgres, password included."""
        return self.status.postgres_dsn

    @property
    def console_url(self) -> str | None:
        """Returns the address of the console; None if the stack has none, or it could not start."""
        found = self.status.processes.get(CONSOLE)
        return f"http://{HOST}:{found.port}/" if found is not None and found.state == "ready" else None

    @property
    def store(self) -> str:
        """Returns the URL of the store of artifacts; empty if an older release started the stack."""
        return self.status.store

    @property
    def past_folder(self) -> Path:
        """Returns the folder of the snapshots of past states."""
        return self.folder / PAST

    def pid(self, name: str) -> int | None:
        """Returns the current pid of a process of the stack; StackMissing if it has no such process."""
        status = load(self.folder).status.processes
        if name not in status:
            raise StackMissing(f"the stack in {self.folder} has no {name}, only {', '.join(sorted(status))}")
        return status[name].pid


def start(folder: Path, options: StackOptions = USUAL, progress: "ReportProgress" = lambda _: None) -> Stack:
    """Starts a stack in the background and returns it once everything in it is ready.

    StackRunning if the folder has a stack already; StackError, with the end of the log of what failed, if
    something is not ready in time. Nothing is left running then.
    """
    from trackside.embedded.supervision.readiness import await_optional, await_ready

    folder = claim(folder)
    with contextlib.ExitStack() as holds:  # of ports and folders, until their servers have them
        try:
            _begin(folder, options, progress, holds)
        except OSError as error:
            raise unusable(folder, error) from error
        try:
            await_ready(folder, options.timeout_s, progress)
            return Stack(folder, await_optional(folder, progress))
        except BaseException:
            stop(folder)
            raise


def _begin(
    folder: Path, options: StackOptions, progress: "ReportProgress", holds: contextlib.ExitStack
) -> None:
    """Prepares the folder and starts its supervisor, which takes over the locks."""
    from trackside.embedded.installation import identify

    with locked(folder) as lock:
        cluster = identify(folder, progress, has_log=options.bootstrap_servers is None)
        _clear(folder)
        plan, locks = _plan(folder, options, cluster, progress, holds)
        write_plan(folder, plan)
        _launch(folder, [lock, *locks])


def _plan(
    folder: Path, options: StackOptions, cluster: str, progress: "ReportProgress", holds: contextlib.ExitStack
) -> tuple[Plan, list[int]]:
    """Prepares the servers; returns what the supervisor runs, and the locks that it takes over."""
    from trackside.embedded.dashboards import servers as dashboards
    from trackside.embedded.kafka import kafka, kafka_start
    from trackside.embedded.kafka.secure import prepare_secrets
    from trackside.embedded.postgres import server as postgres
    from trackside.embedded.postgres.reader import own_password, reader_dsn
    from trackside.embedded.service_processes import SETUP_TIER, service_processes, setup_processes

    ports = holds.enter_context(_ports(folder, options))
    bootstrap, dsn, password_file = options.bootstrap_servers, options.postgres_dsn, options.reader_password
    servers, locks = list[ProcessSpec](), list[int]()
    secure = prepare_secrets(folder, options) if bootstrap is None else None
    if bootstrap is None:
        server, bootstrap = kafka.prepare(
            folder / "kafka",
            ports["kafka"],
            ports["controller"],
            progress,
            cluster=cluster,
            short_lived=not options.durable,
            secure=secure,
        )
        servers.append(server)
    if dsn is None:
        server, dsn, locks = postgres.prepare(
            folder / "postgres", ports["postgres"], progress, holds, durable=options.durable
        )
        servers.append(server)
        password_file = own_password(folder / "postgres")
    store = options.store or (folder / STORE).as_uri()
    env = _environment(folder, options, servers, bootstrap, dsn, store)
    env["TRACKSIDE_READER_PASSWORD_FILE"] = str(password_file or "")
    processes = [
        *servers,
        *setup_processes(folder, options.setup, env, secure),
        *service_processes(folder, options.services, env, ports, SETUP_TIER + len(options.setup), secure),
    ]
    reader = "" if password_file is None else reader_dsn(dsn, password_file)
    if options.dashboards is not None:
        processes += dashboards.prepare(folder, processes, ports, reader, options.dashboards)
    processes += kafka_start.processes(folder, processes, durable=options.durable)
    plan = Plan(
        processes,
        bootstrap,
        dsn,
        ephemeral=options.ephemeral,
        leash=None if options.leash is None else str(options.leash),
        grace_s=options.grace_s,
        health_port=ports["health:supervisor"],
        disk=options.disk,
        store=store,
        reader_dsn=reader,
        secure=str(secure or ""),
        stuck_s=options.stuck_s,
        spares_after_s=options.spares_after_s,
    )
    return plan, locks


def _ports(folder: Path, options: StackOptions) -> contextlib.AbstractContextManager[dict[str, int]]:
    """Returns the ports of all processes, held until their servers have them."""
    from trackside.embedded.dashboards import servers as dashboards

    listening = ["supervisor", *(service.name for service in options.services)]
    names = ["kafka", "controller", "postgres", *(f"health:{name}" for name in listening)]
    names += [service.name for service in options.services if service.pages]
    outside: list[str] = []
    if options.dashboards is not None:
        names += dashboards.PORTS
        outside = dashboards.find_programs(options.dashboards).missing
    return kept_ports(folder, names, outside)


def _environment(
    folder: Path,
    options: StackOptions,
    servers: Sequence[ProcessSpec],
    bootstrap: str,
    dsn: str,
    store: str,
) -> dict[str, str]:
    """Returns what every service and the set-up are given."""
    return {
        **{name: value for name, value in os.environ.items() if leads_into_postgres(name)},
        "TRACKSIDE_STORE": store,
        "TRACKSIDE_KAFKA_BOOTSTRAP": bootstrap,
        "TRACKSIDE_POSTGRES_DSN": dsn,
        "TRACKSIDE_PAST_FOLDER": str(folder / PAST),
        "TRACKSIDE_STATE_FOLDER": str(folder / "state"),
        "TRACKSIDE_DISK_FOLDERS": os.pathsep.join(
            [str(folder), *(each.data for each in servers if each.data)]
        ),
        "TRACKSIDE_DISK_LOW_PERCENT": str(options.disk.low_percent),
        "TRACKSIDE_DISK_LOW_FREE": str(options.disk.low_free_bytes),
        **options.env,
    }


def load(folder: Path) -> Stack:
    """Returns the stack that runs in the folder; StackMissing if none does."""
    status = current_status(folder)
    if not is_locked(folder):
        reason = f" ({status.reason})" if status.reason else ""
        raise StackMissing(f"the stack in {folder} is down{reason}: run `trackside up`")
    return Stack(folder, status)


def find(start_at: Path | None = None) -> Stack:
    """Returns the stack of the nearest `.trackside/`, here or above; StackMissing if there is none.

    StackOfAnotherUser if the one here is another user's; one above that can't be read is skipped.
    """
    here = (start_at or current_folder()).resolve()
    for folder in [here, *here.parents]:
        status = folder / NAME / "stack.json"
        if os.access(status, os.R_OK, effective_ids=True):
            return load(folder / NAME)
        if folder == here and status.exists():
            raise of_another_user(folder / NAME)
    raise StackMissing(
        f"no {NAME}/stack.json in {here} or above it: run `trackside up`, or set the addresses"
    )


def stop(folder: Path, timeout_s: float = 90.0) -> bool:
    """Stops the folder's stack and waits for its end; False if none ran."""
    if not is_locked(folder):
        return False
    deadline = time.monotonic() + timeout_s
    signalled: int | None = None
    while is_locked(folder):
        if time.monotonic() > deadline:
            raise StackError(
                f"the stack in {folder} did not stop within {timeout_s:.0f} s, its supervisor is {signalled}"
            )
        with contextlib.suppress(StackMissing, ProcessLookupError):
            pid = read_status(folder).supervisor_pid
            if pid != signalled:
                os.kill(pid, signal.SIGTERM)
                signalled = pid
        time.sleep(LOOK_EVERY_S)
    return True


def _clear(folder: Path) -> None:
    """Makes the private folders, and removes the status of a former stack."""
    for name in ("kafka", "logs", "services", STORE):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    (folder / "stack.json").unlink(missing_ok=True)


def _launch(folder: Path, locks: Sequence[int]) -> None:
    """Starts the supervisor in the background; it takes over the locks, the folder's first."""
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "trackside.embedded.supervision.supervisor",
        str(folder),
        *(str(lock) for lock in locks),
    ]
    with os.fdopen(open_log(str(logs / "supervisor.log")), "ab") as out:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=locks, check=True)
