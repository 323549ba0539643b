"""Logs of a running stack stay below twice their limit, and what is written goes on at their new end."""

import os
from pathlib import Path

from trackside.embedded.processes import open_log
from trackside.embedded.service_logs import ROTATED_BYTES, rotate_logs


def test_a_long_log_is_moved_and_its_process_appends_to_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "worker.log"
    written = open_log(str(path))
    try:
        os.write(written, b"a" * ROTATED_BYTES + b"\n")
        rotate_logs(path.parent)
        os.write(written, b"next\n")
    finally:
        os.close(written)
    before = path.with_suffix(".log.1")
    assert path.read_bytes() == b"next\n"
    assert before.stat().st_size == ROTATED_BYTES + 1
    assert before.stat().st_mode & 0o777 == 0o600


def test_only_one_part_of_what_was_before_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "kafka.log"
    for letter in (b"a", b"b"):
        path.write_bytes(letter * (ROTATED_BYTES + 1))
        rotate_logs(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kafka.log", "kafka.log.1"]
    assert path.with_suffix(".log.1").read_bytes()[:1] == b"b"
    assert path.stat().st_size == 0


def test_a_short_log_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_bytes(b"line\n")
    rotate_logs(tmp_path)
    assert path.read_bytes() == b"line\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_of_logs_that_is_gone_is_no_error(tmp_path: Path) -> None:
    rotate_logs(tmp_path / "absent")
