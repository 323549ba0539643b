"""What a soak is asked for."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DEFAULT_FOLDER = ".cache/soak"
CACHE_ENTRIES = 100
"""How many inputs the worker's cache holds: so few that it is full within minutes."""
MOST_INTERVALS = 5.0
"""No fault waits longer than so many times the mean."""


@dataclass(frozen=True)
class SoakOptions:
    """How long it runs, with how many faults, on a disk of which size, and where its results are."""

    hours: float
    seed: int
    fault_interval_s: float
    disk: str
    folder: Path
    lease_s: float
    verify_every_s: float = 180.0
    sample_every_s: float = 10.0
    slots: int = 2

    @property
    def length_s(self) -> float:
        """How long faults are injected, s."""
        return self.hours * 3_600

    @property
    def variables(self) -> dict[str, str]:
        """The settings of the stack that differ from those of other tests with faults."""
        return {
            "TRACKSIDE_SCHEDULER_LEASE_S": f"{self.lease_s:g}",
            "TRACKSIDE_WORKER_CACHE_ENTRIES": str(CACHE_ENTRIES),
        }

    @property
    def ledger(self) -> Path:
        """The file that has a line of each run."""
        return self.folder / "ledger.jsonl"


def read_options(arguments: Sequence[str], drawn_seed: int) -> SoakOptions:
    """Reads the command line; the seed is the drawn one unless it names another."""
    parser = argparse.ArgumentParser(
        prog="make soak", description="Runs every kind of experiment for hours, with random faults."
    )
    parser.add_argument("--hours", type=float, default=1.0, help="how long faults are injected (default: 1)")
    parser.add_argument("--seed", type=int, default=drawn_seed, help="of faults and experiments")
    parser.add_argument(
        "--fault-interval",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="mean time between faults (default: 60)",
    )
    parser.add_argument(
        "--lease",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="lease of the worker (default: 5); its tasks survive it if the next one starts within it",
    )
    parser.add_argument("--disk", default="", metavar="SIZE", help="size of the disk, such as 2g; see below")
    parser.add_argument("--folder", type=Path, default=Path(DEFAULT_FOLDER), help="where reports are written")
    parser.epilog = (
        "The disk of the stack is memory of the machine. Its size is 2g, and 1g more for each four hours, "
        "unless it is given: the log of a day needs so much."
    )
    found = parser.parse_args(arguments)
    if min(found.hours, found.fault_interval, found.lease) <= 0:
        parser.error("hours and seconds must be above 0")
    disk = found.disk or f"{2 + int(found.hours / 4)}g"
    return SoakOptions(
        found.hours, found.seed, found.fault_interval, disk, found.folder.resolve(), found.lease
    )
