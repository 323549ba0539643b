"""S18, S19: a file or its directory that goes while it is read is read to its end, and said to be gone."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.summary_indexer.watching.test_file_reader import NAME, RECORDS, reader, steps_of
from trackside.summaries.directories import find_jobs, list_job, problem_of
from trackside.summaries.event_files import reading
from trackside.summaries.event_files.writing import first_record, record
from trackside.summary_indexer.watching.file_reader import JobFile, ReadStep
from trackside.summary_indexer.watching.records import TagLimit

STEPS = 40
FILE = first_record(1_000) + b"".join(record("loss", step, step, step / 2) for step in range(STEPS))
OTHER = first_record(2_000) + b"".join(record("next", step, step, step / 2) for step in range(STEPS))

Change = Callable[[Path], object]


def put_a_file_in_its_place(job: Path) -> None:
    shutil.rmtree(job)
    job.write_bytes(OTHER)


def put_a_link_in_its_place(job: Path) -> None:
    outside, target = job.parent.parent / "outside", job.parent.parent / "target"
    job.rename(outside)
    shutil.copytree(outside, target)
    (target / NAME).write_bytes(OTHER)
    job.symlink_to(target)


@pytest.mark.parametrize(
    "change",
    [
        lambda job: job.rename(job.with_name("moved")),
        lambda job: job.rename(job.parent.parent / "outside"),
        put_a_link_in_its_place,
        shutil.rmtree,
        put_a_file_in_its_place,
    ],
    ids=["moved within", "moved out", "link", "deleted", "file"],
)
def test_a_directory_that_changes_while_it_is_read_is_read_to_the_end_of_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change
) -> None:
    monkeypatch.setattr(reading, "PIECE", 256)
    job = tmp_path / "runs" / "a"
    job.mkdir(parents=True)
    (job / NAME).write_bytes(FILE)
    file = JobFile("summary-1", 1, str(job.parent), "a", NAME, "tensorboard")
    by = reader()
    steps = by.read(file, 0, TagLimit())
    found = [next(steps)]
    assert 0 < found[0].end < len(FILE)
    change(job)
    found += steps
    assert steps_of(found) == list(range(STEPS))
    assert (found[-1].end, found[-1].problem) == (len(FILE), None)
    last = found[-1]
    for each in (by, reader()):
        (again,) = each.read(file, last.end, TagLimit(), last.fingerprint)
        assert (again.problem, again.end, again.points) == ("file_vanished", len(FILE), 0)
    with pytest.raises(OSError) as gone:  # noqa: PT011 - which one depends on what is there now
        list_job(str(job.parent), "a")
    assert problem_of(gone.value) == "file_vanished"


def write_over(path: Path) -> None:
    path.write_bytes(OTHER)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda path: os.truncate(path, 100), "file_shrunk"),
        (lambda path: os.truncate(path, 0), "file_shrunk"),
        (write_over, "file_replaced"),
        (lambda path: path.with_name("new").replace(path), "file_replaced"),
    ],
    ids=["shrunk", "empty", "written over", "replaced"],
)
def test_a_file_that_changes_while_it_is_read_is_noticed_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, problem: str
) -> None:
    """What was read until then is of the first file, and nothing of a second one is taken for it."""
    monkeypatch.setattr(reading, "PIECE", 256)
    (tmp_path / NAME).write_bytes(FILE)
    (tmp_path / "new").write_bytes(OTHER)
    file = JobFile("summary-1", 1, str(tmp_path), ".", NAME, "tensorboard")
    found: list[ReadStep] = []
    steps = reader().read(file, 0, TagLimit())
    found.append(next(steps))
    change(tmp_path / NAME)
    found += steps
    read = [step for step in found if step.end > step.start]
    assert steps_of(read) == list(range(len(steps_of(read))))
    if change is write_over:
        assert (len(read), found[-1].problem) == (1, problem)
    (again,) = reader().read(file, read[-1].end, TagLimit(), read[-1].fingerprint)
    assert (again.problem, again.points) == (problem, 0)


def test_what_is_no_regular_file_is_never_opened_for_its_name(tmp_path: Path) -> None:
    """A pipe would block its reader, a device has no end."""
    os.mkfifo(tmp_path / f"{NAME}.pipe")
    os.mknod(tmp_path / f"{NAME}.socket", 0o600 | stat.S_IFSOCK)
    (tmp_path / f"{NAME}.directory").mkdir()
    if os.geteuid() == 0:
        os.mknod(tmp_path / f"{NAME}.zero", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    assert list(find_jobs(str(tmp_path))) == []
    for path in tmp_path.iterdir():
        file = JobFile("summary-1", 1, str(tmp_path), ".", path.name, "tensorboard")
        for start in (0, 10):
            steps = list(reader().read(file, start, TagLimit(), "ab" if start else ""))
            assert [step.points for step in steps] == [0] * len(steps)


def test_a_file_with_a_hole_of_ten_gigabytes_is_damaged_where_it_begins(tmp_path: Path) -> None:
    """S18: zeros are no record, since the checksum of a length of 0 is not 0; little of them is read."""
    path = tmp_path / NAME
    path.write_bytes(RECORDS[0])
    os.truncate(path, 10 * 2**30)
    file = JobFile("summary-1", 1, str(tmp_path), ".", NAME, "tensorboard")
    (step,) = reader().read(file, 0, TagLimit())
    assert (step.problem, step.end) == ("damaged_length", len(RECORDS[0]))
