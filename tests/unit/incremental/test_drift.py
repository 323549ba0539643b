"""Detectors of drift: how far the newest samples differ from earlier ones, and which are compared (I13)."""

import logging
import math
import random
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from tests.unit.incremental.given import WatchedFile
from trackside.aggregates.dataset.messages import DatasetFormat, DriftSpec
from trackside.contracts.envelope.message import Json
from trackside.contracts.fleet import plugins
from trackside.incremental.watching import drift
from trackside.incremental.watching.drift import DriftColumns, detectors, find_detector, measure_drift
from trackside.incremental.watching.drift_window import DriftWindow, numbers_of_sample

NAN = math.nan


def column(seed: int, mean: float = 0.0, count: int = 400) -> list[float]:
    chance = random.Random(seed)
    return [chance.gauss(mean, 1) for _ in range(count)]


def offered(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    points = [EntryPoint(name=name, value=value, group=drift.GROUP) for name, value in values.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == drift.GROUP else [])


def constant(reference: DriftColumns, window: DriftColumns, parameters: Json) -> Any:
    assert isinstance(parameters, dict)
    return parameters["found"]


@pytest.mark.parametrize("name", ["ks", "psi"])
def test_the_more_samples_differ_the_larger_is_the_drift(name: str) -> None:
    reference = [column(1)]
    found = [measure_drift(name, reference, [column(2, mean)], {}) for mean in (0.0, 0.5, 1.0, 2.0)]
    assert found == sorted(found)
    assert found[0] < 0.12
    assert found[-1] > 0.6
    assert measure_drift(name, reference, reference, {}) == 0


def test_the_statistics_are_the_largest_distance_of_shares_and_the_index_of_the_shares_of_bins() -> None:
    """The index: halves of the reference against a quarter and three quarters."""
    assert measure_drift("ks", [[1, 2, 3, 4]], [[3, 4, 5, 6]], {}) == 0.5
    assert measure_drift("ks", [[1, 2, 3, 4]], [[5, 6]], {}) == 1
    expected = (0.25 - 0.5) * math.log(0.25 / 0.5) + (0.75 - 0.5) * math.log(0.75 / 0.5)
    found = measure_drift("psi", [[1, 2, 3, 4]], [[1, 3, 4, 4]], {"bins": 2})
    assert found == pytest.approx(expected)


def test_the_column_that_differs_most_counts_and_packages_add_more(monkeypatch: pytest.MonkeyPatch) -> None:
    reference, window = [[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]
    assert measure_drift("ks", reference, window, {}) == 1
    assert measure_drift("ks", reference, window, {"combine": "mean"}) == 0.5
    offered(monkeypatch, constant=f"{__name__}:constant")
    assert list(detectors()) == ["ks", "psi", "constant"]
    assert find_detector("constant") is constant
    assert measure_drift("constant", [[1.0]], [[2.0]], {"found": 7}) == 7


@pytest.mark.parametrize("name", ["ks", "psi"])
def test_missing_values_are_no_numbers_and_a_column_of_one_value_is_no_exception(name: str) -> None:
    some, none = [1.0, 2.0, 3.0, NAN], [NAN, math.inf, NAN, NAN]
    for reference, window in ((some, some), (none, none), ([5.0] * 10, [5.0] * 3)):
        assert measure_drift(name, [reference], [window], {}) == 0
    for reference, window in ((some, none), (none, some), ([5.0] * 10, [6.0] * 3), ([5.0] * 10, [4.0] * 3)):
        assert measure_drift(name, [reference], [window], {}) >= 1


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("kss", {}, "there is no drift detector 'kss'; expected one of: ks, psi; did you mean 'ks'?"),
        ("ks", {"bins": 3}, "drift detector 'ks' has no such parameter: bins: Extra inputs are not"),
        ("psi", {"bins": 1}, "drift detector 'psi' has no such parameter: bins: Input should be greater"),
        ("ks", {"combine": "sum"}, "drift detector 'ks' has no such parameter: combine: Input should be"),
    ],
)
def test_an_unknown_detector_or_parameter_is_named(name: str, parameters: Json, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace("?", r"\?")):
        measure_drift(name, [[1.0]], [[1.0]], parameters)


@pytest.mark.parametrize(
    ("reference", "window", "message"),
    [
        ([], [], "the reference has 0 columns, the window 0; expected the same columns, at least one"),
        ([[1.0]], [[1.0], [2.0]], "the reference has 1 columns, the window 2; "),
        ([[1.0]], [[]], "the columns of the reference, or of the window, are empty or of several lengths"),
        ([[1.0], [1.0, 2.0]], [[1.0], [1.0]], "the columns of the reference, or of the window, are empty or"),
    ],
)
def test_unlike_columns_are_refused(reference: DriftColumns, window: DriftColumns, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure_drift("ks", reference, window, {})


@pytest.mark.parametrize("found", [NAN, math.inf, -1, None, "1", True])
def test_a_detector_must_return_a_finite_number_from_0(monkeypatch: pytest.MonkeyPatch, found: Any) -> None:
    offered(monkeypatch, constant=f"{__name__}:constant")
    with pytest.raises(ValueError, match=r"^drift detector 'constant' has returned .*; expected a finite"):
        measure_drift("constant", [[1.0]], [[2.0]], {"found": found})


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("ks", f"{__name__}:constant", "Trackside has a detector of this name"),
        ("other", f"{__name__}:NAN", f"{__name__}:NAN is a float; expected a function"),
        ("other", "no.such.module:detector", "No module named 'no'"),
        ("a name", f"{__name__}:constant", "its name is not an identifier: "),
    ],
)
def test_a_detector_that_can_not_be_used_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, value: str, reason: str
) -> None:
    offered(monkeypatch, **{name: value})
    with caplog.at_level(logging.ERROR):
        assert detectors() == {"ks": drift.ks, "psi": drift.psi}
    assert f"drift detector {name!r} is not available: {reason}" in caplog.text


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
    dataset.grow(header.encode() + b"1\n2\n3\n4\n2\n")
    assert dataset.window is not None
    first = dataset.window.value()
    assert first == pytest.approx(1 / 2)
    dataset.window = DriftWindow(spec, format_)
    dataset.restart()
    dataset.look()
    assert dataset.window.value() == first
    dataset.grow(b"9\n9\n")
    assert dataset.window.value() == 1
