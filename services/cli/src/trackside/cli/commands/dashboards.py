"""Prints where the dashboards of a stack are, or how to run what this machine has no program for."""

from trackside.cli.render import screen
from trackside.embedded.dashboards.servers import PORTS, mount_commands
from trackside.embedded.folder import StackStatus
from trackside.embedded.ports import HOST, recorded_ports
from trackside.embedded.settings import DashboardSettings
from trackside.embedded.stack import Stack

TITLES = {"prometheus": "Prometheus", "grafana": "Grafana"}


def say(made: Stack, settings: DashboardSettings) -> None:
    """Prints the addresses of Prometheus and Grafana, and a command for each whose program is missing."""
    for line in addresses(made.status):
        screen.say(line)
    missing = [name for name in PORTS if name not in made.status.processes]
    if not missing:
        return
    ports = recorded_ports(made.folder)
    for name, command in zip(missing, mount_commands(made.folder, settings, missing), strict=True):
        screen.say(
            f"{TITLES[name]} is not on PATH, and TRACKSIDE_{name.upper()}_HOME is not set; this runs it in a "
            f"container, at http://{HOST}:{ports[name]}:"
        )
        screen.say(f"  {command}")
    screen.say(f"what they read is in {made.folder}/dashboards")


def addresses(status: StackStatus) -> list[str]:
    """Returns a line for each of Prometheus and Grafana that is part of a stack."""
    return [
        f"{TITLES[name]} is at http://{HOST}:{status.processes[name].port}"
        for name in reversed(PORTS)
        if name in status.processes
    ]
