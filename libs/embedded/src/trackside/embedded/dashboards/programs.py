"""Finds the programs of Prometheus and Grafana: in the folder of a setting, else on PATH."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from trackside.embedded.errors import StackError
from trackside.embedded.settings import DashboardSettings

DEFAULTS = Path("conf/defaults.ini")
"""What every home of Grafana has; Grafana doesn't start without it."""
PACKAGE_HOME = Path("/usr/share/grafana")
"""The home in Debian's and Red Hat's packages, whose programs on PATH are shell scripts."""
SERVERS = ("grafana", "grafana-server")
"""Newer releases have one program, `grafana server`; in older ones the server is a program of its own."""


@dataclass(frozen=True)
class Grafana:
    """A Grafana: the command that starts its server, and its home, where its pages and defaults are."""

    argv: list[str]
    home: Path


def find_prometheus(settings: DashboardSettings) -> Path | None:
    """Returns the program of Prometheus, None without one. StackError if the setting's folder has none."""
    if not settings.prometheus_home:
        found = shutil.which("prometheus")
        return None if found is None else Path(found)
    home = Path(settings.prometheus_home).expanduser().absolute()
    for program in (home / "prometheus", home / "bin" / "prometheus"):
        if program.is_file():
            return program
    raise StackError(
        f"TRACKSIDE_PROMETHEUS_HOME: {home} has no program `prometheus`; name the folder that its archive "
        "was unpacked to"
    )


def find_grafana(settings: DashboardSettings) -> Grafana | None:
    """Returns Grafana, None without one. StackError if what is found has no home, or the setting's none."""
    if settings.grafana_home:
        home = Path(settings.grafana_home).expanduser().absolute()
        if (grafana := _in_home(home)) is not None:
            return grafana
        raise StackError(
            f"TRACKSIDE_GRAFANA_HOME: {home} has no {DEFAULTS} or no bin/grafana: "
            "name the folder that its archive was unpacked to"
        )
    on_path = next((found for name in SERVERS if (found := shutil.which(name))), None)
    if on_path is None:
        return None
    prefix = Path(on_path).resolve().parent.parent
    homes = (prefix, prefix / "share" / "grafana", PACKAGE_HOME)  # the second is Homebrew's
    with_defaults = [each for each in homes if (each / DEFAULTS).is_file()]
    if not with_defaults:
        raise StackError(
            f"{on_path} is on PATH, but the home of Grafana, with {DEFAULTS}, is in none of "
            f"{', '.join(map(str, homes))}: set TRACKSIDE_GRAFANA_HOME to it"
        )
    return _in_home(with_defaults[0]) or Grafana(_server(Path(on_path)), with_defaults[0])


def _in_home(home: Path) -> Grafana | None:
    programs = (home / "bin" / name for name in SERVERS)
    program = next((each for each in programs if each.is_file()), None)
    if program is None or not (home / DEFAULTS).is_file():
        return None
    return Grafana(_server(program), home)


def _server(program: Path) -> list[str]:
    return [str(program), "server"] if program.name == "grafana" else [str(program)]
