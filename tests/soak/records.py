"""What a soak writes down: faults, experiments, findings and samples, each as lines of JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.soak.checks import Check

MEASURES = "measures.jsonl"


class FaultRecord(NamedTuple):
    """A fault: when, s after the start; its kind; what it was about; and the recovery from it, s.

    `event_s` is how long the log had no event after it, `ready_s` how long until the whole stack was ready;
    None if the run ended before. Faults that came meanwhile count in both.
    """

    at_s: float
    kind: str
    target: str
    event_s: float | None
    ready_s: float | None


class ExperimentRecord(NamedTuple):
    """An experiment that has ended: when, its kind, its name, how, and how long it took."""

    at_s: float
    kind: str
    name: str
    outcome: str
    took_s: float


class Finding(NamedTuple):
    """Something that is wrong: when it was found, by which check, and what."""

    at_s: float
    check: str
    text: str


@dataclass
class RunRecord:
    """All that is known of a run; `folder` has it as files, `notes` are about the run itself."""

    folder: Path
    seed: int
    begin: str
    notes: list[str] = field(default_factory=list)
    faults: list[FaultRecord] = field(default_factory=list)
    experiments: list[ExperimentRecord] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    verifications: list[int] = field(default_factory=list)
    """How many events each verification during the run has read."""
    checks: list[Check] = field(default_factory=list)
    events: int = 0
    attempts: dict[str, int] = field(default_factory=dict)
    """How many attempts ended in which way, and how many times one was adopted."""
    length_s: float = 0.0
    end_checked: bool = False
    """Whether it came to the checks of the end."""

    def add_fault(self, fault: FaultRecord) -> None:
        """Adds a fault."""
        self.faults.append(fault)
        self._append("faults.jsonl", fault._asdict())

    def add_experiment(self, experiment: ExperimentRecord) -> None:
        """Adds an experiment."""
        self.experiments.append(experiment)
        self._append("experiments.jsonl", experiment._asdict())

    def add_finding(self, finding: Finding) -> None:
        """Adds a finding."""
        self.findings.append(finding)
        self._append("findings.jsonl", finding._asdict())

    def add_sample(self, sample: dict[str, Any]) -> None:
        """Appends a sample to its file; it is not kept in memory."""
        self._append(MEASURES, sample)

    def samples(self) -> Iterator[dict[str, Any]]:
        """Yields the samples, the first one first."""
        path = self.folder / MEASURES
        if path.exists():
            with path.open(encoding="utf-8") as lines:
                yield from map(json.loads, lines)

    def _append(self, name: str, line: dict[str, Any]) -> None:
        with (self.folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class LedgerLine:
    """What the ledger has of a run."""

    begin: str
    hours: float
    seed: int
    faults: int
    experiments: int
    events: int
    findings: int
    verdict: str


def add_to_ledger(path: Path, line: LedgerLine) -> None:
    """Appends a run to the ledger."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(line)) + "\n")


def read_ledger(path: Path) -> list[LedgerLine]:
    """Returns all runs of the ledger, the first one first."""
    if not path.exists():
        return []
    return [LedgerLine(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
