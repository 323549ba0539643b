"""The numbers of samples, and when there are enough of them to compare (I13)."""

from pathlib import Path

import pytest

from tests.unit.incremental.given import WatchedFile
from trackside.aggregates.dataset.messages import DatasetFormat, DriftSpec
from trackside.incremental.drift_window import DriftWindow, numbers_of_sample


@pytest.mark.parametrize(
    ("format_", "sample", "numbers"),
    [
        ("txt", b"1, 2;3 x\t4e1", {"0": 1, "1": 2, "2": 3, "4": 40}),
        ("txt", b"img/1.jpg 7", {"1": 7}),
        ("csv", b'1,"2",x', {"a": 1, "b": 2}),
        ("jsonl", b'{"a": 1, "b": true, "c": "2", "d": null, "e": 2.5}', {"a": 1, "e": 2.5}),
        ("jsonl", b"[1, null, 3]", {"0": 1, "2": 3}),
        ("jsonl", b"4", {"0": 4}),
    ],
)
def test_a_sample_has_numbers_by_the_names_of_their_columns(
    format_: DatasetFormat, sample: bytes, numbers: dict[str, float]
) -> None:
    assert numbers_of_sample(format_, sample, ["a", "b", "c"]) == numbers


def test_the_newest_samples_are_compared_with_the_first_ones_by_the_named_columns() -> None:
    window = DriftWindow(DriftSpec(detector="ks", reference=2, window=2), "txt")
    window.add([b"1", b"2", b"1"], ())
    assert window.value() is None
    window.add([b"2"], ())
    assert window.value() == 0
    window.add([b"5"], ())
    assert window.value() == 0.5
    window.add([b"6", b"7"], ())
    assert window.value() == 1
    spec = DriftSpec(detector="ks", reference=2, window=2, columns=["b"])
    window = DriftWindow(spec, "csv")
    window.add([b"1,1", b"2,2", b"8,1", b"9,2"], ["a", "b"])
    assert window.value() == 0
    window = DriftWindow(DriftSpec(detector="ks", reference=2, window=2), "txt")
    window.add([b"a", b"b", b"c", b"d"], ())
    with pytest.raises(ValueError, match="no column of the first samples has a number"):
        window.value()


@pytest.mark.parametrize("format_", ["txt", "csv"])
def test_another_watcher_compares_the_same_samples(tmp_path: Path, format_: DatasetFormat) -> None:
    spec = DriftSpec(detector="ks", reference=3, window=2)
    dataset = WatchedFile(tmp_path / "data", format_, window=DriftWindow(spec, format_))
    header = "\ufeffx\r\n\r\n" if format_ == "csv" else ""
    dataset.append(header.encode() + b"1\n2\n3\n4\n2\n")
    dataset.look()
    assert dataset.window is not None
    first = dataset.window.value()
    assert first == pytest.approx(1 / 2)
    dataset.window = DriftWindow(spec, format_)
    dataset.restart()
    dataset.look()
    assert dataset.window.value() == first
    dataset.append(b"9\n9\n")
    dataset.look()
    assert dataset.window.value() == 1
