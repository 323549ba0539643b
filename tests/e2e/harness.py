"""Runs the `trackside` command as a user does: in a folder, reading its output and exit code."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forked_processes import COLD, COMMAND, run_command
from trackside.embedded.kafka.kafka import FAST_START

ADDRESSES = ("TRACKSIDE_KAFKA_BOOTSTRAP", "TRACKSIDE_POSTGRES_DSN", "TRACKSIDE_TOPIC_PREFIX")


@dataclass(frozen=True)
class UserFolder:
    """A user's folder, and environment variables of its commands in addition to the usual ones."""

    path: Path
    extra: Mapping[str, str] = field(default_factory=dict)
    command: Path = COMMAND

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a command, without addresses of a stack; its broker is ready soon."""
        kept = {name: value for name, value in os.environ.items() if name not in ADDRESSES}
        return {**kept, "COLUMNS": "100", "JAVA_TOOL_OPTIONS": FAST_START, **self.extra}

    def run(
        self, *arguments: str, text: str = "", timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        imports_alike = self.command == COMMAND and "PYTHONPATH" not in self.extra
        if imports_alike and arguments[0] not in COLD:
            return run_command(arguments, self.path, self.environment, text, timeout_s)
        return ran([str(self.command), *arguments], self.path, self.environment, text, timeout_s)

    def run_ok(self, *arguments: str, timeout_s: float = 300) -> str:
        """Runs a command that must end with 0, and returns its output."""
        return output_of(self.run(*arguments, timeout_s=timeout_s))

    def python(self, *arguments: str, timeout_s: float = 300) -> str:
        """Runs Python, which must end with 0, and returns its output."""
        command = [sys.executable, *arguments]
        return output_of(ran(command, self.path, self.environment, "", timeout_s))

    def json_output(self, *arguments: str) -> Any:
        """Runs a command with --json; returns its output."""
        return json.loads(self.run_ok(*arguments, "--json"))

    def json_lines(self, *arguments: str) -> list[Any]:
        """Runs a command with --json that prints one value a line; returns the values."""
        return [json.loads(line) for line in self.run_ok(*arguments, "--json").splitlines()]

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
        """Returns the processes that name this folder in their command line or environment."""
        needle, found = str(self.path).encode(), []
        for entry in Path("/proc").glob("[0-9]*"):
            pid = int(entry.name)
            try:
                content = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue  # it ended, or is another user's
            if needle in content and pid != os.getpid():
                found.append(pid)
        return found


def ran(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    text: str = "",
    timeout_s: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder to its end."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def output_of(ended: subprocess.CompletedProcess[str]) -> str:
    """Returns the output of a command, which has ended with 0."""
    assert ended.returncode == 0, f"{ended.args}: {ended.stderr}{ended.stdout}"
    return ended.stdout
