import struct
import tempfile
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.summaries.tensorboard_files import items_of, scalars_of, whole
from trackside.summaries.event_files import reading
from trackside.summaries.event_files.framing import frame, frames, masked
from trackside.summaries.event_files.protos import mindspore_pb2, tensorboard_pb2
from trackside.summaries.event_files.reading import read
from trackside.summaries.event_files.values import TextRows
from trackside.summaries.event_files.writing import first_record, record

RECORDS = [first_record(0), *(record("loss", step, step * 1000, step / 2) for step in range(6))]
FILE = b"".join(RECORDS)


def written(folder: Path, data: bytes) -> Path:
    path = folder / "events.out.tfevents.1"
    path.write_bytes(data)
    return path


def test_the_frames_are_those_of_the_format() -> None:
    """The check value of CRC-32C is that of RFC 3720, B.4; the mask is that of TFRecord."""
    assert masked(0) == 0xA282EAD8
    assert frame(b"123456789")[-4:] == struct.pack("<I", masked(0xE3069283))
    assert frames(frame(b"123456789")).bodies == [b"123456789"]


def test_a_file_that_is_cut_anywhere_is_read_up_to_its_last_whole_record(tmp_path: Path) -> None:
    ends = [sum(map(len, RECORDS[: n + 1])) for n in range(len(RECORDS))]
    for size in range(len(FILE) + 1):
        pieces = whole(written(tmp_path, FILE[:size]))
        records = sum(end <= size for end in ends)
        assert sum(piece.records for piece in pieces) == records
        assert [piece.problem for piece in pieces] == [None] * len(pieces)
        if pieces:
            assert pieces[-1].end == ends[records - 1]


def test_every_byte_that_changes_is_found_and_everything_before_it_is_read(tmp_path: Path) -> None:
    ends = [sum(map(len, RECORDS[: n + 1])) for n in range(len(RECORDS))]
    for place in range(len(FILE)):
        damaged = bytearray(FILE)
        damaged[place] ^= 0x40
        pieces = whole(written(tmp_path, bytes(damaged)))
        before = sum(end <= place for end in ends)
        assert sum(piece.records for piece in pieces) == before
        assert pieces[-1].problem in ("damaged_length", "damaged_record")
        assert pieces[-1].end == (ends[before - 1] if before else 0)


@pytest.mark.thorough
@given(st.lists(st.integers(0, len(FILE)), max_size=6).map(sorted))
def test_a_file_that_grows_is_read_on_from_where_reading_ended(sizes: list[int]) -> None:
    at, found = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for size in [*sizes, len(FILE)]:
            for piece in read(str(written(Path(folder), FILE[:size])), at):
                assert piece.start == at
                found.append(piece)
                at = piece.end
    assert at == len(FILE)
    assert scalars_of(found) == {"loss": [(n, n * 1000, n / 2) for n in range(6)]}


def test_reading_on_remembers_the_plugins_of_the_records_before(tmp_path: Path) -> None:
    first = record("note", 1, 0, TextRows(["one"]))
    later = tensorboard_pb2.Event.FromString(frames(record("note", 2, 0, TextRows(["two"]))).bodies[0])
    later.summary.value[0].ClearField("metadata")
    path = written(tmp_path, first_record(0) + first + frame(later.SerializeToString()))
    start = len(first_record(0) + first)
    (item,) = items_of(list(read(str(path), start)))
    assert (item.kind, item.value.texts) == ("text", ["two"])


def test_long_records_are_read_and_huge_ones_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = record("note", 9, 0, TextRows(["x" * 1000]))
    path = written(tmp_path, FILE + long + RECORDS[1])
    pieces = list(read(str(path), longest=500))
    assert [piece.problem for piece in pieces] == ["record_too_long", None]
    assert pieces[0].end == len(FILE + long)
    assert len(scalars_of(pieces)["loss"]) == 7
    monkeypatch.setattr(reading, "PIECE", 64)
    pieces = whole(path)
    assert pieces[-1].end == len(FILE + long + RECORDS[1])
    assert [item.value.texts for item in items_of(pieces)] == [["x" * 1000]]
    assert len(scalars_of(pieces)["loss"]) == 7


def test_a_length_of_500_megabytes_waits_for_its_record_and_takes_no_memory(tmp_path: Path) -> None:
    """S18: whether it is damage or a record on its way, only time can tell, unless its checksum does."""
    length = struct.pack("<Q", 500_000_000)
    right = struct.pack("<I", masked(google_crc32c.value(length)))
    (piece,) = whole(written(tmp_path, FILE + length + right))
    assert (piece.problem, piece.end) == (None, len(FILE))
    (piece,) = whole(written(tmp_path, FILE + length + bytes(4)))
    assert (piece.problem, piece.end) == ("damaged_length", len(FILE))


def test_a_file_of_another_format_or_with_a_record_that_is_no_event_stops_there(tmp_path: Path) -> None:
    for first in (b"\xff\xff", b"", tensorboard_pb2.Event(file_version="x").SerializeToString()):
        (piece,) = whole(written(tmp_path, frame(first)))
        assert (piece.problem, piece.end) == ("unknown_format", 0)
    pieces = whole(written(tmp_path, FILE + frame(b"\xff\xff\xff") + RECORDS[1]))
    assert [(piece.problem, piece.end) for piece in pieces] == [("not_an_event", len(FILE))]
    assert len(scalars_of(pieces)["loss"]) == 6


def test_an_empty_file_holds_nothing_and_a_link_is_not_followed(tmp_path: Path) -> None:
    path = written(tmp_path, b"")
    assert whole(path) == []
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(OSError, match="symbolic links"):
        whole(link)


def test_values_that_are_damaged_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    event = tensorboard_pb2.Event(step=1)
    tensor = event.summary.value.add(tag="t").tensor
    tensor.dtype, tensor.tensor_content = 1, b"123"
    odd = event.summary.value.add(tag="u").tensor
    odd.dtype = 99
    wide = event.summary.value.add(tag="w").tensor
    wide.dtype = 1
    wide.float_val.append(1.0)
    wide.tensor_shape.dim.add(size=2**40)
    histogram = event.summary.value.add(tag="h").histo
    histogram.bucket.append(1)
    event.summary.value.add(tag="loss").simple_value = 3
    (piece,) = whole(written(tmp_path, first_record(0) + frame(event.SerializeToString())))
    assert piece.decoded.unknown == {"tensor, damaged": 3, "histo, damaged": 1}
    assert scalars_of([piece]) == {"loss": [(1, 0, 3.0)]}


def test_records_of_mindspore_are_read(tmp_path: Path) -> None:
    version = mindspore_pb2.Event(wall_time=1.0, version="MindSpore.Event:1")
    event = mindspore_pb2.Event(wall_time=2.5, step=7)
    event.summary.value.add(tag="loss/auto", scalar_value=0.5)
    histogram = event.summary.value.add(tag="weights").histogram
    histogram.buckets.add(left=0.0, width=0.5, count=3)
    histogram.nan_count = 2
    tensor = event.summary.value.add(tag="logits").tensor
    tensor.data_type, tensor.float_data[:] = 11, [1.0, 2.0]
    tensor.dims.append(2)
    event.summary.value.add(tag="broken").tensor.data_type = 99
    picture = event.summary.value.add(tag="picture").image
    picture.height, picture.width, picture.encoded_image = 2, 3, b"png"
    data = b"".join(frame(each.SerializeToString()) for each in (version, event))
    (piece,) = whole(written(tmp_path, data))
    assert scalars_of([piece]) == {"loss/auto": [(7, 2500, 0.5)]}
    assert [item.kind for item in items_of([piece])] == ["histogram", "tensor", "image"]
    weights, logits, _ = items_of([piece])
    assert (weights.value.left, weights.value.right, weights.value.nan) == ([0.0], [0.5], 2)
    assert logits.value.tolist() == [1.0, 2.0]
    assert piece.decoded.unknown == {"tensor, damaged": 1}
