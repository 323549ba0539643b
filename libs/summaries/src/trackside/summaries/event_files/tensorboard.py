"""Decodes records of TensorBoard's event files, those of TensorFlow 1 and 2, torch and tensorboardX."""

import struct
from collections.abc import Callable, Sequence

import numpy as np
from google.protobuf.message import DecodeError

from trackside.summaries.event_files import tensors
from trackside.summaries.event_files.milliseconds import milliseconds
from trackside.summaries.event_files.protos.tensorboard_pb2 import (
    Event,
    GraphDef,
    HParamsPluginData,
    SessionLog,
    Summary,
)
from trackside.summaries.event_files.restarts import MAX_TAGS, RestartCounter
from trackside.summaries.event_files.simple_scalars import SimpleScalars
from trackside.summaries.event_files.values import (
    Decoded,
    Graph,
    GraphNode,
    Histogram,
    HParams,
    Image,
    Kind,
    Status,
    SummaryItem,
    SummaryValue,
    TextRows,
)

VERSION_PREFIX = "brain.Event:"
"""How the version begins that the first record of a file calls itself."""
FILE_VERSION = f"{VERSION_PREFIX}2"
"""The version that is written."""

_FLOAT = 1
_LITTLE_FLOAT = struct.Struct("<f")
_STATUS: dict[int, Status] = {1: "succeeded", 2: "failed", 3: "running"}


class TensorBoardDecoder:
    """Decodes the records of one file in their order.

    A writer may name the plug-in of a tag in the first record of the tag only, and restarts are counted from
    the first record on. So a decoder that goes on in the middle of a file must have decoded those before.
    """

    def __init__(self) -> None:
        self.plugins: dict[str, str] = {}
        self._restarts = RestartCounter()
        self._simple = SimpleScalars()

    def decode(self, bodies: Sequence[bytes]) -> tuple[Decoded, int]:
        """Returns what the records hold, and how many were decoded: not all if one is no event."""
        decoded, count = self._decode(bodies)
        self._restarts.count(decoded)
        return decoded, count

    def _decode(self, bodies: Sequence[bytes]) -> tuple[Decoded, int]:
        decoded = Decoded()
        number = 0
        while (number := self._simple.take(bodies, number)) < len(bodies):
            try:
                event = Event.FromString(bodies[number])
            except DecodeError:
                break
            self._add_event(decoded, event)
            number += 1
        self._simple.flush(decoded.segments[-1])
        return decoded, number

    def _add_event(self, decoded: Decoded, event: Event) -> None:
        """Adds a record that needs the parser."""
        what = event.WhichOneof("what")
        if what == "summary":
            time_ms, step = milliseconds(event.wall_time), event.step
            for value in event.summary.value:
                if value.WhichOneof("value") == "simple_value":
                    self._add_point(decoded, value.tag, step, time_ms, value.simple_value)
                    self._simple.learn(value.tag)
                else:
                    self._add(decoded, value, step, time_ms)
        elif what is not None:
            self._simple.flush(decoded.segments[-1])
            _add_event(decoded, event, what)

    def _add_point(self, decoded: Decoded, tag: str, step: int, time_ms: int, value: float) -> None:
        segment = decoded.segments[-1]
        self._simple.flush(segment)  # the points of a tag are in the order of the file
        segment.add_point(tag, step, time_ms, value)

    def _add(self, decoded: Decoded, value: Summary.Value, step: int, time_ms: int) -> None:
        """Adds a value that is no simple one: of a plug-in, or of a field of its own."""
        plugin = value.metadata.plugin_data.plugin_name
        if plugin:
            if len(self.plugins) < MAX_TAGS or value.tag in self.plugins:
                self.plugins[value.tag] = plugin
        else:
            plugin = self.plugins.get(value.tag, "")
        field = value.WhichOneof("value")
        segment = decoded.segments[-1]
        try:
            if plugin == "scalars" and field == "tensor":
                self._add_point(decoded, value.tag, step, time_ms, _number(value))
                return
            items = _values(value, plugin, field or "")
        except (tensors.BadTensor, DecodeError, ValueError):
            decoded.skip(f"{plugin or field}, damaged")
            return
        if items is None:
            decoded.skip(plugin or field or "empty value")
            return
        kind, tag, held = items
        first = _hparams_part(value) if kind == "hparams" else 0
        segment.items += (
            SummaryItem(kind, tag, step, time_ms, each, index) for index, each in enumerate(held, first)
        )


def _add_event(decoded: Decoded, event: Event, what: str) -> None:
    """Adds an event that is no summary."""
    if what == "session_log":
        if event.session_log.status == SessionLog.START:
            decoded.start_session()
    elif what == "graph_def":
        try:
            graph = _graph(event.graph_def)
        except DecodeError:
            decoded.skip("graph_def, damaged")
            return
        item = SummaryItem("graph", "graph", event.step, milliseconds(event.wall_time), graph)
        decoded.segments[-1].items.append(item)
    elif what in ("tagged_run_metadata", "meta_graph_def"):
        decoded.skip(what)


def _values(value: Summary.Value, plugin: str, field: str) -> tuple[Kind, str, Sequence[SummaryValue]] | None:
    """Returns the values of a summary, or None where no kind stands for it."""
    if plugin == "hparams":
        return "hparams", "hparams", [_hparams(value.metadata.plugin_data.content)]
    if field == "histo":
        return "histogram", value.tag, [_histogram(value)]
    if field == "image":
        image = value.image
        return "image", value.tag, [Image(image.encoded_image_string, image.width, image.height)]
    if field != "tensor" or plugin in _NOT_KINDS:
        return None
    of_plugin = _OF_PLUGIN.get(plugin)
    if of_plugin is not None:
        kind, held = of_plugin
        return kind, value.tag, held(value)
    if value.tensor.dtype == tensors.STRING:
        return None
    return "tensor", value.tag, [tensors.of_tensorboard(value.tensor)]


def _number(value: Summary.Value) -> float:
    """Returns the number of a scalar that is a tensor."""
    tensor = value.tensor
    if tensor.dtype == _FLOAT and len(tensor.tensor_content) == 4:
        return float(_LITTLE_FLOAT.unpack(tensor.tensor_content)[0])
    if tensor.dtype == _FLOAT and len(tensor.float_val) == 1:
        return float(tensor.float_val[0])
    array = tensors.of_tensorboard(tensor)
    if array.size != 1:
        raise tensors.BadTensor(f"a scalar has one value, not {array.size}")
    return float(array.reshape(()))


def _histogram(value: Summary.Value) -> Histogram:
    """Returns a histogram of a record of its own: right edges, counts, and the least and greatest value."""
    histogram = value.histo
    right, counts = list(histogram.bucket_limit), list(histogram.bucket)
    if len(right) != len(counts):
        raise ValueError(f"{len(counts)} buckets have {len(right)} limits")
    # The first bucket has no left edge in the file, and the last one may end at the largest float.
    left = [min(histogram.min, right[0]), *right[:-1]] if right else []
    if right and right[-1] > histogram.max >= left[-1]:
        right[-1] = histogram.max
    return Histogram(left, right, counts, histogram.min, histogram.max, histogram.sum)


def _histograms(value: Summary.Value) -> list[Histogram]:
    """Returns a histogram of the plug-in: rows of left edge, right edge, count."""
    rows = tensors.of_tensorboard(value.tensor)
    if rows.size == 0:
        return [Histogram([], [], [])]
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise tensors.BadTensor(f"a histogram has rows of 3 values, not the shape {list(rows.shape)}")
    left, right, counts = rows.astype(np.float64).T.tolist()
    return [Histogram(left, right, counts, left[0], right[-1])]


def _images(value: Summary.Value) -> list[Image]:
    """Returns the pictures of the plug-in: width, height, and the encoded pictures, all of them as texts."""
    texts = list(value.tensor.string_val)
    if len(texts) < 2:
        raise tensors.BadTensor(f"pictures have a width and a height first, not {len(texts)} values")
    width, height = int(texts[0]), int(texts[1])
    return [Image(data, width, height) for data in texts[2:]]


def _texts(value: Summary.Value) -> list[TextRows]:
    texts = [text.decode("utf-8", "replace") for text in value.tensor.string_val]
    return [TextRows(texts, tuple(dim.size for dim in value.tensor.tensor_shape.dim))]


def _graph(data: bytes) -> Graph:
    """Returns the nodes of a GraphDef. An input is "name", "name:output" or "^name" (control)."""
    nodes = []
    for node in GraphDef.FromString(data).node:
        inputs = [name.rsplit(":", 1)[0] for name in node.input if not name.startswith("^")]
        control = [name[1:] for name in node.input if name.startswith("^")]
        nodes.append(GraphNode(node.name, node.op, inputs, control, node.device))
    return Graph(nodes)


def _hparams(content: bytes) -> HParams:
    """Returns what one record of the plug-in says: the values, the metrics, or how the run ended."""
    data = HParamsPluginData.FromString(content)
    what = data.WhichOneof("data")
    if what == "experiment":
        return HParams(metrics=[info.name.tag for info in data.experiment.metric_infos])
    if what == "session_end_info":
        status = _STATUS.get(data.session_end_info.status)
        return HParams(status=status)
    start = data.session_start_info
    values = {}
    for name, value in start.hparams.items():
        kind = value.WhichOneof("kind")
        values[name] = None if kind in _NOT_PLAIN or kind is None else getattr(value, kind)
    return HParams(values, group=start.group_name, status="running")


def _hparams_part(value: Summary.Value) -> int:
    """Returns the index of what a record of the plug-in says: a run writes up to three, all with step 0."""
    data = HParamsPluginData.FromString(value.metadata.plugin_data.content)
    return _HPARAMS_PARTS.get(data.WhichOneof("data") or "", 1)


_HPARAMS_PARTS = {"experiment": 0, "session_start_info": 1, "session_end_info": 2}
_NOT_PLAIN = frozenset({"null_value", "struct_value", "list_value"})
_OF_PLUGIN: dict[str, tuple[Kind, Callable[[Summary.Value], Sequence[SummaryValue]]]] = {
    "histograms": ("histogram", _histograms),
    "images": ("image", _images),
    "text": ("text", _texts),
}
_NOT_KINDS = frozenset({"audio", "pr_curves", "mesh", "custom_scalars", "projector", "graph_run_metadata"})
