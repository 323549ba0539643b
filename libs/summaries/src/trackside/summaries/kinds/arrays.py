"""Arrays of numbers as bytes and as JSON, and what is said about them."""

import base64
import io
import math
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.summaries.event_files.values import Histogram
from trackside.summaries.kinds.bodies import MAX_DATA_BYTES, cut, to_integer, to_list, to_object, to_text
from trackside.summaries.kinds.kind import BadValue, Body

DTYPES = frozenset(
    {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
    | {"float16", "float32", "float64"}
)
"""The types of numbers that are stored, by numpy's names. Objects are never unpickled."""
NPY_TYPE = "application/x-npy"
MAX_DIMENSIONS = 64
"""Dimensions of an array of numpy."""
MAX_BUCKETS = 30
"""Buckets of an array's histogram."""

_BLOCK = 1 << 20
"""Values that are converted to float64 at once."""
_NPY_HEADER_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class ArrayStatistics:
    """Facts about the values of an array.

    Minimum, maximum, mean and standard deviation (of the population) are of the finite values, None if there
    are none.
    """

    minimum: float | None
    maximum: float | None
    mean: float | None
    std: float | None
    nan: int
    positive_inf: int
    negative_inf: int


def little_endian(array: NDArray[Any]) -> NDArray[Any]:
    """Returns an array in C order and little endian. Raises BadValue for a type that is not in DTYPES."""
    if array.dtype.name not in DTYPES:
        raise BadValue(f"an array of {cut(array.dtype.name)}", f"one of {', '.join(sorted(DTYPES))}")
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def encode(array: NDArray[Any]) -> Body:
    """Returns an array as JSON: dtype, shape, and the values little endian in base64. Raises BadValue."""
    stored = little_endian(array)
    text = base64.b64encode(stored.tobytes()).decode()
    return {"dtype": stored.dtype.name, "shape": list(stored.shape), "base64": text}


def decode(value: object) -> NDArray[Any]:
    """Returns the array of a JSON value. Raises BadValue."""
    found = to_object(value, "an array")
    dtype, shape = stored_type(found)
    text = to_text(found.get("base64"), "the values of an array")
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError as damaged:
        raise BadValue(f"the values of an array: {damaged}", "base64") from None
    return _shaped(raw, dtype, shape)


def stored_type(found: Body) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Returns the `dtype` and the `shape` of a JSON object. Raises BadValue."""
    name = found.get("dtype")
    if not isinstance(name, str) or name not in DTYPES:
        raise BadValue(f"the dtype {cut(name)}", f"one of {', '.join(sorted(DTYPES))}")
    shape = tuple(to_integer(size, "a size of an array") for size in to_list(found.get("shape"), "a shape"))
    if len(shape) > MAX_DIMENSIONS or max(shape, default=0) >= 1 << 63:
        raise BadValue(f"a shape of {len(shape)} dimensions", f"at most {MAX_DIMENSIONS}, each below 2**63")
    return np.dtype(name).newbyteorder("<"), shape


def to_npy(array: NDArray[Any]) -> bytes:
    """Returns an array as a .npy file of version 1.0. Raises BadValue."""
    stored = little_endian(array)
    if stored.nbytes > MAX_DATA_BYTES:
        raise BadValue(f"an array of {stored.nbytes} bytes", f"at most {MAX_DATA_BYTES} bytes")
    file = io.BytesIO()
    np.lib.format.write_array(file, stored, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def from_npy(data: bytes) -> NDArray[Any]:
    """Returns the array of a .npy file of version 1.0, as a view of its bytes. Raises BadValue.

    Only the header is parsed; the bytes after it must be as many as the shape needs.
    """
    if len(data) > MAX_DATA_BYTES + _NPY_HEADER_BYTES:
        raise BadValue(f"an array of {len(data)} bytes", f"at most {MAX_DATA_BYTES} bytes")
    file = io.BytesIO(data[:_NPY_HEADER_BYTES])
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("another version than 1.0")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file, max_header_size=_NPY_HEADER_BYTES)
    except (ValueError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError) as damaged:
        raise BadValue(f"an array whose header can't be read: {cut(str(damaged))}", "a .npy file") from None
    if dtype.name not in DTYPES or fortran or dtype.newbyteorder("<") != dtype:
        raise BadValue(f"an array of {cut(str(dtype))}", "numbers, little endian, in C order")
    return _shaped(memoryview(data)[file.tell() :], dtype, shape)


def _shaped(raw: bytes | memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise BadValue(
            f"{len(raw)} bytes for an array of {cut(str(list(shape)))}", "as many as its shape needs"
        )
    try:
        return np.frombuffer(raw, dtype).reshape(shape)
    except (ValueError, OverflowError):
        raise BadValue(f"a shape of {len(shape)} dimensions", "a shape that numpy has") from None


def statistics(array: NDArray[Any]) -> ArrayStatistics:
    """Returns facts about an array; nothing overflows, whatever its values are."""
    counts, finite, least, greatest = [0, 0, 0], 0, math.inf, -math.inf
    for block in _blocks(array):
        good = block[np.isfinite(block)]
        if good.size < block.size:
            nan, positive = int(np.isnan(block).sum()), int(np.isposinf(block).sum())
            counts = [
                counts[0] + nan,
                counts[1] + positive,
                counts[2] + block.size - good.size - nan - positive,
            ]
        if good.size:
            finite += good.size
            least, greatest = min(least, float(good.min())), max(greatest, float(good.max()))
    if not finite:
        return ArrayStatistics(None, None, None, None, *counts)
    exponent = _exponent(least, greatest)
    seen, mean, squares = 0, 0.0, 0.0
    for block in _finite_blocks(array, exponent):
        # Means and squares of two parts joined: Chan, Golub and LeVeque 1979.
        average = float(block.mean())
        joined, apart = seen + block.size, average - mean
        squares += float(np.square(block - average).sum()) + apart * apart * seen * block.size / joined
        mean += apart * block.size / joined
        seen = joined
    # Rounding must not bring them over their bounds, where scaling back could overflow.
    low, high = math.ldexp(least, -exponent), math.ldexp(greatest, -exponent)
    mean = min(max(mean, low), high)
    std = min(math.sqrt(squares / seen), (high - low) / 2)
    return ArrayStatistics(least, greatest, math.ldexp(mean, exponent), math.ldexp(std, exponent), *counts)


def histogram(array: NDArray[Any], buckets: int = MAX_BUCKETS) -> Histogram:
    """Returns the histogram of an array's finite values, in equally wide buckets from least to greatest.

    There is one bucket if all values are equal, none if none is finite.
    """
    facts = statistics(array)
    counted = (facts.nan, facts.positive_inf, facts.negative_inf)
    if facts.minimum is None or facts.maximum is None or facts.mean is None:
        return Histogram([], [], [], None, None, None, *counted)
    least, greatest = facts.minimum, facts.maximum
    finite = array.size - sum(counted)
    exponent = _exponent(least, greatest)
    low, high = math.ldexp(least, -exponent), math.ldexp(greatest, -exponent)
    edges = np.unique(np.linspace(low, high, buckets + 1)) if low < high else np.array([low, low])
    counts = np.zeros(len(edges) - 1)
    if low < high:
        for block in _finite_blocks(array, exponent):
            counts += np.histogram(block, edges)[0]
    else:
        counts[0] = finite
    limits = np.ldexp(edges, exponent)
    limits[0], limits[-1] = least, greatest
    total = facts.mean * finite
    return Histogram(
        limits[:-1].tolist(), limits[1:].tolist(), counts.tolist(), least, greatest, total, *counted
    )


def _exponent(least: float, greatest: float) -> int:
    """Returns the power of two that brings all values between -1 and 1: so no square overflows."""
    return math.frexp(max(abs(least), abs(greatest)))[1]


def _blocks(array: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
    flat = array.reshape(-1)
    for at in range(0, flat.size, _BLOCK):
        yield flat[at : at + _BLOCK].astype(np.float64)


def _finite_blocks(array: NDArray[Any], exponent: int) -> Iterator[NDArray[np.float64]]:
    for block in _blocks(array):
        good = block[np.isfinite(block)]
        if good.size:
            yield np.ldexp(good, -exponent)
