"""Deployed models for those who read files: a cold copy, and the config file that Sedna's services poll."""

import hashlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.polling import poll_until_sync
from tests.stack import SEED_VARIABLE
from tests.unit.incremental.copies import Poller, copy_model
from tests.unit.incremental.given import refused
from trackside.incremental import outputs
from trackside.incremental.copying import check_source
from trackside.incremental.model_config import model_file_name, models_to_remove, update_time
from trackside.incremental.outputs import write_file

PUBLISHES = """
import sys
from pathlib import Path
from tests.unit.incremental.copies import copy_model
import pytest
inputs, url, first = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for version in range(first, first + 10_000):
    model = bytes([version % 256]) * (2**20 + version)
    copy_model(inputs, pytest.MonkeyPatch(), model, version, target="config", url=url)
"""


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))


Copy = Callable[..., dict[str, Any]]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    return partial(copy_model, tmp_path / "in", monkeypatch)


def config_of(folder: Path) -> Any:
    return json.loads((folder / "model_config.json").read_text())["model_config"]


def test_a_cold_copy_replaces_the_served_file_if_it_has_its_digest(tmp_path: Path, copy: Copy) -> None:
    """I25, I29."""
    live = tmp_path / "models" / "live.safetensors"
    live.parent.mkdir()
    live.write_bytes(b"a much longer model")
    result = copy(b"new", 1, target="copy", url=live.as_uri())
    assert live.read_bytes() == b"new"
    assert result == {"url": live.as_uri(), "sha256": hashlib.sha256(b"new").hexdigest(), "size_bytes": 3}
    (tmp_path / "live").write_bytes(b"old")
    wrong = {"model": "digits", "version": 1, "format": "file", "sha256": "0" * 64}
    with refused("damaged", "expected 0000"):
        copy(b"new", 1, target="copy", url=str(tmp_path / "live"), model=wrong)
    assert (tmp_path / "live").read_bytes() == b"old"


def test_a_hot_update_names_the_model_in_the_form_that_sedna_reads(tmp_path: Path, copy: Copy) -> None:
    """I26, I27: the folder has the id of the job as it is, with its upper-case letters."""
    result = copy(b"one", 7, target="config", url=str(tmp_path / "hot"))
    folder = tmp_path / "hot" / "Job-1"
    digest = hashlib.sha256(b"one").hexdigest()
    path = folder / f"digits-v7-{digest[:12]}.safetensors"
    assert config_of(folder) == {"model_path": str(path), "model_update_time": update_time(7_000)}
    assert path.read_bytes() == b"one" and result["url"] == str(path) and result["sha256"] == digest
    assert stat.S_IMODE((folder / "model_config.json").stat().st_mode) == 0o644
    assert (folder / "model_config.json").read_text().startswith('{\n  "model_config": {\n    "model_path"')


def test_a_poller_takes_each_update_and_a_rollback_once(tmp_path: Path, copy: Copy) -> None:
    """I28."""
    poller = Poller(tmp_path / "Job-1" / "model_config.json")
    updates = [(1, b"one"), (2, b"two"), (3, b"three"), (4, b"four"), (1, b"one"), (5, b"five")]
    for update, (version, model) in enumerate(updates, 1):
        poller.look()
        for _ in range(2):  # what is tried again is the same update
            copy(model, version, target="config", url=str(tmp_path), time_ms=update * 1000)
            poller.look()
    assert poller.models == [model for _, model in updates]


def test_the_newest_models_stay_and_what_is_not_ours(tmp_path: Path, copy: Copy) -> None:
    folder = tmp_path / "Job-1"
    folder.mkdir()
    (folder / "notes.txt").write_text("of a person")
    for version in range(1, 7):
        copy(b"%d" % version, version, target="config", url=str(tmp_path))
    found = names(folder)
    assert [each.split("-")[1] for each in found if each.startswith("digits")] == ["v4", "v5", "v6"]
    assert "notes.txt" in found and "model_config.json" in found and len(found) == 5


def test_what_a_config_names_is_never_removed_and_names_and_times_are_written_as_go_does() -> None:
    """I26: any text will do for Sedna, which makes it part of a file's name."""
    models = {model_file_name("m", each, "0" * 64, "torch"): float(each) for each in range(1, 6)}
    oldest, *_ = models
    assert models_to_remove(models, {oldest}) == [model_file_name("m", 2, "0" * 64, "torch")]
    assert models_to_remove({"other.pt": 0.0, **models}, set()) == list(models)[:2]
    assert update_time(1_769_864_700_250) == "2026-01-31 13:05:00.250 +0000 UTC"
    assert model_file_name("m", 1, "a" * 64, "../../etc") == f"m-v1-{'a' * 12}.model"


def test_a_copy_that_was_suspended_does_not_undo_a_later_one(tmp_path: Path, copy: Copy) -> None:
    live = str(tmp_path / "live")
    copy(b"second", 2, target="copy", url=live)
    for target, url in (("copy", live), ("config", str(tmp_path))):
        copy(b"second", 2, target=target, url=url)
        with refused("superseded", "was written with a later time"):
            copy(b"first", 1, target=target, url=url)
    assert (tmp_path / "live").read_bytes() == b"second"
    assert "digits-v2" in config_of(tmp_path / "Job-1")["model_path"]


def test_the_folder_of_a_deleted_job_is_not_brought_back_by_a_copy(tmp_path: Path, copy: Copy) -> None:
    """I37: twice does no harm."""
    hot = tmp_path / "hot"
    for version in (1, 2):
        copy(b"%d" % version, version, target="config", url=str(hot))
    (hot / "Job-1" / ".trackside-0123456789abcdef.tmp").write_bytes(b"of a writer that is suspended")
    for files in (3, 0):
        removed = copy(b"", 1, target="removal", url=str(hot), time_ms=2000)
        assert removed == {"url": str(hot / "Job-1"), "files": files, "others": 0}
        assert names(hot) == []
    with refused("superseded"):
        copy(b"2", 2, target="config", url=str(hot))
    assert names(hot) == []


def test_files_of_others_in_the_folder_of_a_deleted_job_stay_and_a_disk_that_is_gone_is_no_deleted_folder(
    tmp_path: Path, copy: Copy
) -> None:
    """I37."""
    copy(b"1", 1, target="config", url=str(tmp_path))
    (tmp_path / "Job-1" / "notes.txt").write_text("of a person")
    removed = copy(b"", 2, target="removal", url=str(tmp_path))
    assert (removed["files"], removed["others"]) == (2, 1)
    assert [each.name for each in (tmp_path / "Job-1").iterdir()] == ["notes.txt"]
    with refused("unreachable", "see that its disk is there"):
        copy(b"", 2, target="removal", url=str(tmp_path / "gone"))


def test_a_writer_that_holds_the_lock_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "LOCK_S", 0.05)
    path = tmp_path / "live"
    with outputs.in_order(outputs.order_of(path), str(path), 1), refused("busy"):
        write_file(path, str(path), [b"new"], time_ms=2)
    assert not path.exists()
    write_file(path, str(path), [b"new"], time_ms=2)


@pytest.mark.parametrize(
    ("asked", "path"),
    [({"target": "both"}, "target"), ({"job": "../x"}, "job"), ({"url": "s3://k:v@b/x"}, "url")],
)
def test_what_names_no_place_is_refused(tmp_path: Path, copy: Copy, asked: dict[str, str], path: str) -> None:
    asked = {"target": "copy", "url": str(tmp_path / "live"), **asked}
    with refused("bad_parameters", f"^{path}: "):
        copy(b"new", 1, **asked)


def test_a_folder_is_no_model_that_is_read_as_a_file(tmp_path: Path) -> None:
    with refused("not_a_file", "save it as one file"):
        check_source(tmp_path, "0" * 64)


@pytest.mark.thorough
def test_a_poller_sees_only_whole_files_while_their_writer_is_killed_again_and_again(tmp_path: Path) -> None:
    """I26, I28, I29: kill -9 at moments of a seed; each model that was read is one that was written."""
    chance = random.Random(os.environ[SEED_VARIABLE])
    poller = Poller(tmp_path / "Job-1" / "model_config.json")
    first = 1
    for _ in range(5):
        command = [sys.executable, "-c", PUBLISHES, str(tmp_path / "in"), str(tmp_path), str(first)]
        writer = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": "."})
        try:
            seen, wanted = len(poller.models), chance.randint(1, 5)
            looks = chance.randint(0, 40)

            def saw_enough(seen: int = seen, wanted: int = wanted) -> bool:
                for _ in range(20):
                    poller.look()
                return len(poller.models) - seen >= wanted

            poll_until_sync(saw_enough)
            for _ in range(looks):
                poller.look()
        finally:
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
        poller.look()
        first = len(poller.models[-1]) - 2**20 + 1
    assert all(set(model) == {(len(model) - 2**20) % 256} for model in poller.models)
    assert len(poller.models) >= 5
