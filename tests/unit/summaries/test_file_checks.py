"""S18: a file that shrinks or is another one is known; one that grew or was copied is the same."""

import io
import os
import shutil
from pathlib import Path

from trackside.summaries.event_files.reading import read_from
from trackside.summaries.event_files.writing import first_record, record
from trackside.summaries.file_checks import FileEnds, change_of, ends_at

FILE = first_record(1_000) + b"".join(record("loss", step, step, step / 2) for step in range(9))


def changed(path: Path, known: FileEnds) -> str | None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return change_of(descriptor, known)
    finally:
        os.close(descriptor)


def known_of(path: Path) -> FileEnds:
    path.write_bytes(FILE)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return ends_at(descriptor, len(FILE))
    finally:
        os.close(descriptor)


def test_a_file_that_grew_or_was_copied_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "file"
    known = known_of(path)
    assert changed(path, known) is None
    path.write_bytes(FILE + b"more")
    assert changed(path, known) is None
    shutil.copy(path, tmp_path / "copy")
    (tmp_path / "copy").rename(path)
    assert changed(path, known) is None


def test_a_file_that_shrank_or_was_replaced_is_known(tmp_path: Path) -> None:
    path = tmp_path / "file"
    known = known_of(path)
    path.write_bytes(FILE[:-1])
    assert changed(path, known) == "file_shrunk"
    path.write_bytes(first_record(2_000) + FILE[len(first_record(1_000)) :])
    assert changed(path, known) == "file_replaced"
    path.write_bytes(FILE[:-1] + b"x" + b"more")
    assert changed(path, known) == "file_replaced"


def test_reading_on_in_another_file_is_noticed_without_what_was_known() -> None:
    """S18: after a restart of the reader, no record of the other file ends where reading ended."""
    other = first_record(1_000) + record("a longer tag", 0, 0, 1.0) + FILE
    start = len(first_record(1_000) + record("loss", 0, 0, 0.0))
    (piece,) = read_from(io.BytesIO(other), start)
    assert (piece.problem, piece.end) == ("file_replaced", start)
    assert [piece.problem for piece in read_from(io.BytesIO(FILE), start)] == [None]
