"""Writes event files that TensorBoard reads."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.summaries.event_files import tensors
from trackside.summaries.event_files.framing import frame
from trackside.summaries.event_files.protos.tensorboard_pb2 import (
    Event,
    Experiment,
    GraphDef,
    HParamsPluginData,
    NodeDef,
    SessionEndInfo,
    SessionLog,
    SessionStartInfo,
    Summary,
    SummaryMetadata,
)
from trackside.summaries.event_files.protos.tensorboard_pb2 import Histogram as HistogramProto
from trackside.summaries.event_files.tensorboard import FILE_VERSION
from trackside.summaries.event_files.values import Graph, Histogram, HParams, Image, TextRows

WritableValue = float | Histogram | Image | TextRows | NDArray[Any]
"""The values that one record of a tag can hold."""

PlainHParam = str | float | bool | None
"""A hyper-parameter as the hparams plug-in has it."""

_STATUS = {"succeeded": 1, "failed": 2, "running": 3}
_STRING, _BOOL, _FLOAT64 = 1, 2, 3
"""DataType of the hparams plug-in."""


def first_record(time_ms: int) -> bytes:
    """Returns the record that a file begins with."""
    return frame(Event(wall_time=time_ms / 1000, file_version=FILE_VERSION).SerializeToString())


def record(tag: str, step: int, time_ms: int, value: WritableValue) -> bytes:
    """Returns one value as a record. Raises BadTensor for an array of no type of TensorFlow's."""
    summary = Summary(value=[_value(tag, value)])
    return frame(Event(wall_time=time_ms / 1000, step=step, summary=summary).SerializeToString())


def session_start(step: int, time_ms: int) -> bytes:
    """Returns the record after which steps from `step` on replace the earlier ones."""
    log = SessionLog(status=SessionLog.START)
    return frame(Event(wall_time=time_ms / 1000, step=step, session_log=log).SerializeToString())


def tensor_scalar(tag: str, step: int, time_ms: int, value: float, double: bool = False) -> bytes:
    """Returns a scalar as a record of the scalars plug-in: a tensor of 32 bits, or of 64 if `double`."""
    written = Summary.Value(tag=tag, metadata=_of_plugin("scalars"))
    number = np.float64(value) if double else np.float32(value)
    written.tensor.CopyFrom(tensors.to_tensorboard(np.asarray(number)))
    summary = Summary(value=[written])
    return frame(Event(wall_time=time_ms / 1000, step=step, summary=summary).SerializeToString())


def graph_record(step: int, time_ms: int, graph: Graph) -> bytes:
    """Returns a graph as a record. Files hold no tag for it: TensorBoard shows one per run."""
    nodes = [
        NodeDef(
            name=node.name,
            op=node.op,
            device=node.device,
            input=[*node.inputs, *(f"^{name}" for name in node.control_inputs)],
        )
        for node in graph.nodes
    ]
    data = GraphDef(node=nodes).SerializeToString()
    return frame(Event(wall_time=time_ms / 1000, step=step, graph_def=data).SerializeToString())


def hparams_records(
    step: int,
    time_ms: int,
    hparams: HParams,
    domains: Mapping[str, Sequence[PlainHParam]] | None = None,
) -> bytes:
    """Returns the records of the hparams plug-in: what the experiment has, the values, and the status.

    `domains` are the values that a hyper-parameter may have, by its name. A status is written if the run is
    over. None as a value is left out: the plug-in shows an empty cell for it.
    """
    experiment = Experiment()
    start = SessionStartInfo(group_name=hparams.group, start_time_secs=time_ms / 1000)
    for name, value in hparams.values.items():
        if value is None:
            continue
        info = experiment.hparam_infos.add(name=name, type=_hparam_type(value))
        _set_hparam(start.hparams[name], value)
        for each in (domains or {}).get(name, ()):
            _set_hparam(info.domain_discrete.values.add(), each)
    for tag in hparams.metrics:
        experiment.metric_infos.add().name.tag = tag
    parts = [
        ("experiment", HParamsPluginData(experiment=experiment)),
        ("session_start_info", HParamsPluginData(session_start_info=start)),
    ]
    if hparams.status in ("succeeded", "failed"):
        end = SessionEndInfo(status=_STATUS[hparams.status], end_time_secs=time_ms / 1000)
        parts.append(("session_end_info", HParamsPluginData(session_end_info=end)))
    octets = b""
    for name, data in parts:
        metadata = _of_plugin("hparams", data.SerializeToString())
        summary = Summary(value=[Summary.Value(tag=f"_hparams_/{name}", metadata=metadata)])
        octets += frame(Event(wall_time=time_ms / 1000, step=step, summary=summary).SerializeToString())
    return octets


def _hparam_type(value: PlainHParam) -> int:
    if isinstance(value, bool):
        return _BOOL
    return _STRING if isinstance(value, str) else _FLOAT64


def _set_hparam(target: Any, value: PlainHParam) -> None:
    """Sets a Value of protobuf's struct.proto."""
    if isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, str):
        target.string_value = value
    elif value is not None:
        target.number_value = value


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


def _of_plugin(name: str, content: bytes = b"") -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content))


def _histogram(histogram: Histogram) -> HistogramProto:
    """Returns a histogram of limits and counts; a gap between two buckets becomes an empty one.

    Files hold right edges only. Where the first bucket doesn't begin at the least value, an empty bucket
    before it keeps its left edge.
    """
    limits: list[float] = []
    counts: list[float] = []
    for left, right, count in zip(histogram.left, histogram.right, histogram.counts, strict=True):
        if left > limits[-1] if limits else left not in (histogram.minimum, right):
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
        sum_squares=histogram.sum_squares or 0.0,
        bucket_limit=limits,
        bucket=counts,
    )
