"""A stack on small disks: a search runs, a disk is filled and emptied, and nothing acknowledged is lost."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.harness import UserFolder
from tests.polling import poll_until_sync
from trackside.embedded import stack
from trackside.embedded.folder import StackStatus

NOOP = Path(__file__).parents[1] / "deploy" / "examples" / "noop" / "catalogue.yaml"
SEARCH_ID = "filling"
SEARCH = """
kind: search
task_type: noop
direction: minimize
max_trials: {trials}
concurrency: 2
seed: 7
tuner: {{name: random}}
retry: {{lost: 9, failed: 9}}
space:
  seconds: {{type: uniform, low: 0.02, high: 0.1}}
  value: {{type: uniform, low: 0, high: 1}}
"""


@contextmanager
def public_folder() -> Iterator[Path]:
    """Yields a folder that the account of Postgres can enter: its data is inside of it then, for root too."""
    folder = Path(tempfile.mkdtemp(prefix="trackside-disk-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class SearchOnSmallDisk:
    """A stack in a user's folder that runs a search."""

    def __init__(self, folder: Path, leash: Path, **settings: str) -> None:
        self.home = UserFolder(folder, settings)
        self._leash = leash

    @contextmanager
    def running(self, trials: int) -> Iterator[None]:
        """Starts the stack and the search; stops the stack at the end of the block."""
        arguments = ("--leash", str(self._leash), "--catalogue", str(NOOP), "--slots", "2")
        try:
            self.home.run_ok("up", *arguments)
            self.submit(SEARCH_ID, trials)
            self.await_trials(5)
            yield
        finally:
            stack.stop(self.folder)

    @property
    def folder(self) -> Path:
        """The folder of the stack."""
        return self.home.path / ".trackside"

    @property
    def status(self) -> StackStatus:
        """What the supervisor answers now."""
        return stack.load(self.folder).status

    def shown_status(self) -> tuple[int, dict[str, Any]]:
        """Returns the exit code of `trackside status --json`, and what it printed."""
        ended = self.home.run("status", "--json")
        return ended.returncode, json.loads(ended.stdout)

    def queued(self) -> int:
        """Returns how many tasks wait, as `trackside status` counts them from the rows."""
        return sum(row["tasks"] for row in self.shown_status()[1]["queue"])

    def submit(self, name: str, trials: int) -> str:
        """Submits a search, which must be accepted."""
        spec = Path(tempfile.mkstemp(suffix=".yaml")[1])
        try:
            spec.write_text(SEARCH.format(trials=trials))
            return self.home.run_ok("submit", str(spec), "--id", name)
        finally:
            spec.unlink()

    def await_trials(self, count: int) -> None:
        """Waits until so many trials have ended."""
        poll_until_sync(lambda: self.ended(SEARCH_ID) >= count)

    def ended(self, name: str) -> int:
        """Returns how many trials of a search have ended by the read models."""
        rows = self.home.json_output("ls")
        return sum(row["ended_trials"] for row in rows if row["search_id"] == name)

    def await_ready(self) -> None:
        """Waits until all processes are ready and nothing is wrong any more."""
        poll_until_sync(lambda: self.status.is_ready and not self.status.problems)
        poll_until_sync(lambda: self.shown_status()[0] == 0)

    def assert_nothing_is_lost(self, *searches: str) -> None:
        """Waits for the end of searches, and has the log verified."""
        for name in searches:
            self.home.run_ok("watch", name)
        verified = self.home.run("verify-log")
        assert verified.returncode == 0, verified.stdout + verified.stderr


def is_running(pid: int) -> bool:
    """Returns whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
