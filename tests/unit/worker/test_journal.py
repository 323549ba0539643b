"""The journal says why it can't be written, until it can."""

from pathlib import Path

import pytest

from tests.small_disk import small_disk
from trackside.worker.reporting.journal import Journal, JournalEntry


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
