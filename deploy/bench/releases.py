"""Two releases measured in turn on one machine: `python -m bench --against COMMIT`.

Times of two runs hours apart can't be compared: the machine differs more than the releases do. So both are
measured in each round, the other one first in every second round, and each round gives a ratio.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from bench.measurements import MissingError
from bench.report_table import number

ROOT = Path(__file__).resolve().parents[2]
RELEASES = ROOT / ".cache/releases"
"""Beside this one's environment: whatever account runs Postgres here can read that, too."""
CPU_DETAILS = {"cpu_ms": "a trial", "warm_cpu_ms": "a warm trial"}
"""The details of a run that have the processor time by process, and what it is of."""
Row = tuple[str, str]
"""What is measured, and its unit."""


@dataclass(frozen=True, slots=True)
class Release:
    """A checkout with an environment of its own."""

    name: str
    folder: Path

    def measure(self, argv: Sequence[str]) -> dict[Row, float]:
        """Runs the benchmark of this release; returns its figures.

        Raises:
            MissingError: It failed; the message has the end of what it printed.
        """
        with tempfile.TemporaryDirectory(prefix="trackside-bench-") as made:
            result = Path(made) / "figures.json"
            command = [str(self.folder / ".venv/bin/python"), "-m", "bench", *argv, "--json", str(result)]
            environment = {**os.environ, "PYTHONPATH": str(self.folder / "deploy")}
            run = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
            )
            if run.returncode:
                end = (run.stderr or run.stdout).strip()[-2_000:]
                raise MissingError(f"the benchmark of {self.name} ended with {run.returncode}:\n{end}")
            return figures(json.loads(result.read_text()))


def figures(document: Mapping[str, Any]) -> dict[Row, float]:
    """Returns the figures of a run by what they measure, and the processor time by process."""
    found: dict[Row, float] = {
        (f"{each['number']} {each['what']}".strip("- "), each["unit"]): each["value"]
        for each in document["figures"]
    }
    for detail, of_what in CPU_DETAILS.items():
        by_process = cast(dict[str, float], document["details"].get(detail, {}))
        for process, value in by_process.items():
            found[f"processor time of {of_what}: {process}", "ms"] = value
        if by_process:
            found[f"processor time of {of_what}", "ms"] = sum(by_process.values())
    return found


def checkout(commit: str) -> Release:
    """Makes a clone of a commit with its environment, or finds the one that was made before."""
    sha = _git(ROOT, "rev-parse", "--verify", f"{commit}^{{commit}}")
    folder = RELEASES / sha[:12]
    if not (folder / ".git").exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _git(ROOT, "clone", "--quiet", "--no-checkout", str(ROOT), str(folder))
    _git(folder, "checkout", "--quiet", sha)
    made = subprocess.run(["make", "env"], cwd=folder, capture_output=True, text=True, check=False)
    if made.returncode:
        raise MissingError(f"the environment of {commit} can't be made in {folder}:\n{made.stderr[-2_000:]}")
    return Release(sha[:8], folder)


def compare(commit: str, argv: Sequence[str], rounds: int, console: Console) -> None:
    """Measures this release and another one in turn, and prints the ratio of each row and its spread."""
    console.print(f"the release {commit} in {RELEASES}, with an environment of its own", style="dim")
    other, this = checkout(commit), Release("this", ROOT)
    measured: list[tuple[dict[Row, float], dict[Row, float]]] = []
    for turn in range(rounds):
        found: dict[str, dict[Row, float]] = {}
        for release in (this, other) if turn % 2 else (other, this):
            console.print(f"round {turn + 1} of {rounds}: {release.name}", style="dim")
            found[release.name] = release.measure(argv)
        measured.append((found[this.name], found[other.name]))
    console.print(table(other.name, measured))


def table(name: str, rounds: Sequence[tuple[Mapping[Row, float], Mapping[Row, float]]]) -> Table:
    """Returns the medians of both releases, the median of the ratios of all rounds, their least and greatest.

    A row that a release lacks in a round isn't compared there; one that is nowhere in both has no ratio.
    """
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("measure", name, "this", "ratio", "spread"):
        shown.add_column(title, justify="left" if title == "measure" else "right", no_wrap=title != "measure")
    for row in dict.fromkeys(row for pair in rounds for run in pair for row in run):
        what, unit = row
        values = [[run[row] for run in runs if row in run] for runs in zip(*rounds, strict=True)]
        medians = [f"{number(statistics.median(each))} {unit}" if each else "-" for each in values]
        ratios = [this[row] / other[row] for this, other in rounds if other.get(row) and row in this]
        ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-"
        shown.add_row(what, medians[1], medians[0], ratio, spread)
    return shown


def without_options(argv: Sequence[str], names: Sequence[str]) -> list[str]:
    """Returns a command line without some of its options, which have a value each."""
    kept: list[str] = []
    skip = False
    for each in argv:
        if not skip and each.split("=", 1)[0] not in names:
            kept.append(each)
        skip = not skip and each in names
    return kept


def _git(folder: Path, *argv: str) -> str:
    command = ["git", "-C", str(folder), *argv]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"bench: {' '.join(command)}: {run.stderr.strip()}")
    return run.stdout.strip()
