"""The kind tensor: an array of numbers, and the parts of it that are read."""

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.summaries.kinds import arrays, histogram
from trackside.summaries.kinds.arrays import NPY_TYPE, ArrayStatistics
from trackside.summaries.kinds.bodies import (
    INLINE_BYTES,
    JSON_TYPE,
    cut,
    is_inline,
    number,
    to_float,
    to_integer,
    to_list,
    to_object,
)
from trackside.summaries.kinds.kind import BadValue, Body, Packed, ReadRefused, SummaryKind
from trackside.summaries.kinds.text_lines import clip, counted

FIRST_VALUES = 10
"""Values that the body of a tensor has of its beginning."""
MAX_SLICE_VALUES = 100_000
"""Values that one read returns."""
MAX_TENSOR_VALUES = 10_000_000
"""Values of a tensor of which slices are read."""

_INDEX = re.compile(r"-?\d{1,18}")
_RANGE = re.compile(r"(-?\d{1,18})?\s*:\s*(-?\d{1,18})?")


def pack(array: NDArray[Any]) -> Packed:
    """Returns a tensor as it is stored; as an artifact it is a .npy file.

    The body has `dtype` (numpy's name), `shape`, `statistics`, `histogram` and `first`, its first values.
    Raises BadValue for an array of other things than numbers, and for one of more than MAX_DATA_BYTES.
    """
    stored = arrays.little_endian(array)
    body: Body = {
        "dtype": stored.dtype.name,
        "shape": list(stored.shape),
        "statistics": _encode_statistics(arrays.statistics(stored)),
        "histogram": histogram.encode(arrays.histogram(stored)),
        "first": [_plain(value) for value in stored.reshape(-1)[:FIRST_VALUES].tolist()],
    }
    if stored.nbytes < INLINE_BYTES:
        inline = {**body, "value": arrays.encode(stored)}
        if is_inline(inline):
            return Packed(inline, None, JSON_TYPE)
    return Packed(body, arrays.to_npy(stored), NPY_TYPE)


def unpack(body: Body, data: bytes | None) -> NDArray[Any]:
    """Returns the tensor. Raises BadValue, also if the data have another type or shape than the body."""
    if data is None:
        if "value" not in body:
            raise BadValue("a body that only describes its value", "the value, or its data")
        return arrays.decode(body["value"])
    dtype, shape = arrays.stored_type(body)
    array = arrays.from_npy(data)
    if (array.dtype, array.shape) != (dtype, shape):
        raise BadValue(
            f"an array of {array.dtype.name} {list(array.shape)}",
            f"{dtype.name} {list(shape)}, as its body has",
        )
    return array


def lines(body: Body, width: int) -> list[str]:
    """Returns type and shape, statistics, a bar for each bucket of the histogram, and the first values."""
    dtype, shape = arrays.stored_type(body)
    facts = decode_statistics(body.get("statistics"))
    found = [f"{dtype.name} {list(shape)}, {counted(math.prod(shape), 'value')}"]
    if facts.minimum is not None:
        pairs = (("min", facts.minimum), ("max", facts.maximum), ("mean", facts.mean), ("std", facts.std))
        found.append("  ".join(f"{name} {value:.5g}" for name, value in pairs if value is not None))
    special = ((facts.nan, "NaN"), (facts.positive_inf, "Inf"), (facts.negative_inf, "-Inf"))
    if any(count for count, _ in special):
        found.append("  ".join(f"{count:,} {name}" for count, name in special if count))
    found += histogram.chart(histogram.decode(body.get("histogram")), width)
    first = [_shown(value) for value in to_list(body.get("first"), "the first values of a tensor")]
    if first:
        more = ", ..." if len(first) < math.prod(shape) else ""
        found.append(f"[{', '.join(first)}{more}]")
    return [clip(line, width) for line in found]


def slice_of(array: NDArray[Any], dims: str) -> NDArray[Any]:
    """Returns the part of a tensor that a text such as `[0, :, 2:5]` selects, as a view.

    There is an index or a range for each dimension; both count from the end with a minus. A range may exceed
    the dimension, an index may not. Raises ReadRefused for another text, for more than MAX_SLICE_VALUES
    values, and for a tensor of more than MAX_TENSOR_VALUES.
    """
    if array.size > MAX_TENSOR_VALUES:
        raise ReadRefused(f"a tensor of {array.size:,} values", f"at most {MAX_TENSOR_VALUES:,}")
    text = dims.strip()
    if not (text.startswith("[") and text.endswith("]")) or len(text) > 1_000:
        raise ReadRefused(f"dims {cut(dims)}", "an index or a range for each dimension, such as [0, :, 2:5]")
    parts = [part.strip() for part in text[1:-1].split(",")] if text[1:-1].strip() else []
    if len(parts) != array.ndim:
        raise ReadRefused(
            f"dims {cut(dims)} of {counted(len(parts), 'dimension')}",
            f"{array.ndim}, as the tensor's shape {list(array.shape)} has",
        )
    chosen = tuple(_part(part, size) for part, size in zip(parts, array.shape, strict=True))
    selected: NDArray[Any] = np.asarray(array[chosen])
    if selected.size > MAX_SLICE_VALUES:
        raise ReadRefused(f"a slice of {selected.size:,} values", f"at most {MAX_SLICE_VALUES:,}")
    return selected


def _part(part: str, size: int) -> int | slice:
    if _INDEX.fullmatch(part):
        index = int(part)
        if not -size <= index < size:
            raise ReadRefused(f"the index {index}", f"an index of a dimension of size {size}")
        return index
    if matched := _RANGE.fullmatch(part):
        start, stop = (None if bound is None else int(bound) for bound in matched.groups())
        return slice(start, stop)
    raise ReadRefused(f"the dimension {cut(part)}", "an index such as 0, or a range such as 2:5 or :")


def json_values(array: NDArray[Any]) -> Any:
    """Returns an array as nested JSON lists, NaN and infinities as "nan", "inf" and "-inf"."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return array.tolist()
    flat = np.empty(array.size, dtype=object)
    flat[:] = [number(value) for value in array.reshape(-1).tolist()]
    return flat.reshape(array.shape).tolist()


def decode_statistics(value: object) -> ArrayStatistics:
    """Returns the statistics in the body of a tensor. Raises BadValue."""
    found = to_object(value, "the statistics of a tensor")
    facts = [
        None if found.get(name) is None else to_float(found[name], f"the {name} of a tensor")
        for name in ("minimum", "maximum", "mean", "std")
    ]
    counts = [to_integer(found.get(name, 0), name) for name in ("nan", "positive_inf", "negative_inf")]
    return ArrayStatistics(facts[0], facts[1], facts[2], facts[3], counts[0], counts[1], counts[2])


def _encode_statistics(facts: ArrayStatistics) -> Body:
    return {
        "minimum": facts.minimum,
        "maximum": facts.maximum,
        "mean": facts.mean,
        "std": facts.std,
        "nan": facts.nan,
        "positive_inf": facts.positive_inf,
        "negative_inf": facts.negative_inf,
    }


def _plain(value: float) -> float | str:
    return number(value) if isinstance(value, float) else value


def _shown(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else clip(value, 30)


TENSOR = SummaryKind("tensor", page_size=20, pack=pack, unpack=unpack, lines=lines)
