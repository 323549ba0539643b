"""Homes of the stand-in for Grafana, laid out as the archives and packages of Grafana are."""

import sys
from pathlib import Path

from tests.house.source import ROOT

STANDIN = Path(__file__).with_name("grafana_standin.py")


def script(path: Path, text: str) -> Path:
    """Writes a shell script that may be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def grafana_home(home: Path, program: str = "grafana") -> Path:
    """Makes a home with the stand-in as `program`; returns the home."""
    run = f"export STANDIN={program} PYTHONPATH={ROOT}"
    script(home / "bin" / program, f'{run}\nexec {sys.executable} {STANDIN} "$@"')
    (home / "conf").mkdir()
    (home / "conf" / "defaults.ini").write_text("# of the stand-in\n")
    return home
