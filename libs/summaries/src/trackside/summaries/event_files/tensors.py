"""Tensors of event files as arrays of numpy."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.summaries.event_files.protos.mindspore_pb2 import Tensor as MindSporeTensor
from trackside.summaries.event_files.protos.tensorboard_pb2 import Tensor as TensorBoardTensor


class BadTensor(ValueError):
    """A tensor whose type is not known, or whose content doesn't fit its shape."""


_TENSORFLOW_TYPES = {
    1: ("<f4", "float_val"),
    2: ("<f8", "double_val"),
    3: ("<i4", "int_val"),
    4: ("<u1", "int_val"),
    5: ("<i2", "int_val"),
    6: ("<i1", "int_val"),
    9: ("<i8", "int64_val"),
    10: ("|b1", "bool_val"),
    14: ("bfloat16", "half_val"),
    17: ("<u2", "int_val"),
    19: ("<f2", "half_val"),
    22: ("<u4", "uint32_val"),
    23: ("<u8", "uint64_val"),
}
"""DataType of TensorFlow's types.proto: numpy's name of the type, the field of its values."""

STRING = 7
"""DT_STRING of TensorFlow."""

_MINDSPORE_TYPES = {
    1: ("|b1", "int32_data"),
    2: ("<i1", "int32_data"),
    3: ("<i2", "int32_data"),
    4: ("<i4", "int32_data"),
    5: ("<i8", "int64_data"),
    6: ("<u1", "int32_data"),
    7: ("<u2", "int32_data"),
    8: ("<u4", "uint64_data"),
    9: ("<u8", "uint64_data"),
    10: ("<f2", "float_data"),
    11: ("<f4", "float_data"),
    12: ("<f8", "double_data"),
}
"""DataType of MindSpore's anf_ir.proto."""


def of_tensorboard(tensor: TensorBoardTensor) -> NDArray[Any]:
    """Returns the numbers of a tensor of TensorFlow; a bfloat16 becomes a float32. Raises BadTensor."""
    if tensor.dtype not in _TENSORFLOW_TYPES:
        raise BadTensor(f"data type {tensor.dtype} of TensorFlow is not known")
    name, values_of = _TENSORFLOW_TYPES[tensor.dtype]
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    half = name in ("bfloat16", "<f2")
    stored = np.dtype("<u2" if name == "bfloat16" else name)
    if tensor.tensor_content:
        array = _raw(tensor.tensor_content, stored)
    else:
        values: Sequence[Any] = getattr(tensor, values_of)
        array = _listed(values, shape, np.dtype("<u2") if half else stored)
        array = array.view("<f2") if name == "<f2" else array
    if name == "bfloat16":
        array = (array.astype("<u4") << 16).view("<f4")
    return _shaped(array, shape)


def of_mindspore(tensor: MindSporeTensor) -> NDArray[Any]:
    """Returns the numbers of a tensor of MindSpore. Raises BadTensor."""
    if tensor.data_type not in _MINDSPORE_TYPES:
        raise BadTensor(f"data type {tensor.data_type} of MindSpore is not known")
    name, values_of = _MINDSPORE_TYPES[tensor.data_type]
    shape = list(tensor.dims)
    if tensor.raw_data:
        return _shaped(_raw(tensor.raw_data, np.dtype(name)), shape)
    # MindSpore writes the floats of any width to `float_data`.
    values: Sequence[Any] = getattr(tensor, values_of) or tensor.float_data
    return _shaped(np.array(values).astype(name), shape)


def to_tensorboard(array: NDArray[Any]) -> TensorBoardTensor:
    """Returns an array as a tensor of TensorFlow, its content in one piece. Raises BadTensor."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    for number, (name, _) in _TENSORFLOW_TYPES.items():
        if name != "bfloat16" and np.dtype(name) == little.dtype:
            tensor = TensorBoardTensor(dtype=number, tensor_content=little.tobytes())
            for size in array.shape:
                tensor.tensor_shape.dim.add(size=size)
            return tensor
    raise BadTensor(f"an array of {array.dtype} has no type of TensorFlow's")


def _raw(content: bytes, stored: np.dtype[Any]) -> NDArray[Any]:
    if len(content) % stored.itemsize:
        raise BadTensor(f"{len(content)} bytes are no row of values of {stored.itemsize} bytes each")
    return np.frombuffer(content, stored)


def _listed(values: Sequence[Any], shape: list[int], stored: np.dtype[Any]) -> NDArray[Any]:
    """Values one by one. TensorFlow leaves out the last ones where they repeat (tensor_util.MakeNdarray)."""
    array = np.array(values).astype(stored)
    count = _count(shape)
    if 0 < array.size < count <= _LARGEST_REPEATED:
        return np.concatenate([array, np.full(count - array.size, array[-1], stored)])
    return array


_LARGEST_REPEATED = 10_000_000
"""Values that a tensor of fewer ones is filled up to: a record of some bytes may not ask for all memory."""


def _shaped(array: NDArray[Any], shape: list[int]) -> NDArray[Any]:
    if any(size < 0 for size in shape) or _count(shape) != array.size:
        raise BadTensor(f"{array.size} values don't fit the shape {shape}")
    return array.reshape(shape)


def _count(shape: list[int]) -> int:
    return math.prod(shape)
