"""Hard examples (I40): which answers are, by each miner; kept within limits, stored, added to a dataset."""

import json
import math
import re
import resource
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import numpy
import pytest

from trackside.aggregates.rounds.job.miner_names import BUILT_IN_MINERS
from trackside.contracts.fleet import plugins
from trackside.incremental.serving import hard_examples, miners
from trackside.incremental.serving.miners import find_miner
from trackside.incremental.serving.serving_messages import AppendTarget
from trackside.sdk.in_task.saving import SaveError


class Saved:
    def __init__(self) -> None:
        self.files: list[tuple[list[str], Mapping[str, Any]]] = []
        self.full = False

    def save(self, name: str, content: bytes, kind: str, metadata: Mapping[str, Any]) -> None:
        if self.full:
            raise SaveError("spool_full", "no room")
        self.files.append((content.decode().splitlines(), metadata))


def dataset(path: Path, form: str = "txt") -> hard_examples.DatasetFile:
    return hard_examples.DatasetFile(AppendTarget(url=str(path), format=form))


def example(number: int) -> hard_examples.HardExample:
    return hard_examples.HardExample(number, [number], None, 1)


def stored(target: hard_examples.DatasetFile | None = None) -> tuple[Saved, hard_examples.HardExampleStore]:
    saved = Saved()
    return saved, hard_examples.HardExampleStore(target, 30.0, saved.save)


def test_more_examples_than_there_is_room_for_are_counted_and_the_next_window_has_room_again() -> None:
    saved, store = stored()
    most = hard_examples.MAX_EXAMPLES
    for number in range(most + 5):
        store.add(example(number), str)
    assert store.end_window(is_last=True) == []
    ((lines, metadata),) = saved.files
    assert (len(lines), metadata) == (most, {"examples": most, "left_out": 5})
    assert json.loads(lines[0]) == {"inputs": 0, "outputs": [0], "scores": None, "version": 1}
    large = hard_examples.HardExample("x" * (hard_examples.MAX_BYTES // 2), None, None, 1)
    for _ in range(2):
        store.add(large, str)
    assert store.end_window(is_last=True) == []
    assert saved.files[1][1] == {"examples": 1, "left_out": 1}


def test_what_could_not_be_stored_is_stored_with_the_next_window() -> None:
    saved, store = stored()
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
    saved, store = stored()
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
    _, store = stored(dataset(path, "csv"))
    store.add(example(1), lambda: "1,2")
    (problem,) = store.end_window()
    assert problem == f"1 hard examples could not be appended: {path} has no header line"
    path.write_text("a,b")
    (problem,) = store.end_window()
    assert problem.endswith(f"the last line of {path} has no end") and path.read_text() == "a,b"
    path.write_text("a,b\n")
    for _ in range(2):
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
        hard_examples.checked_sample(sample, form)
    with pytest.raises(ValueError, match=r"expected a path or a file:// URL, got s3://data/a.txt"):
        hard_examples.DatasetFile(AppendTarget(url="s3://data/a.txt"))


def boxes(*scores: float) -> list[list[Any]]:
    return [[0, 0, 8, 8, score, "cat"] for score in scores]


CASES = [
    ("Threshold", {}, boxes(0.2, 0.7), True),
    ("Threshold", {}, boxes(0.5, 0.5), False),
    ("Threshold", {"threshold": "0.9"}, boxes(0.8, 0.9), True),
    ("Threshold", {}, numpy.array([[0, 0, 1, 1, 0.4]]), True),
    ("CrossEntropy", {}, [0.5, 0.5], True),
    ("CrossEntropy", {}, [0.99, 0.01], False),
    ("CrossEntropy", {}, [1.0, 0.0], False),
    ("CrossEntropy", {"threshold_cross_entropy": 1.0}, numpy.array([0.99, 0.01]), True),
    ("CrossEntropy", {"threshold_cross_entropy": 2.0}, [1.0], False),
    ("IBT", {}, boxes(0.4, 0.9), True),
    ("IBT", {}, boxes(0.5, 0.5, 0.9), True),
    ("IBT", {}, boxes(0.4, 0.8, 0.9), False),
    ("IBT", {"threshold_img": 0.9, "threshold_box": 0.9}, boxes(*[0.95] * 9, 0.9), True),
    ("IBT", {"threshold_img": 0.7}, boxes(*[0.9] * 7, 0.1, 0.2, 0.3), True),
    ("IBT", {}, boxes(0.4, 1.2), False),
    ("CloudOnly", {}, None, True),
    ("EdgeOnly", {}, boxes(0.0), False),
    ("BertRouter", {}, {"LABEL_0": 0.2, "LABEL_1": 0.6, "LABEL_2": 0.2}, True),
    ("BertRouter", {}, [{"label": "LABEL_0", "score": 0.5}, {"label": "LABEL_1", "score": 0.5}], False),
    ("BertRouter", {"threshold": 0.9}, {"LABEL_0": 0.8, "LABEL_1": 0.2}, True),
]


@pytest.mark.parametrize(("name", "parameters", "scores", "hard"), CASES)
def test_a_miner_decides_by_scores(name: str, parameters: dict[str, Any], scores: Any, hard: bool) -> None:
    assert find_miner(name, parameters).is_hard(scores) is hard


@pytest.mark.parametrize("name", ["Threshold", "CrossEntropy", "IBT", "BertRouter"])
@pytest.mark.parametrize(
    "scores",
    [
        None, [], "text", 3, [[]], [[1, 2, 3, 4]], [None], [["a"] * 6], boxes(math.nan), boxes(0.1, math.inf),
        [math.nan, 0.1], ["0.1", "0.2"], [-0.1, 0.3], {}, {"LABEL_0": 0.0, "LABEL_1": 0.0}, {"LABEL_0": "x"},
        [{"label": "LABEL_0"}], numpy.array([]), boxes("0.1"),  # type: ignore[arg-type]
    ],
    ids=repr,
)  # fmt: skip
def test_scores_that_a_miner_cannot_read_are_not_hard(name: str, scores: Any) -> None:
    assert find_miner(name).is_hard(scores) is False


def test_a_random_miner_picks_its_share_by_its_seed_and_the_names_are_those_of_the_dispatcher() -> None:
    first, again, other = (find_miner("Random", {"seed": seed}) for seed in (7, 7, 8))
    picked = [first.is_hard(None) for _ in range(10_000)]
    assert picked == [again.is_hard(None) for _ in range(10_000)]
    assert picked != [other.is_hard(None) for _ in range(10_000)]
    assert 2_800 < sum(picked) < 3_200
    for name, parameters in BUILT_IN_MINERS.items():
        find_miner(name, dict.fromkeys(parameters, 1))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("Treshold", {}, "no miner 'Treshold' is installed; known: BertRouter, CloudOnly, CrossEntropy"),
        ("Threshold", {"limit": 1}, "miner Threshold has no parameter 'limit'; it has: threshold"),
        ("EdgeOnly", {"threshold": 1}, "it has: none"),
        ("IBT", {"threshold_box": "high"}, "miner IBT: threshold_box: expected a number, got 'high'"),
        ("Random", {"random_ratio": math.nan}, "random_ratio: expected a number"),
    ],
)
def test_an_unknown_miner_or_parameter_is_named(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        find_miner(name, parameters)


class Large:
    def __init__(self, above: float = 10) -> None:
        self.above = above

    def is_hard(self, scores: Any) -> bool:
        return bool(scores > self.above)


def test_a_package_offers_a_miner_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("Large", f"{__name__}:Large", miners.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: EntryPoints([point]).select(group=group))
    assert find_miner("Large", {"above": 3}).is_hard(4)
    with pytest.raises(ValueError, match=r"miner Large: .*unexpected keyword"):
        find_miner("Large", {"below": 3})
    with pytest.raises(ValueError, match=r"known: .*Threshold, Large"):
        find_miner("large")
