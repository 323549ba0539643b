"""Puts a mutant into a module, runs the tests that run its line until one fails, and takes it out again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from tests.mutants.draw import Mutant

FAILED = 1
LIMIT_S = 180.0
"""How long the tests of one mutant may take; what has not failed by then has survived."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: `killed_by` is the first test that failed, or empty."""

    mutant: Mutant
    tests: int
    killed_by: str
    timed_out: bool

    def __str__(self) -> str:
        mutant = self.mutant
        before, after = (" ".join(text.split())[:60] for text in (mutant.before, mutant.after))
        fate = f"killed by {self.killed_by}" if self.killed_by else "SURVIVED"
        late = ", not all of them in time" if self.timed_out else ""
        return f"{mutant.path}:{mutant.line}: {before} -> {after}: {fate}; {self.tests} tests run it{late}"


@contextmanager
def applied(root: Path, mutant: Mutant) -> Iterator[None]:
    """Has the mutant in its module for the block."""
    path = root / mutant.path
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    first, last = lines[mutant.line - 1], lines[mutant.end_line - 1]
    changed = first[: mutant.column] + mutant.after.encode() + last[mutant.end_column :]
    path.write_bytes(b"".join([*lines[: mutant.line - 1], changed, *lines[mutant.end_line :]]))
    try:
        yield
    finally:
        path.write_bytes(whole)


def ordered(mutant: Mutant, tests: Sequence[str]) -> list[str]:
    """Returns the tests, those first that are likely to notice: of its package, and without servers."""
    package = mutant.path.split("/")[1]
    return sorted(tests, key=lambda test: (not test.startswith("tests/unit"), f"/{package}" not in test))


def tried(root: Path, mutant: Mutant, tests: Sequence[str], marks: str) -> Verdict:
    """Runs the tests on the mutant; `marks` selects some of them, as `-m` of pytest does."""
    if not tests:
        return Verdict(mutant, 0, "", timed_out=False)
    with NamedTemporaryFile("w", suffix=".txt") as ids, applied(root, mutant):
        ids.write("\n".join(ordered(mutant, tests)))
        ids.flush()
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        running = subprocess.Popen(
            [*command, "--tb=no", "-rfE", "-m", marks, f"@{ids.name}"],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = running.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
            return Verdict(mutant, len(tests), "", timed_out=True)
    killers = [line.split()[1] for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    broken = running.returncode not in (0, FAILED, 5)  # it can't even be imported
    killed_by = killers[0] if killers else "the collection" if broken else ""
    return Verdict(mutant, len(tests), killed_by, timed_out=False)
