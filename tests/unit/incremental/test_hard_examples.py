"""Hard examples: kept within limits, stored by window, appended to a dataset as whole lines."""

import json
import resource
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from trackside.incremental import hard_examples
from trackside.incremental.hard_examples import (
    MAX_BYTES,
    MAX_EXAMPLES,
    DatasetFile,
    HardExample,
    HardExampleStore,
    checked_sample,
)
from trackside.incremental.serving_messages import AppendTarget
from trackside.sdk.saving import SaveError


class Saved:
    """Takes what is saved; refuses while `full`."""

    def __init__(self) -> None:
        self.files: list[tuple[list[str], Mapping[str, Any]]] = []
        self.full = False

    def save(self, name: str, content: bytes, kind: str, metadata: Mapping[str, Any]) -> None:
        if self.full:
            raise SaveError("spool_full", "no room")
        self.files.append((content.decode().splitlines(), metadata))


def dataset(path: Path, form: str = "txt") -> DatasetFile:
    return DatasetFile(AppendTarget(url=str(path), format=form))


def example(number: int) -> HardExample:
    return HardExample(number, [number], None, 1)


def test_more_examples_than_there_is_room_for_are_counted_and_the_next_window_has_room_again() -> None:
    saved = Saved()
    store = HardExampleStore(None, 30.0, saved.save)
    for number in range(MAX_EXAMPLES + 5):
        store.add(example(number), str)
    assert store.end_window(is_last=True) == []
    ((lines, metadata),) = saved.files
    assert len(lines) == MAX_EXAMPLES and metadata == {"examples": MAX_EXAMPLES, "left_out": 5}
    assert json.loads(lines[0]) == {"inputs": 0, "outputs": [0], "scores": None, "version": 1}
    large = HardExample("x" * (MAX_BYTES // 2), None, None, 1)
    for _ in range(2):
        store.add(large, str)
    assert store.end_window(is_last=True) == []
    assert saved.files[1][1] == {"examples": 1, "left_out": 1}


def test_what_could_not_be_stored_is_stored_with_the_next_window() -> None:
    saved = Saved()
    store = HardExampleStore(None, 30.0, saved.save)
    store.add(example(1), str)
    saved.full = True
    assert store.end_window() == ["1 hard examples could not be stored: no room"]
    saved.full = False
    store.add(example(2), str)
    assert store.end_window() == []
    assert [len(lines) for lines, _ in saved.files] == [2]


def test_the_time_between_two_files_doubles_after_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(hard_examples, "monotonic_s", lambda: now_s)
    saved = Saved()
    store = HardExampleStore(None, 30.0, saved.save)
    for window in range(1_000):
        now_s = 30.0 * window
        store.add(example(window), str)
        store.end_window()
    assert len(saved.files) == 100 + 100 + 100 + 37, "each window, each 2nd, each 4th, each 8th"
    assert sum(len(lines) for lines, _ in saved.files) > 990


def test_samples_of_several_writers_are_whole_lines_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("first\n")

    def write(writer: int) -> None:
        target = dataset(path)
        for window in range(50):
            target.append([f"{writer}-{window}-{each}" + "." * 500 for each in range(20)])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    lines = path.read_text().splitlines()
    assert lines[0] == "first" and len(lines) == 1 + 4 * 50 * 20
    assert {line.rstrip(".").count("-") for line in lines[1:]} == {2}
    assert {line.count(".") for line in lines[1:]} == {500}


def test_a_file_that_is_not_whole_gets_nothing_until_it_is(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    target, saved = dataset(path, "csv"), Saved()
    store = HardExampleStore(target, 30.0, saved.save)
    store.add(example(1), lambda: "1,2")
    (problem,) = store.end_window()
    assert problem == f"1 hard examples could not be appended: {path} has no header line"
    path.write_text("a,b")
    (problem,) = store.end_window()
    assert problem.endswith(f"the last line of {path} has no end") and path.read_text() == "a,b"
    path.write_text("a,b\n")
    assert store.end_window() == [] and path.read_text() == "a,b\n1,2\n"
    assert store.end_window() == [] and path.read_text() == "a,b\n1,2\n"


def test_a_disk_that_gets_full_leaves_no_half_line_and_a_process_appends_no_more_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.txt"
    path.write_text("first\n")
    target = dataset(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(OSError, match="only 994 of 1,010 bytes"):
            target.append(["x" * 100] * 10)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert path.read_text() == "first\n"
    monkeypatch.setattr(hard_examples, "MAX_APPENDED_BYTES", 10)
    target = dataset(tmp_path / "other.txt")
    target.append(["12345678"])
    with pytest.raises(ValueError, match="has appended 9 bytes, which is the limit"):
        target.append(["9"])
    assert (tmp_path / "other.txt").stat().st_size == 9


@pytest.mark.parametrize(
    ("sample", "form"),
    [("", "txt"), ("a\nb", "txt"), ("a\0", "txt"), (3, "txt"), ("{", "jsonl"), (" ", "csv")],
)
def test_a_sample_that_is_no_line_and_a_dataset_on_another_host_are_refused(sample: Any, form: str) -> None:
    with pytest.raises(ValueError, match=r"expected a text of one line|Expecting property name"):
        checked_sample(sample, form)
    with pytest.raises(ValueError, match=r"expected a path or a file:// URL, got s3://data/a.txt"):
        DatasetFile(AppendTarget(url="s3://data/a.txt"))
