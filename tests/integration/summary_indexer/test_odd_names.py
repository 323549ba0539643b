"""S19: directories and files of any name are read; of what is too long for the log, that is said."""

import os
from pathlib import Path

import pytest

from tests.integration.summary_indexer.harness import Sandbox
from tests.integration.summary_indexer.watched import begin_file, metrics_of, points, read_in
from trackside.eventlog.kafka import KafkaLog
from trackside.summaries.directories import printable_path

NAMES = [
    b"new\nline",
    b"no utf-8 \xff\xfe",
    b"tab\t and \x1b[31m",
    "学習 🔥".encode(),
    b" ",
    b"-rf",
    b"..a",
    b"a\\xff",
    b"a" * 255,
    b"\xff" * 255,
]

pytestmark = pytest.mark.usefixtures("dispatcher")


async def test_directories_and_files_of_any_name_are_read_and_known_again(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    base = tmp_path / os.fsdecode(b"runs \xff\n")
    for name in NAMES:
        path = begin_file(base / os.fsdecode(name))
        points(path, 0, 5)
        path.rename(path.with_name(os.fsdecode(name[:50] + b" tfevents \xff\n")))
    report = await read_in(log, sandbox, base)
    assert (report.jobs, report.points, report.problems) == (len(NAMES), 5 * len(NAMES), {})
    assert (await read_in(log, sandbox, base)).files == 0
    assert {path for path, _, _ in await metrics_of(log, sandbox)} == {
        printable_path(os.fsdecode(name)) for name in NAMES
    }


async def test_paths_and_names_that_are_too_long_for_the_log_are_said_and_the_rest_is_read(
    sandbox: Sandbox, log: KafkaLog, tmp_path: Path
) -> None:
    """A file system has them: a path may have any length, and a byte that is no UTF-8 is shown as four."""
    base = tmp_path / "runs"
    path = begin_file(base / "a")
    points(path, 0, 5)
    too_long = os.fsdecode(b"\xff" * 252 + b".pb")
    (base / "a" / too_long).write_bytes(b"")
    (base / "a" / "events.summary.1.MS").write_bytes(path.read_bytes())
    at = os.open(base, os.O_DIRECTORY)
    parts = ["d" * 250] * 20
    for part in parts:
        os.mkdir(part, dir_fd=at)
        below = os.open(part, os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    with os.fdopen(os.open(path.name, os.O_CREAT | os.O_WRONLY, dir_fd=at), "wb") as file:
        file.write(path.read_bytes())
    os.close(at)
    for _ in range(2):
        report = await read_in(log, sandbox, base)
        assert report.problems == {
            ("a", printable_path(too_long)): "name_too_long",
            ("/".join(parts), ""): "path_too_long",
        }
    found = await metrics_of(log, sandbox)
    assert found == {("a", number, "loss"): list(range(5)) for number in (10_000, 20_000)}
