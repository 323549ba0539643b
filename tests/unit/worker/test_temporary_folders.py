"""Where tasks have their temporary files: sockets must find room below, however long the path is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trackside.worker import temporary_folders
from trackside.worker.reporting.journal import Journal, JournalEntry
from trackside.worker.temporary_folders import temporary_folder

LISTEN = "import multiprocessing.connection as c; print(c.Listener(family='AF_UNIX').address)"


@pytest.fixture
def long_folder(tmp_path: Path) -> Path:
    folder = tmp_path / ("project-" * 10) / "tasks" / ("0" * 32)
    folder.mkdir(parents=True)
    return folder


def test_processes_of_a_task_have_sockets_in_a_folder_with_a_long_path(long_folder: Path) -> None:
    """Without them a DataLoader of torch with processes says "AF_UNIX path too long", and waits for ever."""
    found = temporary_folder(long_folder)
    environment = {**os.environ, "TMPDIR": str(found)}
    listening = subprocess.run(
        [sys.executable, "-c", LISTEN], env=environment, capture_output=True, text=True, check=True
    )
    assert Path(listening.stdout.strip()).is_relative_to(found)
    assert found.resolve() == long_folder.resolve()


def test_a_short_folder_is_taken_as_it_is(long_folder: Path) -> None:
    assert temporary_folder(Path("/short")) == Path("/short")


def test_a_link_goes_with_its_working_directory(tmp_path: Path, long_folder: Path) -> None:
    journal = Journal(long_folder)
    entry = JournalEntry("s", "s.0", 1, 1, "i")
    link = temporary_folder(journal.workdir(entry))
    assert link.is_symlink()
    journal._remove(entry, keep_workdir=True)
    assert not link.is_symlink()


def test_a_folder_of_links_that_others_can_write_is_not_used(
    tmp_path: Path, long_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporary_folders, "LINKS_BELOW", tmp_path)
    (tmp_path / f"trackside-{os.geteuid()}").mkdir()
    (tmp_path / f"trackside-{os.geteuid()}").chmod(0o777)
    assert temporary_folder(long_folder) == long_folder
