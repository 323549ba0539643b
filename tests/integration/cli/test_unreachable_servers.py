"""Every command that needs a server, and every service, names the one that isn't there, with its address."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

CLOSED = "127.0.0.1:1"
SPEC = "kind: search\ntask_type: t\nmax_trials: 1\nspace: {x: {type: uniform, low: 0, high: 1}}\n"
OF_KAFKA = """
publish stop.json; stop s; pause s; resume s; update s --goal 1; update-space s space.json; request-trials s 1
add-trial s x=1; import-trials s past.json; stop-trial s 1; ping; logs s.1; importances s; export-trials s
events s; verify-log; replay show s; replay diff s --from 1 --to 2; replay why s 1; replay export s
replay whatif s; replay rerun s; replay fork s; replay compare s t; scheduler; worker; summary-indexer
"""
OF_POSTGRES = "report s; replay rebuild; tasks; devices; estimates; dead-letters; scheduler; summary-indexer"


def commands(server: str, text: str, *marks: pytest.MarkDecorator) -> Any:
    """Returns a row of the commands that need a server, which are written one after another."""
    return pytest.param(server, text.strip().replace("\n", "; ").split("; "), marks=marks)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "search.yaml").write_text(SPEC)
    (tmp_path / "stop.json").write_text('{"type": "trackside.stop-search.v1", "stream": "s", "data": {}}')
    (tmp_path / "space.json").write_text('{"x": {"type": "uniform", "low": 0, "high": 1}}')
    (tmp_path / "past.json").write_text('[{"parameters": {"x": 0}, "value": 1}]')
    (tmp_path / "catalogue.yaml").write_text("tasks: {}\n")
    return tmp_path


def first_mention(server: str, command: str, folder: Path) -> str:
    """Runs a command until it writes a line with the server and its address, and returns that line."""
    with subprocess.Popen(
        [str(Path(sys.executable).with_name("trackside")), *command.split()],
        env={
            **os.environ,
            "TRACKSIDE_KAFKA_BOOTSTRAP": CLOSED,
            "TRACKSIDE_POSTGRES_DSN": f"postgresql://me:hunter2@{CLOSED}/here",
            "TRACKSIDE_WORKER_HOST_DIR": str(folder / "host"),
            "COLUMNS": "200",
        },
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            return next((line for line in process.stdout if server in line and CLOSED in line), "nothing")
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("server", "asked"),
    [
        commands("Kafka", "submit search.yaml; watch s; dispatcher"),
        commands("Postgres", "ls; show s; dispatcher"),
        commands("Kafka", OF_KAFKA, pytest.mark.long),
        commands("Postgres", OF_POSTGRES, pytest.mark.long),
    ],
)
def test_it_is_said_which_server_at_which_address_is_not_there(
    server: str, asked: list[str], folder: Path
) -> None:
    with ThreadPoolExecutor(4) as threads:
        lines = threads.map(lambda each: first_mention(server, each, folder), asked)
        said = dict(zip(asked, lines, strict=True))
    assert "hunter2" not in str(said)
    assert [command for command, line in said.items() if line == "nothing"] == []
