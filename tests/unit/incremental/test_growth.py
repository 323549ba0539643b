"""A dataset grows: whole lines are counted once, and what was observed is compared (I15)."""

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.incremental.given import WatchedFile, end_of
from trackside.aggregates.dataset.messages import MAX_LINE_BYTES, DatasetFormat, DriftSpec
from trackside.incremental.watching import datasets
from trackside.incremental.watching import growth as growth_module
from trackside.incremental.watching.drift_window import DriftWindow
from trackside.incremental.watching.growth import CHECK_S
from trackside.incremental.watching.lines import TAIL_BYTES, DatasetError, LineScan

LINES = st.binary(max_size=12).map(lambda octets: octets.replace(b"\n", b""))


@pytest.fixture
def dataset(tmp_path: Path) -> WatchedFile:
    return WatchedFile(tmp_path / "data.txt")


def refused(dataset: WatchedFile) -> DatasetError:
    """Looks, and returns the problem that there must be."""
    with pytest.raises(DatasetError) as raised:
        dataset.look()
    return raised.value


def test_whole_lines_are_counted_once_and_one_without_its_end_waits(dataset: WatchedFile) -> None:
    """I15: only growth counts, from byte to byte."""
    assert dataset.grow(b"a\nb") and dataset.observed == end_of(b"a\n", 1)
    assert not dataset.grow(b"b")
    assert dataset.grow(b"b\nc") and dataset.observed == end_of(b"a\nbbb\n", 2)
    assert dataset.seen == [b"a", b"bbb"]
    dataset.rewrite(b"a\nbbb\nd\n")
    assert dataset.look()  # a line without its end may still change
    assert dataset.observed == end_of(b"a\nbbb\nd\n", 3)


@pytest.mark.parametrize(
    ("octets", "code"), [(b"a\n", "truncated"), (b"x\nb\nc\n", "changed"), (b"x\nb\n", "changed")]
)
def test_a_dataset_that_shrinks_or_changes_is_refused(dataset: WatchedFile, octets: bytes, code: str) -> None:
    """I15: Sedna ignores a shorter one until the file has grown past what it was."""
    dataset.grow(b"a\nb\n")
    dataset.rewrite(octets)
    error = refused(dataset)
    assert (error.code, dataset.observed.lines) == (code, 2)
    assert error.size == len(octets) if code == "truncated" else error.sha256 == end_of(octets[:4], 2).sha256


def test_a_dataset_may_be_replaced_but_only_by_one_with_the_same_begin(dataset: WatchedFile) -> None:
    dataset.grow(b"a\n" * TAIL_BYTES)
    other = dataset.path.with_suffix(".new")
    other.write_bytes(b"a\n" * TAIL_BYTES + b"b\n")
    other.replace(dataset.path)
    assert dataset.look()
    assert dataset.observed == end_of(b"a\n" * TAIL_BYTES + b"b\n", TAIL_BYTES + 1)
    other.write_bytes(b"x\n" + b"a\n" * (TAIL_BYTES + 1))
    other.replace(dataset.path)
    assert refused(dataset).code == "changed"


def test_a_dataset_that_is_no_json_any_more_has_changed_though_its_drift_is_computed(tmp_path: Path) -> None:
    window = DriftWindow(DriftSpec(detector="ks", reference=2, window=2), "jsonl")
    dataset = WatchedFile(tmp_path / "data.jsonl", "jsonl", window=window)
    dataset.grow(b'{"a": 1}\n')
    dataset.rewrite(b"\xff\xff{\xff\xff\xff\n[\n")
    assert refused(dataset).code == "changed"


def test_a_change_far_before_the_end_is_found_within_a_minute_of_growth(dataset: WatchedFile) -> None:
    dataset.grow(b"a\n" * TAIL_BYTES)
    with dataset.path.open("r+b") as file:
        file.write(b"x")
    assert dataset.grow(b"b\n")  # as if it had only grown
    dataset.now_s += CHECK_S
    dataset.append(b"c\n")
    assert refused(dataset).code == "changed"


def test_a_dataset_may_vanish_or_be_replaced_for_a_while(dataset: WatchedFile) -> None:
    assert refused(dataset).code == "missing"
    assert dataset.grow(b"a\n")
    hidden = dataset.path.rename(dataset.path.with_suffix(".hidden"))
    assert refused(dataset).code == "missing"
    hidden.rename(dataset.path)
    assert dataset.grow(b"b\n")
    assert dataset.seen == [b"a", b"b"]
    dataset.grow(b"a\n")
    hidden = dataset.path.rename(dataset.path.with_suffix(".hidden"))
    dataset.path.write_bytes(b"x\nb\na\n")
    assert refused(dataset).code == "changed"
    hidden.rename(dataset.path)
    assert not dataset.growth.is_verified
    assert not dataset.look()
    assert dataset.growth.is_verified


@pytest.mark.parametrize("has_changed", [False, True])
def test_another_watcher_goes_on_if_nothing_has_changed(dataset: WatchedFile, has_changed: bool) -> None:
    dataset.grow(b"a\nb\n")
    dataset.rewrite(b"a\nx\n" if has_changed else b"a\nb\nc\n")
    dataset.restart()
    assert not dataset.growth.is_verified
    if has_changed:
        assert refused(dataset).code == "changed"
    else:
        assert dataset.look()
        assert (dataset.observed, dataset.seen) == (end_of(b"a\nb\nc\n", 3), [b"a", b"b", b"c"])
    assert dataset.growth.is_verified is not has_changed


@pytest.mark.parametrize(
    ("format_", "octets", "lines", "samples"),
    [
        ("txt", b"a\r\nb\r\n", 2, [b"a", b"b"]),
        ("txt", b"\xef\xbb\xbfa\nb\n", 2, [b"a", b"b"]),
        ("txt", b"a\n\n \t\nb\n\n", 2, [b"a", b"b"]),
        ("csv", b"x,y\n1,2\n3,4\n", 2, [b"1,2", b"3,4"]),
        ("csv", b'\xef\xbb\xbfx,y\r\n"1,5","2 ""in"""\r\n', 1, [b'"1,5","2 ""in"""']),
        ("csv", b"\nx\n1\n", 1, [b"1"]),
        ("jsonl", b'{"a": 1}\n[2]\n3\n"\\n"\n', 4, [b'{"a": 1}', b"[2]", b"3", b'"\\n"']),
        ("jsonl", b"{}\r\n\r\n", 1, [b"{}"]),
    ],
)
def test_a_sample_is_a_line_that_is_not_blank(
    tmp_path: Path, format_: DatasetFormat, octets: bytes, lines: int, samples: list[bytes]
) -> None:
    """I15: line ends and a byte-order mark are no part of a sample, but count as bytes; I32: all formats."""
    dataset = WatchedFile(tmp_path / "data", format_)
    assert dataset.grow(octets) and dataset.observed == end_of(octets, lines)
    assert dataset.seen == samples


def test_a_header_alone_is_no_sample(tmp_path: Path) -> None:
    dataset = WatchedFile(tmp_path / "data.csv", "csv")
    assert not dataset.grow(b"x,y\n")
    assert dataset.grow(b"1,2\n")
    dataset.append(b"1,2,3\n")
    dataset.restart()  # the header is read again
    error = refused(dataset)
    assert "it has 3 fields, the header has 2" in str(error)
    assert dataset.observed == end_of(b"x,y\n1,2\n", 1)


@pytest.mark.parametrize(
    ("format_", "good", "bad", "reason"),
    [
        ("txt", b"a\n", b"b\0\n", "line 2 of the file can't be a sample of txt: it holds a NUL character"),
        ("txt", b"a\n", b"\xff\n", "its byte 1 isn't UTF-8"),
        ("txt", b"", b"\xff\xfea\0\n\0", "it holds a NUL character"),
        ("csv", b"x,y\n1,2\n", b'"1\n5",2\n', "a quoted field continues in the next line"),
        ("csv", b"x,y\n1,2\n", b"1\n", "it has 1 fields, the header has 2"),
        ("jsonl", b"{}\n", b"{\n", "line 2 of the file"),
        ("jsonl", b"{}\n", b"NaN\n", "NaN is not JSON"),
        ("jsonl", b"{}\n", b"[" * 100_000 + b"\n", "it is nested too deep"),
    ],
)
def test_a_line_that_can_not_be_a_sample_is_refused_and_those_before_it_count(
    tmp_path: Path, format_: DatasetFormat, good: bytes, bad: bytes, reason: str
) -> None:
    dataset = WatchedFile(tmp_path / "data", format_)
    dataset.append(good + bad + b"after\n")
    error = refused(dataset)
    lines = 0 if not good else 1
    assert (error.code, error.line) == ("bad_line", lines)
    assert reason in str(error)
    assert dataset.observed == end_of(good, lines)
    dataset.rewrite(good + good[-4:])  # what was not observed may change
    dataset.restart()
    assert dataset.look() is bool(good)


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_of_10_mb_is_refused_before_it_is_whole_in_memory(dataset: WatchedFile, end: bytes) -> None:
    dataset.append(b"a\n" + b"x" * 10_000_000 + end)
    tracemalloc.start()
    error = refused(dataset)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (error.code, error.line) == ("line_too_long", 1)
    assert f"line 2 of the file has more than {MAX_LINE_BYTES} bytes" in str(error)
    assert peak < 8 * MAX_LINE_BYTES
    assert dataset.observed == end_of(b"a\n", 1)


def test_a_line_of_the_longest_length_is_a_sample(dataset: WatchedFile) -> None:
    assert dataset.grow(b"x" * MAX_LINE_BYTES + b"\n")


def test_a_dataset_without_rights_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, code in ((".", "not_a_file"), ("pipe", "not_a_file"), ("pipe/data.txt", "missing")):
        assert refused(WatchedFile(tmp_path / path)).code == code
    closed = WatchedFile(tmp_path / "closed.txt")
    closed.append(b"a\n")
    closed.path.chmod(0)
    if os.geteuid():
        assert refused(closed).code == "no_permission"
        closed.path.chmod(0o600)
    assert closed.look()


def test_a_link_is_followed_and_may_lead_to_another_file_with_the_same_begin(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"a\n")
    (tmp_path / "two").write_bytes(b"a\nb\n")
    (tmp_path / "link").symlink_to("one")
    dataset = WatchedFile(tmp_path / "link")
    assert dataset.look()
    (tmp_path / "other").symlink_to("two")
    (tmp_path / "other").rename(tmp_path / "link")
    assert dataset.look()
    assert dataset.seen == [b"a", b"b"]


def test_a_large_dataset_is_reported_in_steps(dataset: WatchedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "CHUNK_BYTES", 2**12)
    monkeypatch.setattr(growth_module, "STEP_BYTES", 2**14)
    octets = b"".join(b"%d\n" % number for number in range(10_000))
    dataset.append(octets)
    looks = 0
    while dataset.look():
        looks += 1
    assert looks > 1
    assert dataset.observed == end_of(octets, 10_000)


@settings(deadline=None)
@given(st.lists(LINES, max_size=20), st.data())
def test_however_they_arrive_samples_end_at_the_same_byte(lines: list[bytes], data: st.DataObject) -> None:
    """I17: what arrives at once makes no difference."""
    octets = b"".join(line.hex().encode() + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=8)))
    scan, samples = LineScan("txt"), list[bytes]()
    for begin, end in zip([0, *cuts], [*cuts, len(octets)], strict=True):
        samples += scan.feed(octets[begin:end])
    expected = [line.hex().encode() for line in lines if line]
    assert samples == expected
    assert scan.end == end_of(octets, len(expected))
