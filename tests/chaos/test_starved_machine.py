"""A stack with the settings that users have, on a machine whose processors are wanted by 32 busy loops.

It takes minutes, as each process gets a seventeenth of a processor of two.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.starvation import busy_loops
from tests.e2e.harness import UserFolder
from tests.full_disk import NOOP

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),
]
LIMIT_S = 1_200.0
LOOPS_PER_PROCESSOR = 16
TRIALS = 20
SEARCH = f"""
kind: search
task_type: noop
direction: minimize
max_trials: {TRIALS}
concurrency: 4
seed: 7
tuner: {{name: tpe}}
retry: {{lost: 9, failed: 9}}
space:
  seconds: {{type: uniform, low: 0.5, high: 3}}
  value: {{type: uniform, low: 0, high: 1}}
"""


@pytest.fixture
def starved(tmp_path: Path) -> Iterator[UserFolder]:
    """Yields a folder for a stack, beside 16 busy loops for each processor."""
    user = UserFolder(tmp_path)
    with busy_loops(LOOPS_PER_PROCESSOR * len(os.sched_getaffinity(0))):
        yield user
        user.run("down", timeout_s=LIMIT_S)


def test_on_a_starved_machine_a_stack_starts_and_no_lease_ends(starved: UserFolder, leash: Path) -> None:
    (starved.path / "search.yaml").write_text(SEARCH)
    options = ("--catalogue", str(NOOP), "--slots", "4", "--leash", str(leash))
    started = starved.run("up", *options, timeout_s=LIMIT_S)
    assert started.returncode == 0, started.stdout + started.stderr

    starved.run_ok("submit", "search.yaml", "--id", "starved", timeout_s=LIMIT_S)
    starved.run_ok("watch", "starved", timeout_s=LIMIT_S)
    ended = [
        (event["data"]["attempt"], event["data"]["end"])
        for event in starved.json_lines("events", "starved")
        if event["type"].startswith("trackside.attempt-ended.")
    ]
    assert ended == [(1, "finished")] * TRIALS

    processes = starved.json_output("status")["processes"]
    assert {row["name"]: row["restarts"] for row in processes if row["restarts"]} == {}
    starved.run_ok("verify-log", timeout_s=LIMIT_S)
