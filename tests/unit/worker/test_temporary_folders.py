"""Where tasks have temporary files; a journal that can't be written says why."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.small_disk import small_disk
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
    command = [sys.executable, "-c", LISTEN]
    listening = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert Path(listening.stdout.strip()).is_relative_to(found)
    assert found.resolve() == long_folder.resolve()


def test_working_directories_share_a_link_that_goes_with_the_last_and_short_ones_need_none(
    long_folder: Path,
) -> None:
    journal = Journal(long_folder)
    entry, other = (JournalEntry("s", f"s.{at}", 1, 1, "i") for at in range(2))
    found = temporary_folder(journal.workdir(entry))
    assert found.parent.is_symlink() and found.parent == temporary_folder(journal.workdir(other)).parent
    journal.workdir(entry).mkdir()
    journal.close()
    assert found.parent.is_symlink(), "a task uses it"
    found.parent.unlink()
    assert temporary_folder(journal.workdir(entry)) == found
    assert found.parent.is_symlink(), "what cleans /tmp had removed it"
    journal.workdir(entry).rmdir()
    journal.close()
    assert not found.parent.is_symlink()
    assert temporary_folder(Path("/short")) == Path("/short")


def test_a_folder_of_links_that_others_can_write_is_not_used(
    tmp_path: Path, long_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporary_folders, "LINKS_BELOW", tmp_path)
    (tmp_path / f"trackside-{os.geteuid()}").mkdir()
    (tmp_path / f"trackside-{os.geteuid()}").chmod(0o777)
    assert temporary_folder(long_folder) == long_folder


def test_a_journal_that_could_not_be_written_says_why_until_there_is_room(tmp_path: Path) -> None:
    entry = JournalEntry("s", "t", attempt=1, placement=1, incarnation="i-1")
    with small_disk(tmp_path / "disk", "100m") as disk:
        journal = Journal(disk.folder / "data")
        assert journal.obstacle() == ""
        disk.fill()
        assert journal.obstacle() == "", "nothing was written yet"
        with pytest.raises(OSError, match="No space left"):
            journal.write(entry)
        assert "can't be written: No space left on device" in journal.obstacle()
        disk.empty()
        assert journal.obstacle() == ""
        journal.write(entry)
        assert journal.entries_without_end() == [entry]
