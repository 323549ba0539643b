"""`trackside up --secure`: every connection to Kafka is encrypted, and that of a user with few rights."""

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import UserFolder
from trackside.embedded.stack import load

pytestmark = pytest.mark.timeout(900)

SERVICES = ("dispatcher", "scheduler", "worker-worker", "summary-indexer", "console")
SPEC = """
kind: search
task_type: curve
max_trials: MOST
concurrency: 2
space:
  learning_rate: {type: loguniform, low: 1e-5, high: 1e-1}
  waves: {type: quniform, low: 5, high: 100, step: 5}
  batch: {type: choice, values: [16, 32]}
"""
SCRIPT = """
from trackside.sdk import Client
from trackside.sdk.discovery import bootstrap

with Client.blocking(bootstrap()) as client:
    print(client.state("first").over)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[UserFolder]:
    home = UserFolder(tmp_path_factory.mktemp("secure"))
    home.run_ok("init")
    home.run_ok("up", "--secure", "--leash", str(leash))
    yield home
    home.run_ok("down")


def submit(home: UserFolder, name: str, trials: int) -> None:
    (home.path / f"{name}.yaml").write_text(SPEC.replace("MOST", str(trials)))
    assert "DONE" in home.run_ok("submit", f"{name}.yaml", "--id", name, "--wait")


def processes(home: UserFolder) -> dict[str, Any]:
    return dict(json.loads((home.path / ".trackside" / "stack.json").read_text())["processes"])


def test_a_search_runs_to_its_end_over_encrypted_connections(folder: UserFolder) -> None:
    submit(folder, "first", 4)
    assert "nothing found" in folder.run_ok("verify-log")
    assert "equal" in folder.run_ok("replay", "rebuild")
    assert folder.python("-c", SCRIPT).split() == ["True"]
    said = folder.run_ok("setup", "acls", "--check", "--worker", "worker")
    assert "and no others for its principals" in said


def test_secrets_are_in_files_of_their_owner_and_in_nothing_else(folder: UserFolder) -> None:
    home = folder.path / ".trackside"
    secure = home / "secure"
    assert stat.S_IMODE(secure.stat().st_mode) == 0o700
    modes = {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in secure.rglob("*")}
    assert modes <= {(True, 0o700), (False, 0o600)}
    passwords = {path.read_text().strip() for path in secure.glob("*.password")}
    assert len(passwords) == len(list(secure.glob("*.password"))) > len(SERVICES)
    private = (secure, home / "kafka")
    written = [path for path in home.rglob("*") if path.is_file() and not {*private} & {*path.parents}]
    for path in written:
        content = path.read_bytes()
        assert not any(password.encode() in content for password in passwords), path
    for pid in folder.processes():
        shown = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
        assert not any(password.encode() in shown for password in passwords), pid


def test_passwords_are_changed_while_all_runs(folder: UserFolder) -> None:
    secure = folder.path / ".trackside" / "secure"
    before = {name: (secure / f"{name}.password").read_text() for name in (*SERVICES, "publisher", "admin")}
    folder.run_ok("setup", "passwords", *before)
    assert all((secure / f"{name}.password").read_text() != old for name, old in before.items())
    pid = load(folder.path / ".trackside").pid("kafka")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)  # so that every service has to connect again
    submit(folder, "second", 4)
    restarts = {name: each["restarts"] for name, each in processes(folder).items()}
    assert restarts.pop("kafka") == 1
    assert set(restarts.values()) == {0}, restarts


def test_a_clone_has_copies_of_the_users_and_of_the_keys_that_its_log_trusts(
    folder: UserFolder, leash: Path, tmp_path: Path
) -> None:
    secure, clone = Path(".trackside") / "secure", UserFolder(tmp_path / "clone")
    folder.run_ok("clone", str(clone.path))
    secrets = [path.relative_to(folder.path) for path in (folder.path / secure).rglob("*") if path.is_file()]
    assert len(secrets) > len(SERVICES)
    for path in secrets:
        assert (clone.path / path).read_bytes() == (folder.path / path).read_bytes()
        assert stat.S_IMODE((clone.path / path).stat().st_mode) == 0o600
    assert stat.S_IMODE((clone.path / secure).stat().st_mode) == 0o700
    clone.run_ok("up", "--leash", str(leash))
    try:
        assert clone.json_output("show", "first") == folder.json_output("show", "first")
        assert "own accepted" in clone.run_ok("submit", str(folder.path / "first.yaml"), "--id", "own")
        assert "nothing found" in clone.run_ok(
            "verify-log", "--keys", str(clone.path / secure / "keys" / "keys.json")
        )
    finally:
        clone.run_ok("down")


def test_a_folder_that_was_started_so_stays_so(folder: UserFolder) -> None:
    assert "runs already" in folder.run_ok("up", "--secure")
    refused = UserFolder(folder.path, {"TRACKSIDE_KAFKA_BOOTSTRAP": "127.0.0.1:9092"}).run("up", "--secure")
    assert refused.returncode == 2
    assert "TRACKSIDE_KAFKA_BOOTSTRAP names another" in refused.stderr
