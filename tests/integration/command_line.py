"""Runs `trackside` in the process of the test, as a user types it."""

import json
from typing import Any

import pytest

from trackside.cli.app import call


def tried(output: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Returns the exit code of a command, and what it has printed on stdout and on stderr."""
    output.readouterr()
    code = call(list(arguments))
    out, err = output.readouterr()
    return code, out, err


def said(output: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Returns what a command has printed, which must end with 0."""
    code, out, err = tried(output, *arguments)
    assert code == 0, err
    return out


def answer(output: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Returns the JSON that a command prints with `--json`."""
    return json.loads(said(output, *arguments, "--json"))
