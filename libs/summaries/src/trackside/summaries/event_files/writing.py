"""Writes event files that TensorBoard reads."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.summaries.event_files import tensors
from trackside.summaries.event_files.framing import frame
from trackside.summaries.event_files.protos.tensorboard_pb2 import Event, Summary, SummaryMetadata
from trackside.summaries.event_files.protos.tensorboard_pb2 import Histogram as HistogramProto
from trackside.summaries.event_files.tensorboard import FILE_VERSION
from trackside.summaries.event_files.values import Histogram, Image, TextRows

WritableValue = float | Histogram | Image | TextRows | NDArray[Any]
"""The values that can be written."""


def first_record(time_ms: int) -> bytes:
    """Returns the record that a file begins with."""
    return frame(Event(wall_time=time_ms / 1000, file_version=FILE_VERSION).SerializeToString())


def record(tag: str, step: int, time_ms: int, value: WritableValue) -> bytes:
    """Returns one value as a record. Raises BadTensor for an array of no type of TensorFlow's."""
    summary = Summary(value=[_value(tag, value)])
    return frame(Event(wall_time=time_ms / 1000, step=step, summary=summary).SerializeToString())


def _value(tag: str, value: WritableValue) -> Summary.Value:
    match value:
        case Histogram():
            return Summary.Value(tag=tag, histo=_histogram(value))
        case Image(data, width, height):
            image = Summary.Image(width=width, height=height, colorspace=3, encoded_image_string=data)
            return Summary.Value(tag=tag, image=image)
        case TextRows(texts, shape):
            written = Summary.Value(tag=tag, metadata=_of_plugin("text"))
            written.tensor.dtype = tensors.STRING
            written.tensor.string_val.extend(text.encode() for text in texts)
            for size in shape or (1,):
                written.tensor.tensor_shape.dim.add(size=size)
            return written
        case np.ndarray():
            return Summary.Value(tag=tag, tensor=tensors.to_tensorboard(value))
        case _:
            return Summary.Value(tag=tag, simple_value=value)


def _of_plugin(name: str) -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name))


def _histogram(histogram: Histogram) -> HistogramProto:
    """Returns a histogram of limits and counts; a gap between two buckets becomes an empty one."""
    limits: list[float] = []
    counts: list[float] = []
    for left, right, count in zip(histogram.left, histogram.right, histogram.counts, strict=True):
        if limits and left > limits[-1]:
            limits.append(left)
            counts.append(0)
        limits.append(right)
        counts.append(count)
    least = histogram.minimum if histogram.minimum is not None else (histogram.left or [math.nan])[0]
    greatest = histogram.maximum if histogram.maximum is not None else (histogram.right or [math.nan])[-1]
    return HistogramProto(
        min=least,
        max=greatest,
        num=sum(counts),
        sum=histogram.total or 0.0,
        bucket_limit=limits,
        bucket=counts,
    )
