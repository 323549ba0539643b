"""`trackside artifacts` and what copies artifacts, as a user runs it, against services that run."""

import hashlib
import json
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.artifacts.conftest import s3_server
from tests.integration.installed import prepared, processes, variables_of
from tests.polling import poll_until_sync
from tests.stack import Servers, fresh_database
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.blobs.source_files import SourceFile
from trackside.artifacts.store import Store
from trackside.cli.app import call
from trackside.eventlog.settings.settings import StackSettings

SEARCH = """
kind: search
task_type: saving
max_trials: 2
concurrency: 2
seed: 3
direction: minimize
tuner: {name: random}
keep_checkpoints: {newest: 2, best: 1}
space: {x: {type: uniform, low: 0, high: 1}}
"""
CATALOGUE = "tasks:\n  saving:\n    entry: 'saving:Saving'\n    path: .\n"
SAVING = """
import os
from pathlib import Path
from trackside.sdk import Task, trial

class Saving(Task):
    def train(self, device):
        x = trial.parameters()["x"]
        trial.save("weights", str(x).encode() * 4_000, kind="model", metadata={"x": x})
        plots = Path(os.environ["TRACKSIDE_OUTPUTS"]) / "plots"
        (plots / "sub").mkdir(parents=True)
        (plots / "loss.csv").write_text(f"0,{x}")
        (plots / "sub" / "empty").touch()
        for step in range(5):
            trial.report(x + step, step)
            trial.checkpoint(step + 1, {"x": x, "step": step})
"""
STREAM = "line-1"
KEPT = {1, 4, 5}
"""The steps of the checkpoints that are kept: the newest two, and the best one, of the first report."""
GARBAGE = 24
"""How many blobs a collection deletes one by one, so that it can be killed in between."""


@dataclass
class Installed:
    """An installation in which a search has run, and the folder of its store."""

    settings: StackSettings
    folder: Path

    @property
    def store(self) -> Store:
        return Store(FileBlobs(self.folder))

    @property
    def variables(self) -> dict[str, str]:
        return {**variables_of(self.settings), "TRACKSIDE_STORE": str(self.folder)}


@pytest.fixture(scope="module")
def installed(
    stack: Servers, module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("services")
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    (folder / "saving.py").write_text(SAVING)
    (folder / "search.yaml").write_text(SEARCH)
    (folder / "store").mkdir()
    catalogue, store = folder / "catalogue.yaml", {"TRACKSIDE_STORE": str(folder / "store")}
    with (
        processes(stack, module_database, folder, catalogue, **store) as (settings, _),
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in variables_of(settings).items():
            patch.setenv(name, value)
        assert call(["submit", str(folder / "search.yaml"), "--id", STREAM, "--wait", "--json"]) == 0
        yield Installed(settings, folder / "store")


@pytest.fixture(autouse=True)
def addresses(installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in installed.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


@dataclass
class Typed:
    """Runs `trackside` as a user does."""

    output: pytest.CaptureFixture[bytes]

    def tried(self, *arguments: str) -> tuple[int, str, str]:
        """Returns the exit code, and what was printed."""
        self.output.readouterr()
        code = call(list(arguments))
        said = self.output.readouterr()
        return code, said.out.decode(), said.err.decode()

    def octets(self, *arguments: str) -> bytes:
        """Returns the output of a command, which must end with 0."""
        self.output.readouterr()
        code = call(list(arguments))
        said = self.output.readouterr()
        assert code == 0, said.err.decode()
        return said.out

    def said(self, *arguments: str) -> str:
        return self.octets(*arguments).decode()

    def answer(self, *arguments: str) -> Any:
        return json.loads(self.octets(*arguments, "--json"))


@pytest.fixture
def typed(capsysbinary: pytest.CaptureFixture[bytes]) -> Typed:
    found = Typed(capsysbinary)
    # The rows follow the log, which the search has ended in.
    poll_until_sync(lambda: len(found.answer("artifacts", "ls", "--all")) == 14)
    return found


def test_what_a_task_has_saved_is_listed_shown_and_copied(typed: Typed, tmp_path: Path) -> None:
    listed = typed.answer("artifacts", "ls", STREAM)
    assert [row["name"] for row in listed].count("checkpoint") == 2 and len(listed) == 6
    weights = f"{STREAM}/0/weights"
    shown = typed.said("artifacts", "show", weights)
    assert "in the store" in shown and f"attempt 1.1 of {STREAM}.0" in shown
    row = typed.answer("artifacts", "show", weights)
    assert row["is_there"] and row["reference"]["source"] == f"{STREAM}/{STREAM}.0/weights@1"
    typed.said("artifacts", "get", weights)
    content = (tmp_path / "weights").read_bytes()
    assert hashlib.sha256(content).hexdigest() == row["sha256"]
    assert content == str(row["metadata"]["x"]).encode() * 4_000
    typed.said("artifacts", "get", f"{STREAM}/1/plots", "here")
    assert sorted(path.name for path in Path("here").rglob("*")) == ["empty", "loss.csv", "sub"]
    code, _, said = typed.tried("artifacts", "get", weights)
    assert code == 2 and "--force" in said
    typed.said("artifacts", "get", row["sha256"][:12], "--force")


def test_what_is_put_is_read_back_and_all_is_verified(typed: Typed, installed: Installed) -> None:
    Path("digits.csv").write_text("1,2,3,4\n")
    put = json.loads(typed.said("artifacts", "put", "digits.csv"))
    assert put["sha256"] == hashlib.sha256(b"1,2,3,4\n").hexdigest()
    assert installed.store.delete(put["sha256"], 2**53)
    assert typed.said("artifacts", "verify").startswith("all there: 14 artifacts, 14 digests, ")
    found = typed.answer("verify-log", "--store", "--digests")
    [invariant] = [each for each in found["invariants"] if each["invariant"] == "INV-22"]
    assert (invariant["holds"], invariant["checked"], found["findings"]) == (True, 14, [])


def test_a_lost_and_a_damaged_artifact_are_found_in_the_store(typed: Typed, installed: Installed) -> None:
    blobs = {}
    for trial, octets in ((0, None), (1, b"other")):
        name = f"{STREAM}/{STREAM}.{trial}/weights@1"
        digest = typed.answer("artifacts", "show", name)["sha256"]
        path = next(installed.folder.rglob(digest))
        blobs[path] = path.read_bytes()
        path.unlink()
        if octets is not None:
            path.write_bytes(octets)
    try:
        code, said, _ = typed.tried("verify-log", STREAM, "--store")
        assert code == 1
        findings = [line for line in said.splitlines() if ": artifact_" in line]
        assert len(findings) == 2 and said.splitlines()[-1].startswith("2 findings: ")
        assert any("artifact_missing" in line and f"{STREAM}.0/weights@1" in line for line in findings)
        assert any("artifact_damaged" in line and f"{STREAM}.1/weights@1" in line for line in findings)
        assert typed.tried("artifacts", "verify", STREAM)[0] == 1
        assert "not here" in typed.said("artifacts", "show", f"{STREAM}/0/weights")
        code, said, error = typed.tried("replay", "export", STREAM, "--with-artifacts")
        assert (code, said) == (1, "") and "artifact_missing" in error
    finally:
        for path, content in blobs.items():
            path.unlink(missing_ok=True)
            path.write_bytes(content)


def test_the_store_is_only_asked_where_it_is_named_and_there(
    typed: Typed, installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_STORE", f"{installed.folder}-unmounted")
    code, said, error = typed.tried("verify-log", "--store")
    assert (code, said) == (1, "") and "store_unreachable" in error
    monkeypatch.delenv("TRACKSIDE_STORE")
    code, said, error = typed.tried("verify-log", "--store")
    assert (code, said) == (1, "") and "TRACKSIDE_STORE" in error
    assert typed.tried("verify-log", "--digests")[0] == 2
    assert "can't be asked here" in typed.said("artifacts", "show", f"{STREAM}/0/weights")


def test_an_exported_stream_brings_its_artifacts_to_another_installation(
    typed: Typed, stack: Servers, installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("bare.jsonl").write_bytes(typed.octets("replay", "export", STREAM))
    Path("whole.tar").write_bytes(typed.octets("replay", "export", STREAM, "--with-artifacts"))
    with tarfile.open("whole.tar") as tar:
        assert len(tar.getnames()) == 2 + len(list(installed.store.list_blobs()))
    typed.said("artifacts", "get", f"{STREAM}/0/weights")
    weights = Path("weights").read_bytes()
    (tmp_path / "other-store").mkdir()
    with fresh_database(stack.postgres_dsn) as database:
        other = Installed(prepared(stack, database), tmp_path / "other-store")
        for name, value in other.variables.items():
            monkeypatch.setenv(name, value)
        typed.said("replay", "import", "bare.jsonl", "--as", "bare")
        assert "not here" in typed.said("artifacts", "show", "bare/bare.0/weights")
        code, _, error = typed.tried("artifacts", "get", "imported/bare/0/weights", "there")
        assert code == 1 and "artifact_missing" in error and not Path("there").exists()
        said = typed.said("replay", "import", "whole.tar")
        assert f"imported {STREAM}: " in said and " blobs, " in said and said.endswith(", equal\n")
        assert len(typed.answer("artifacts", "ls", STREAM)) == 6
        for stream in (STREAM, "bare"):
            typed.said("artifacts", "get", f"{stream}/0/weights", stream)
            assert Path(stream).read_bytes() == weights
        typed.said("artifacts", "get", f"imported/{STREAM}/1/plots", "plots")
        assert typed.said("artifacts", "verify", STREAM).startswith("all there: 14 artifacts")
        assert typed.answer("artifacts", "gc", "--grace", "0s")["unheld"] == []
        code, _, error = typed.tried("artifacts", "get", f"{STREAM}/7/weights")
        assert code == 2 and f"no task '7' of {STREAM} has artifacts" in error


@pytest.mark.long
def test_a_collection_that_is_killed_loses_nothing_that_is_kept(
    typed: Typed, installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store was copied into S3, where each blob is deleted by a request of its own."""
    with s3_server(tmp_path) as server:
        store = server.store("s3://models/copy")
        copied = sorted(path for path in (installed.folder / "blobs").rglob("*") if path.is_file())
        store.put_files([SourceFile(path) for path in copied])
        octets = [f"garbage {number}".encode() for number in range(GARBAGE)]
        garbage = store.put_files([SourceFile(Path("garbage"), content=each) for each in octets])
        monkeypatch.setenv("TRACKSIDE_STORE", "s3://models/copy")
        monkeypatch.setenv("TRACKSIDE_STORE_CREDENTIAL", "moto")
        monkeypatch.setenv("TRACKSIDE_CREDENTIALS", str(tmp_path / "credentials.toml"))
        gc = ("artifacts", "gc", "--grace", "0s")
        listed = typed.answer(*gc)
        assert {each["sha256"] for each in listed["unheld"]} == {each.sha256 for each in garbage}
        assert [len(blobs) for blobs in listed["checkpoints"].values()] == [4]

        command = [str(Path(sys.executable).with_name("trackside")), *gc, "--delete"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as collection:
            try:
                poll_until_sync(lambda: b"DELETE /" in (tmp_path / "moto.log").read_bytes(), 60)
            finally:
                collection.kill()
        assert collection.returncode == -signal.SIGKILL
        left = len(list(store.list_blobs())) - len(copied)
        assert -4 < left < GARBAGE, "it was killed in between"

        assert typed.answer("verify-log", "--store", "--digests")["holds"]
        deleted = typed.answer(*gc, "--delete")
        assert len(deleted["deleted"]) == left + 4 and not deleted["refused"]
        assert len(list(store.list_blobs())) == len(copied) - 4
        assert typed.answer("verify-log", "--store")["holds"]
