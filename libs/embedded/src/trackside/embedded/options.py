"""What a stack runs, as its caller says it."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.embedded.service_health import STUCK_S
from trackside.telemetry.disk_limits import DiskLimits

if TYPE_CHECKING:
    from trackside.embedded.settings import DashboardSettings


@dataclass(frozen=True)
class ServiceSpec:
    """One service process: `argv` defaults to `python -m trackside.<module>`, `module` to the name.

    `name` is unique in the stack ("worker", "worker-2"); `env` is added to what every service gets. A service
    with `pages` is the console: it gets a port for them and the addresses of the others, and the stack is
    ready without it.
    """

    name: str
    module: str | None = None
    argv: Sequence[str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    pages: bool = False

    @property
    def package(self) -> str:
        """The package that is run as the service."""
        return f"trackside.{(self.module or self.name).replace('-', '_')}"

    @property
    def is_worker(self) -> bool:
        """Whether the service is a worker, whatever it is named."""
        return self.package == "trackside.worker"

    @property
    def principal(self) -> str:
        """Who the service is to a Kafka with users: a worker by its id, the others by their names."""
        worker = self.env.get("TRACKSIDE_WORKER_ID")
        return f"worker-{worker}" if worker else self.name

    def command(self) -> list[str]:
        """Returns the service's command line."""
        return list(self.argv) if self.argv is not None else [sys.executable, "-m", self.package]


@dataclass(frozen=True)
class StackOptions:
    """What a stack runs besides Kafka and Postgres, and how it starts and stops.

    `setup` commands run one after the other, once Kafka and Postgres answer and before the services start.
    Kafka or Postgres is left out where an address is given; `reader_password` is the file with the password
    of the login of dashboards in that Postgres. Artifacts are in the folder of the stack unless `store` is
    the URL of another store. `durable=False` is for tests: their servers start faster and may lose data at a
    power cut. `ephemeral` removes the folder after the stop. The stack stops by
    itself when no process holds `leash` any more. Its start fails if it makes no progress for
    `timeout_s` seconds; at the stop each tier gets `grace_s` seconds before it is killed. No new task is
    started while a disk is low by `disk`. With `dashboards` Prometheus and Grafana run too, where their
    programs are found. With `secure` the Kafka takes only users, over TLS: each service is one, `users` are
    others. A folder that was started so stays so. A service whose event loop takes no turn for `stuck_s`
    seconds is started again. One that has been ready for `spares_after_s` seconds gets a spare, if given: a
    process that has imported its code and replaces it.
    """

    services: Sequence[ServiceSpec] = ()
    setup: Sequence[Sequence[str]] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    bootstrap_servers: str | None = None
    postgres_dsn: str | None = None
    durable: bool = True
    ephemeral: bool = False
    leash: Path | None = None
    timeout_s: float = 60.0
    grace_s: float = 10.0
    disk: DiskLimits = field(default_factory=DiskLimits)
    store: str | None = None
    reader_password: Path | None = None
    dashboards: "DashboardSettings | None" = None
    secure: bool = False
    users: Sequence[str] = ()
    stuck_s: float = STUCK_S
    spares_after_s: float | None = None


USUAL = StackOptions()
