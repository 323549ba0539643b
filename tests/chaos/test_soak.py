"""A soak of two minutes with a fault every few seconds; `make soak` runs it for hours."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.records import read_ledger

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),
]
HOURS, FAULT_INTERVAL_S = "0.035", "6"


def test_every_kind_of_experiment_survives_a_soak(tmp_path: Path, seed: int) -> None:
    arguments = ["--hours", HOURS, "--fault-interval", FAULT_INTERVAL_S, "--seed", str(seed)]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.soak", *arguments, "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (line,) = read_ledger(tmp_path / "ledger.jsonl")
    assert (line.seed, line.findings, line.verdict) == (seed, 0, "passed")
    assert line.faults > 5


def test_a_soak_that_is_interrupted_reports_what_there_was(tmp_path: Path, seed: int) -> None:
    arguments = ["--hours", "1", "--seed", str(seed), "--folder", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.soak", *arguments], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        said = ""
        for line in running.stdout:
            said += line
            if "faults" in line:  # the first line about the progress
                break
        running.send_signal(signal.SIGTERM)
        rest = running.stdout.read()
    assert running.returncode == 0, said + rest
    assert "it ends early" in rest
    (report,) = tmp_path.glob("*/report.html")
    assert "ended early, after" in report.read_text("utf-8")
