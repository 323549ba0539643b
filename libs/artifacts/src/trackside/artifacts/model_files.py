"""Checks files of models by their structure, without a framework: safetensors and ONNX."""

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

from trackside.artifacts.errors import BadArtifact
from trackside.artifacts.manifests import check_path

MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format."""
_BITS = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
}
VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
IR_VERSION, GRAPH, INITIALIZER, EXTERNAL_DATA = 1, 7, 5, 13
"""Fields of ONNX: of ModelProto, GraphProto and TensorProto."""


def check_safetensors(file: BinaryIO, name: str) -> None:
    """Checks the header of a safetensors file and that its tensors fill the rest of it; BadArtifact."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
        raise BadArtifact(f"{name} is not safetensors: its header doesn't fit into it")
    try:
        header = json.loads(file.read(length), object_pairs_hook=_without_repeats)
        if not isinstance(header, dict):
            raise ValueError("its header is not an object")
        _check_tensors(header, size - 8 - length)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadArtifact(f"{name} is not safetensors: {error}") from None


def _check_tensors(header: dict[str, Any], size: int) -> None:
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or any(not isinstance(each, str) for each in metadata.values()):
        raise ValueError("its metadata are not texts")
    end = 0
    for name, tensor in sorted(header.items(), key=lambda each: each[1]["data_offsets"]):
        begin, after = tensor["data_offsets"]
        items = 1
        for each in tensor["shape"]:
            if type(each) is not int or each < 0:
                raise ValueError(f"tensor {name!r} has the shape {tensor['shape']}")
            items *= each
        if begin != end or items * _BITS[tensor["dtype"]] != (after - begin) * 8:
            raise ValueError(
                f"tensor {name!r} doesn't begin where another ends, or has not the size of its shape"
            )
        end = after
    if end != size:
        raise ValueError(f"its tensors end at byte {end}, the file at {size}")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key of its header is repeated")
    return found


def check_onnx(file: BinaryIO, name: str) -> None:
    """Checks that a file is a ModelProto of ONNX with tensors in it or next to it; BadArtifact."""
    try:
        fields = list(_fields(file, 0, os.fstat(file.fileno()).st_size))
        numbers = {number for number, _, _ in fields}
        if not {IR_VERSION, GRAPH} <= numbers:
            raise ValueError("it has no version or no graph")
        for graph in _within(file, fields, GRAPH):
            for tensor in _within(file, graph, INITIALIZER):
                for entry in _within(file, tensor, EXTERNAL_DATA):
                    _check_location([_bytes(file, each) for each in entry])
    except ValueError as error:
        raise BadArtifact(f"{name} is not ONNX: {error}") from None


def _check_location(entry: list[bytes]) -> None:
    if len(entry) == 2 and entry[0] == b"location":
        check_path(entry[1].decode())


Field = tuple[int, int, int]
"""The number of a field, and where its value begins and ends; a number has no place."""


def _within(file: BinaryIO, fields: list[Field], number: int) -> Iterator[list[Field]]:
    """Yields the fields of each message that is in the field of this number."""
    for found, begin, end in fields:
        if found == number:
            yield list(_fields(file, begin, end))


def _bytes(file: BinaryIO, field: Field) -> bytes:
    _, begin, end = field
    file.seek(begin)
    return file.read(min(end - begin, 10_000))


def _fields(file: BinaryIO, begin: int, end: int) -> Iterator[Field]:
    """Yields the fields of a protobuf message; ValueError if they don't end where it ends."""
    at = begin
    while at < end:
        file.seek(at)
        key = _varint(file)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            _varint(file)
            value, at = file.tell(), file.tell()
        elif kind == LENGTH:
            length = _varint(file)
            value = file.tell()
            at = value + length
        elif kind in (FIXED32, FIXED64):
            value = file.tell()
            at = value + (4 if kind == FIXED32 else 8)
        else:
            raise ValueError(f"it has a field of the unknown kind {kind}")
        if number == 0 or at > end:
            raise ValueError("a field of it goes beyond its end")
        yield number, value, at


def _varint(file: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        octet = file.read(1)
        if not octet:
            raise ValueError("it ends within a number")
        value |= (octet[0] & 0x7F) << shift
        if octet[0] < 0x80:
            return value
    raise ValueError("a number in it is too long")
