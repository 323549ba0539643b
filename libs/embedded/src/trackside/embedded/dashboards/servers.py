"""Prometheus and Grafana as processes of a stack, and what a user runs where their programs are missing."""

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.envelope.memory import bytes_of
from trackside.embedded.dashboards import provisioning
from trackside.embedded.dashboards.programs import Grafana, find_grafana, find_prometheus
from trackside.embedded.dashboards.provisioning import DashboardAddresses
from trackside.embedded.errors import StackError
from trackside.embedded.ports import HOST, recorded_ports
from trackside.embedded.processes import ProcessSpec
from trackside.embedded.settings import DashboardSettings

PORTS = ("prometheus", "grafana")
"""The names of their ports, and of their processes."""
FOLDER = "dashboards"
IMAGES = {"prometheus": "prom/prometheus:v3.5.0", "grafana": "grafana/grafana:12.1.1"}
"""Those of docker-compose.yml."""
NO_READER = (
    "dashboards need a login to Postgres that only reads: set TRACKSIDE_READER_PASSWORD_FILE to a file with "
    "the password that this login, trackside_dashboards, has or gets"
)


@dataclass(frozen=True)
class DashboardPrograms:
    """The programs that were found; None for one that is missing."""

    prometheus: Path | None
    grafana: Grafana | None

    @property
    def missing(self) -> list[str]:
        """The names of those that were not found."""
        return [name for name in PORTS if getattr(self, name) is None]


def find_programs(settings: DashboardSettings) -> DashboardPrograms:
    """Finds both programs. StackError if a setting names a folder without its program."""
    return DashboardPrograms(find_prometheus(settings), find_grafana(settings))


def addresses_of(
    processes: Sequence[ProcessSpec], ports: Mapping[str, int], reader: str
) -> DashboardAddresses:
    """Returns what is scraped among the processes of a stack, and where its dashboards are."""
    services = {each.name: each.health_port for each in processes if each.health_port is not None}
    return DashboardAddresses(services, ports["prometheus"], ports["grafana"], reader)


def prepare(
    folder: Path,
    stack: Sequence[ProcessSpec],
    ports: Mapping[str, int],
    reader: str,
    settings: DashboardSettings,
) -> list[ProcessSpec]:
    """Writes `folder`/dashboards for the processes of a stack; returns those of the programs found here.

    They start after the stack's own. `reader` is the DSN that dashboards read with. StackError without one,
    or if a setting names a folder without its program.
    """
    if not reader:
        raise StackError(NO_READER)
    programs, addresses = find_programs(settings), addresses_of(stack, ports, reader)
    tier = 1 + max((each.tier for each in stack), default=0)
    provisioning.write(folder / FOLDER, addresses)
    processes = []
    for name in PORTS:
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    if programs.prometheus is not None:
        processes.append(_prometheus(folder, programs.prometheus, addresses, settings, tier))
    if programs.grafana is not None:
        processes.append(_grafana(folder, programs.grafana, addresses, tier))
    return processes


def prometheus_options(folder: Path, port: int, settings: DashboardSettings) -> list[str]:
    """Returns the options of Prometheus: this machine only, what it reads, and how much it keeps."""
    size = bytes_of(settings.prometheus_retention_size)
    return [
        f"--config.file={folder / FOLDER / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--storage.tsdb.retention.time={settings.prometheus_retention_days}d",
        f"--storage.tsdb.retention.size={size}B",
        f"--web.listen-address={HOST}:{port}",
        "--enable-feature=exemplar-storage",
        "--log.level=warn",
    ]


def mount_commands(folder: Path, settings: DashboardSettings, missing: Sequence[str]) -> list[str]:
    """Returns a command for each missing program that runs it in a container, on the network of this machine.

    The folder has the same path in the container, so that its files are right there too.
    """
    engine = "docker" if shutil.which("docker") or not shutil.which("podman") else "podman"
    own = [] if engine == "docker" or os.geteuid() == 0 else ["--userns=keep-id"]
    files, user = folder / FOLDER, f"--user={os.geteuid()}:{os.getegid()}"
    run = [engine, "run", "--detach", "--rm", "--network=host", user, *own, f"--volume={files}:{files}:ro"]
    data = folder / "prometheus"
    options = prometheus_options(folder, recorded_ports(folder)["prometheus"], settings)
    commands = {
        "prometheus": [*run, f"--volume={data}:{data}", IMAGES["prometheus"], *options],
        "grafana": [*run, f"--env-file={files / 'grafana.env'}", IMAGES["grafana"]],
    }
    return [shlex.join(commands[name]) for name in missing]


def _prometheus(
    folder: Path, program: Path, addresses: DashboardAddresses, settings: DashboardSettings, tier: int
) -> ProcessSpec:
    data, port = folder / "prometheus", addresses.prometheus_port
    return ProcessSpec(
        name="prometheus",
        argv=[str(program), *prometheus_options(folder, port, settings)],
        log=str(folder / "logs" / "prometheus.log"),
        cwd=str(data),
        tier=tier,
        check="http",
        port=port,
        data=str(data),
        ready_path="/-/ready",
        optional=True,
    )


def _grafana(folder: Path, grafana: Grafana, addresses: DashboardAddresses, tier: int) -> ProcessSpec:
    data = folder / "grafana"
    own = {
        "GF_PATHS_DATA": str(data),
        "GF_PATHS_LOGS": str(data / "log"),
        "GF_PATHS_PLUGINS": str(data / "plugins"),
        "GF_LOG_MODE": "console",
        "GF_LOG_LEVEL": "warn",
    }
    return ProcessSpec(
        name="grafana",
        argv=[*grafana.argv, f"--homepath={grafana.home}"],
        log=str(folder / "logs" / "grafana.log"),
        env=provisioning.grafana_variables(folder / FOLDER, addresses) | own,
        cwd=str(data),
        tier=tier,
        check="http",
        port=addresses.grafana_port,
        data=str(data),
        ready_path="/api/health",
        optional=True,
    )
