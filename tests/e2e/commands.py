"""Drives the `trackside` command as a user does: in a folder, by its output and its exit code."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).parent / "trackside"
ADDRESSES = ("TRACKSIDE_KAFKA_BOOTSTRAP", "TRACKSIDE_POSTGRES_DSN", "TRACKSIDE_TOPIC_PREFIX")


@dataclass(frozen=True)
class Folder:
    """A user's folder, and what its commands see of the environment beside the usual."""

    path: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    command: Path = COMMAND

    @property
    def environment(self) -> dict[str, str]:
        """Gives the environment of a command: nothing in it names a stack."""
        kept = {name: value for name, value in os.environ.items() if name not in ADDRESSES}
        return {**kept, "COLUMNS": "100", **self.extra}

    def run(
        self, *arguments: str, text: str = "", timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            [str(self.command), *arguments],
            cwd=self.path,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def done(self, *arguments: str, timeout_s: float = 300) -> str:
        """Runs a command that must end with 0, and gives what it printed."""
        ended = self.run(*arguments, timeout_s=timeout_s)
        assert ended.returncode == 0, ended.stderr + ended.stdout
        return ended.stdout

    def python(self, *arguments: str, timeout_s: float = 300) -> str:
        """Runs Python, which must end with 0, and gives what it printed."""
        ended = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.path,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr + ended.stdout
        return ended.stdout

    def answer(self, *arguments: str) -> Any:
        """Runs a command with --json and gives what it says."""
        return json.loads(self.done(*arguments, "--json"))

    def lines(self, *arguments: str) -> list[Any]:
        """Runs a command with --json that prints one value a line."""
        return [json.loads(line) for line in self.done(*arguments, "--json").splitlines()]

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Starts a command and leaves it running."""
        return subprocess.Popen(
            [str(self.command), *arguments],
            cwd=self.path,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def processes(self) -> list[int]:
        """Lists the processes that have something of this folder in their command line or environment."""
        mark, found = str(self.path).encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            pid = int(entry.name)
            try:
                told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue  # it ended, or is another user's
            if mark in told and pid != os.getpid():
                found.append(pid)
        return found
