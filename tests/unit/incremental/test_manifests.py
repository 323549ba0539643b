"""The manifest of a stage: which samples it has, in which bytes (I16, I18, I30, I32)."""

import io
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.incremental.given import end_of
from trackside.aggregates.rounds.job.split import SplitRule
from trackside.incremental.manifests import ManifestParameters, ManifestRequest, numbers_of
from trackside.incremental.watching.datasets import open_dataset
from trackside.incremental.watching.lines import DatasetError

ALL = [{"begin": 0, "share": "1", "carry": "0"}]
TEN = b"".join(b"%d\n" % number for number in range(10))


def wanted(file: Path, octets: bytes, **more: Any) -> ManifestParameters:
    end = end_of(octets, 0)
    fields: dict[str, Any] = {"use": "train", "output": {"url": "/nowhere"}, "path": "data/train/1/data.txt"}
    fields |= {
        "dataset": {"url": str(file), "format": "txt"},
        "end": {"size": end.size, "sha256": end.sha256},
    }
    fields |= {"segments": [{"begin": 0, "share": "4/5", "carry": "0"}], "ranges": [[0, 10]]}
    return ManifestParameters.model_validate(fields | more)


def requested(path: Path, octets: bytes, **more: Any) -> ManifestRequest:
    parameters = wanted(path, octets, **more)
    return ManifestRequest(open_dataset(parameters.dataset.url, None), parameters)


def written(path: Path, octets: bytes, **more: Any) -> tuple[bytes, int]:
    manifest = requested(path, octets, **more)
    return b"".join(manifest.chunks()), manifest.lines


@pytest.mark.parametrize(
    ("use", "ranges", "samples"),
    [
        ("train", [[0, 10]], b"1\n2\n3\n4\n6\n7\n8\n9\n"),
        ("eval", [[0, 10]], b"0\n5\n"),
        ("train", [[3, 7]], b"3\n4\n6\n"),
        ("eval", [[5, 10], [0, 5]], b"0\n5\n"),
        ("eval", [[0, 6], [0, 6], [4, 8]], b"0\n5\n"),
    ],
)
def test_a_manifest_has_each_sample_of_its_use_once_in_the_order_of_the_dataset(
    tmp_path: Path, use: str, ranges: list[list[int]], samples: bytes
) -> None:
    """I16, I18: Sedna's evaluation file has samples of a version as often as it was polled."""
    path = tmp_path / "data.txt"
    path.write_bytes(TEN + b"later\n")
    assert written(path, TEN, use=use, ranges=ranges) == (samples, samples.count(b"\n"))


def test_a_manifest_has_plain_line_ends_no_byte_order_mark_and_the_header_of_a_csv(tmp_path: Path) -> None:
    """I30; I32: Sedna takes a csv, and fails when it writes it."""
    path, octets = tmp_path / "data.txt", b"\xef\xbb\xbfa\r\n\r\nb\r\n"
    path.write_bytes(octets)
    assert written(path, octets, segments=ALL, ranges=[[0, 2]]) == (b"a\nb\n", 2)
    path, octets = tmp_path / "data.csv", b"x,y\r\n" + b"".join(b"%d,1\r\n" % number for number in range(5))
    path.write_bytes(octets)
    dataset = {"url": str(path), "format": "csv"}
    assert written(path, octets, dataset=dataset, ranges=[[0, 5]], use="eval") == (b"x,y\n0,1\n", 1)


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (b"x" + TEN[1:], "dataset_changed"),
        (TEN[:-2], "dataset_truncated"),
        (b"x" * 3_000_000, "dataset_changed"),
        (None, "dataset_missing"),
    ],
)
def test_a_changed_dataset_has_no_manifest(tmp_path: Path, now: bytes | None, code: str) -> None:
    path = tmp_path / "data.txt"
    if now is not None:
        path.write_bytes(now)
    observed = TEN if now is None or len(now) < 100 else b"y" * len(now)
    with pytest.raises(DatasetError) as raised:
        written(path, observed)
    assert raised.value.code == code
    assert f"dataset {path}: " in str(raised.value)


def test_a_manifest_of_unseen_samples_or_outside_of_the_output_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_bytes(TEN)
    with pytest.raises(DatasetError, match="end before sample 11") as raised:
        written(path, TEN, ranges=[[0, 20]])
    assert raised.value.code == "dataset_bad_ranges"
    with pytest.raises(ValueError, match="not a path below the output"):
        wanted(tmp_path, b"", path="data/../../x")


def test_names_of_files_in_the_samples_are_listed_and_numbers_are_not(tmp_path: Path) -> None:
    """I31."""
    path, octets = tmp_path / "data.txt", b"img/1.jpg 0.5 img/2.png cat\nimg/3.jpg\n"
    path.write_bytes(octets)
    index = io.BytesIO()
    chunks = requested(path, octets, segments=ALL, ranges=[[0, 1]]).chunks(index)
    assert b"".join(chunks).count(b"\n") == 1
    assert index.getvalue() == b"img/1.jpg\nimg/2.png\n"


def test_a_large_manifest_is_written_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    octets = os.urandom(600_000).hex(sep="\n", bytes_per_sep=64).encode() + b"\n"
    path.write_bytes(octets)
    chunks = list(requested(path, octets, segments=ALL, ranges=[[0, octets.count(b"\n")]]).chunks())
    assert b"".join(chunks) == octets and len(chunks) > 1


@given(st.fractions(0, 1), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=4))
def test_training_and_evaluation_share_all_samples(share: Fraction, ranges: list[tuple[int, int]]) -> None:
    segments = [SplitRule(0, str(share))]
    train, evaluation = (list(numbers_of(segments, ranges, use)) for use in ("train", "eval"))
    assert train == sorted(set(train)) and evaluation == sorted(set(evaluation))
    assert sorted(train + evaluation) == sorted({at for begin, end in ranges for at in range(begin, end)})
