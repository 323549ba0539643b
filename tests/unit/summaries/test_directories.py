"""S1, S19: every directory that holds event files is a job, at any depth, and no link is followed."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rights import obeying_rights
from trackside.summaries.directories import (
    JobDirectory,
    UnreadableDirectory,
    find_jobs,
    format_of,
    list_job,
    open_below,
    path_of,
    printable_path,
    stat_file,
)

NAME = "events.out.tfevents.1600000000.host"


def job(base: Path, path: str, *names: str) -> None:
    (base / path).mkdir(parents=True, exist_ok=True)
    for name in names or (NAME,):
        (base / path / name).write_bytes(b"abc")


def paths(base: Path) -> list[str]:
    return [found.path for found in find_jobs(str(base))]


def test_directories_with_event_files_are_jobs_at_any_depth(tmp_path: Path) -> None:
    """S1, S19. S17: so that sessions are numbered alike wherever a directory is read."""
    for path in (".", "a", "a/b/c/d/e/f", "b/train", "b/eval"):
        job(tmp_path, path)
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    job(tmp_path, "notes", "readme.txt")
    assert paths(tmp_path) == [".", "a", "a/b/c/d/e/f", "b/eval", "b/train"]
    names = ["events.out.tfevents.9.a", "events.out.tfevents.10.a", "events.out.tfevents.10.b", "tfevents"]
    job(tmp_path / "ordered", "a", *names)
    (found,) = find_jobs(str(tmp_path / "ordered"))
    assert isinstance(found, JobDirectory)
    assert [file.name for file in found.files] == ["tfevents", *names[:3]]
    assert [(file.size, file.modified_ns > 0) for file in found.files] == [(3, True)] * 4


def test_names_of_mindspore_say_what_a_file_holds(tmp_path: Path) -> None:
    """S1: lineage and explanations are known as such, and are no job alone."""
    stem = "x.out.events.summary.1600000000.host_MS"
    assert format_of(stem) == "mindspore"
    assert format_of(f"{stem}_lineage") == "mindspore_lineage"
    assert format_of(f"{stem}_explain") == "mindspore_explain"
    assert format_of("summary.txt") is None
    job(tmp_path, "only-lineage", f"{stem}_lineage", f"{stem}_explain")
    job(tmp_path, "model", "saved_model.pb")
    job(tmp_path, "run", stem, f"{stem}_lineage", "ms_output_1.pb")
    job(tmp_path, "tensorflow", NAME, "saved_model.pb")
    found = {each.path: each for each in find_jobs(str(tmp_path)) if isinstance(each, JobDirectory)}
    formats = {path: [file.format for file in each.files] for path, each in found.items()}
    of_mindspore = ["mindspore_graph", "mindspore", "mindspore_lineage"]
    assert formats == {"run": of_mindspore, "tensorflow": ["tensorboard"]}


def test_links_are_not_followed(tmp_path: Path) -> None:
    """S19: neither to files nor to directories, inside or outside, nor in a circle."""
    outside, base = tmp_path / "outside", tmp_path / "base"
    job(outside, "run")
    job(base, "real")
    (base / "out").symlink_to(outside)
    (base / "again").symlink_to(base)
    (base / "inner").symlink_to(base / "real")
    (base / "files").mkdir()
    (base / "files" / NAME).symlink_to(outside / "run" / NAME)
    os.mkfifo(base / "files" / f"{NAME}.pipe")
    assert paths(base) == ["real"]
    with pytest.raises(OSError, match="symbolic links"):
        open_below(str(base), f"files/{NAME}")
    with pytest.raises(OSError, match=r"(?i)not a directory|symbolic links"):
        open_below(str(base), f"out/run/{NAME}")


def test_a_job_that_became_a_link_and_a_path_that_leads_out_are_not_read(tmp_path: Path) -> None:
    """S19: not even by a reader that found it while it was a directory."""
    outside, base = tmp_path / "outside", tmp_path / "base"
    job(outside, ".")
    job(base, "run")
    (base / "run").rename(base / "moved")
    (base / "run").symlink_to(outside)
    for read in (lambda: stat_file(str(base), "run", NAME), lambda: list_job(str(base), "run")):
        with pytest.raises(OSError, match=r"(?i)not a directory|symbolic links"):
            read()
    for path in ("..", "a/../../b", "a/..", "a\0b"):
        with pytest.raises(PermissionError, match=r"\.\. or NUL"):
            open_below(str(tmp_path), path)


SEARCHES = """
import sys
from trackside.summaries.directories import find_jobs

for found in find_jobs(sys.argv[1]):
    print(found.path, getattr(found, "problem", "found"), sep=": ")
"""


def test_directories_that_cannot_be_read_are_reported_and_the_rest_is_found(tmp_path: Path) -> None:
    """By a process that must obey rights; of a directory whose names alone may be read, nothing is known."""
    missing = list(find_jobs(str(tmp_path / "missing")))
    assert missing == [UnreadableDirectory(".", "file_vanished", "No such file or directory")]
    for path in ("a", "closed/below", "names only", "names only/below", "passing only/below", "z"):
        job(tmp_path, path)
    modes = {"closed": 0, "names only": 0o400, "passing only": 0o100}
    for path, mode in modes.items():
        (tmp_path / path).chmod(mode)
    command = obeying_rights([sys.executable, "-c", SEARCHES, str(tmp_path)])
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    for path in modes:
        (tmp_path / path).chmod(0o700)
    expected = ["a: found", *(f"{path}: no_rights" for path in modes), "z: found"]
    assert found.stdout.splitlines() == expected, found.stderr


def test_a_directory_that_goes_while_it_is_searched_is_reported(tmp_path: Path) -> None:
    job(tmp_path, "a")
    job(tmp_path, "b")
    search = find_jobs(str(tmp_path))
    first = next(search)
    (tmp_path / "b").rename(tmp_path / "c")
    found = [(each.path, type(each)) for each in (first, *search)]
    assert found == [("a", JobDirectory), ("b", UnreadableDirectory)]


@pytest.mark.parametrize("name", [b"caf\xe9", "学習".encode(), b"a\nb", b"..a", b" ", b"\\xe9", b"\xff\\"])
def test_names_in_any_encoding_are_found_and_printable(tmp_path: Path, name: bytes) -> None:
    job(tmp_path, os.fsdecode(name))
    (found,) = find_jobs(str(tmp_path))
    assert isinstance(found, JobDirectory)
    assert os.fsencode(found.path) == name
    assert stat_file(str(tmp_path), found.path, NAME) == found.files[0]
    assert printable_path(found.path).encode().isascii() or name == "学習".encode()
    assert "\n" not in printable_path(found.path)


@given(st.lists(st.binary(max_size=6), min_size=2, max_size=2, unique=True))
def test_no_two_names_are_shown_alike(names: list[bytes]) -> None:
    first, second = (printable_path(os.fsdecode(name)) for name in names)
    assert first != second
    assert [os.fsencode(path_of(shown)) for shown in (first, second)] == names


def test_memory_for_many_runs_is_small(tmp_path: Path) -> None:
    """S19: 2,000 runs here; only their names are held, so 100,000 need some ten megabytes."""
    for number in range(2_000):
        (tmp_path / f"run-{number}").mkdir()
        (tmp_path / f"run-{number}" / NAME).touch()
    tracemalloc.start()
    count = sum(isinstance(found, JobDirectory) for found in find_jobs(str(tmp_path)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 2_000
    assert most < 2_000 * 400
