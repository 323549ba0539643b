"""S18: a file that shrinks or is another one is known; one that grew or was copied is the same."""

import io
import os
import shutil
from pathlib import Path

from trackside.summaries.event_files.reading import read_from
from trackside.summaries.event_files.writing import first_record, record
from trackside.summaries.file_checks import change_of, fingerprint_of

FILE = first_record(1_000) + b"".join(record("loss", step, step, step / 2) for step in range(9))


def changed(path: Path, fingerprint: str, end: int = len(FILE)) -> str | None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return change_of(descriptor, end, fingerprint)
    finally:
        os.close(descriptor)


def known_of(path: Path, content: bytes = FILE) -> str:
    path.write_bytes(content)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return fingerprint_of(descriptor, len(content))
    finally:
        os.close(descriptor)


def test_a_file_that_grew_or_was_copied_is_the_same_and_one_that_shrank_is_another(tmp_path: Path) -> None:
    path = tmp_path / "file"
    known = known_of(path)
    assert changed(path, known) is None
    path.write_bytes(FILE + b"more")
    assert changed(path, known) is None
    shutil.copy(path, tmp_path / "copy")
    (tmp_path / "copy").rename(path)
    assert changed(path, known) is None
    path.write_bytes(FILE[:-1])
    assert changed(path, known) == "file_shrunk"
    path.write_bytes(first_record(2_000) + FILE[len(first_record(1_000)) :])
    assert changed(path, known) == "file_replaced"
    assert changed(path, "") is None  # as when an older release has read it
    path.write_bytes(FILE[:-1] + b"x" + b"more")
    assert changed(path, known) == "file_replaced"


def test_long_and_short_files_are_told_from_others(tmp_path: Path) -> None:
    """Of a short one the first and the last bytes overlap, of a long one much lies between them."""
    for size in (1, 5, 63, 64, 65, 100, 4_095, 4_096, 4_097, 100_000):
        content = bytes(size)
        known = known_of(tmp_path / "file", content)
        for at in {0, min(60, size - 1), size - 1}:
            assert known_of(tmp_path / "other", content[:at] + b"x" + content[at + 1 :]) != known
        (tmp_path / "file").write_bytes(content + b"more")
        assert changed(tmp_path / "file", known, size) is None


def test_reading_on_in_another_file_is_noticed_without_what_was_known() -> None:
    """S18: after a restart of the reader, no record of the other file ends where reading ended."""
    other = first_record(1_000) + record("a longer tag", 0, 0, 1.0) + FILE
    start = len(first_record(1_000) + record("loss", 0, 0, 0.0))
    (piece,) = read_from(io.BytesIO(other), start)
    assert (piece.problem, piece.end) == ("file_replaced", start)
    assert [piece.problem for piece in read_from(io.BytesIO(FILE), start)] == [None]
