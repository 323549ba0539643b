"""Decodes records of MindSpore's summary files, and its graph files."""

from collections.abc import Sequence

from google.protobuf.message import DecodeError

from trackside.summaries.event_files import tensors
from trackside.summaries.event_files.milliseconds import milliseconds
from trackside.summaries.event_files.protos import mindspore_pb2
from trackside.summaries.event_files.protos.mindspore_pb2 import Event, Model, Summary
from trackside.summaries.event_files.restarts import RestartCounter
from trackside.summaries.event_files.values import (
    Decoded,
    Graph,
    GraphNode,
    Histogram,
    Image,
    Kind,
    LossLandscape,
    SummaryItem,
    SummaryValue,
)

VERSION_PREFIX = "MindSpore.Event:"
"""How the version begins that the first record of a file calls itself."""

_CONTROL_EDGE = 1


class MindSporeDecoder:
    """Decodes the records of one file in their order."""

    def __init__(self) -> None:
        self._restarts = RestartCounter()

    def decode(self, bodies: Sequence[bytes]) -> tuple[Decoded, int]:
        """Returns what the records hold, and how many were decoded: not all if one is no event."""
        decoded, count = self._decode(bodies)
        self._restarts.count(decoded)
        return decoded, count

    def _decode(self, bodies: Sequence[bytes]) -> tuple[Decoded, int]:
        decoded = Decoded()
        segment = decoded.segments[-1]
        for number, body in enumerate(bodies):
            try:
                event = Event.FromString(body)
            except DecodeError:
                return decoded, number
            time_ms, what = milliseconds(event.wall_time), event.WhichOneof("what")
            if what == "graph_def":
                segment.items.append(
                    SummaryItem("graph", "graph", event.step, time_ms, _graph(event.graph_def))
                )
            elif what == "explain":
                decoded.skip("explain")
            for value in event.summary.value:
                if value.WhichOneof("value") == "scalar_value":
                    segment.add_point(value.tag, event.step, time_ms, value.scalar_value)
                else:
                    _add(decoded, value, event.step, time_ms)
        return decoded, len(bodies)


def graph_of_file(data: bytes) -> Graph:
    """Returns the graph of a `.pb` file. Raises ValueError where the bytes are no model."""
    try:
        return _graph(Model.FromString(data).graph)
    except DecodeError as damaged:
        raise ValueError(f"no model of MindSpore: {damaged}") from None


def _add(decoded: Decoded, value: Summary.Value, step: int, time_ms: int) -> None:
    """Adds a value that is no scalar."""
    try:
        found = _value(value)
    except ValueError:
        decoded.skip(f"{value.WhichOneof('value')}, damaged")
        return
    if found is None:
        decoded.skip("empty value")
        return
    kind, held = found
    decoded.segments[-1].items.append(SummaryItem(kind, value.tag, step, time_ms, held))


def _value(value: Summary.Value) -> tuple[Kind, SummaryValue] | None:
    """Returns kind and value of a summary. Raises ValueError where it is damaged."""
    match value.WhichOneof("value"):
        case "image":
            return "image", Image(value.image.encoded_image, value.image.width, value.image.height)
        case "tensor":
            return "tensor", tensors.of_mindspore(value.tensor)
        case "histogram":
            return "histogram", _histogram(value.histogram)
        case "loss_landscape":
            return "loss_landscape", _loss_landscape(value.loss_landscape)
        case _:
            return None


def _histogram(histogram: Summary.Histogram) -> Histogram:
    buckets = histogram.buckets
    return Histogram(
        [bucket.left for bucket in buckets],
        [bucket.left + bucket.width for bucket in buckets],
        [float(bucket.count) for bucket in buckets],
        histogram.min if histogram.HasField("min") else None,
        histogram.max if histogram.HasField("max") else None,
        histogram.sum if histogram.HasField("sum") else None,
        histogram.nan_count,
        histogram.pos_inf_count,
        histogram.neg_inf_count,
    )


def _loss_landscape(landscape: mindspore_pb2.LossLandscape) -> LossLandscape:
    surface, path, end = landscape.landscape, landscape.loss_path, landscape.convergence_point
    metadata = landscape.metadata
    has_surface = landscape.HasField("landscape")
    points = path.points
    return LossLandscape(
        x=tensors.of_mindspore(surface.x).astype(float) if has_surface else None,
        y=tensors.of_mindspore(surface.y).astype(float) if has_surface else None,
        z=tensors.of_mindspore(surface.z).astype(float) if has_surface else None,
        path=(list(path.intervals), _row(points.x), _row(points.y), _row(points.z))
        if landscape.HasField("loss_path")
        else None,
        converged=(_row(end.x)[0], _row(end.y)[0], _row(end.z)[0])
        if landscape.HasField("convergence_point")
        else None,
        decomposition=metadata.decomposition,
        unit=metadata.unit,
        steps_per_epoch=metadata.step_per_epoch if metadata.HasField("step_per_epoch") else None,
    )


def _row(tensor: mindspore_pb2.Tensor) -> list[float]:
    """Returns the numbers of a tensor in a row. Raises BadTensor where it has none."""
    row: list[float] = tensors.of_mindspore(tensor).astype(float).ravel().tolist()
    if not row:
        raise tensors.BadTensor("a point of a loss landscape has no coordinate")
    return row


def _graph(graph: mindspore_pb2.Graph) -> Graph:
    """Returns the nodes of a graph: operations by their full names, parameters and constants.

    An input names the node by its number in the graph, so the numbers are replaced by names.
    """
    path_of = {node.name: node.full_name or f"{node.scope}/{node.op_type}{node.name}" for node in graph.node}
    path_of |= {constant.key: constant.full_name or constant.key for constant in graph.const_vals}
    nodes = [GraphNode(parameter.name, "Parameter", [], []) for parameter in graph.parameters]
    nodes += [GraphNode(path_of[constant.key], "Const", [], []) for constant in graph.const_vals]
    for node in graph.node:
        data = [path_of.get(i.name, i.name) for i in node.input if i.type != _CONTROL_EDGE]
        control = [path_of.get(i.name, i.name) for i in node.input if i.type == _CONTROL_EDGE]
        nodes.append(GraphNode(path_of[node.name], node.op_type, data, control))
    return Graph(nodes)
