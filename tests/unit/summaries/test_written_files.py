from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from tests.unit.summaries.tensorboard_files import (
    items_of,
    scalars_of_tensorboard,
    values_of_tensorboard,
    whole,
)
from trackside.summaries.event_files import writing
from trackside.summaries.event_files.values import Graph, GraphNode, Histogram, HParams


def written(folder: Path, *records: bytes) -> Path:
    path = folder / "events.out.tfevents.1"
    path.write_bytes(b"".join([writing.first_record(0), *records]))
    return path


def test_a_histogram_keeps_its_first_left_edge(tmp_path: Path) -> None:
    """S14: files have right edges only."""
    histogram = Histogram([1.0, 2.0], [2.0, 4.0], [3, 5], 1.5, 3.5, 20.0, sum_squares=60.0)
    path = written(tmp_path, writing.record("weights", 1, 1000, histogram))
    (value,) = [each for each in values_of_tensorboard(path) if each.tag == "weights"]
    assert list(value.histo.bucket_limit) == [1.0, 2.0, 4.0]
    assert list(value.histo.bucket) == [0, 3, 5]
    assert (value.histo.sum, value.histo.sum_squares, value.histo.num) == (20.0, 60.0, 8)
    (item,) = items_of(whole(path))
    assert item.value.left == [1.0, 1.0, 2.0] and item.value.right == [1.0, 2.0, 3.5]


def test_scalars_as_tensors_and_graphs_are_those_to_tensorboard(tmp_path: Path) -> None:
    graph = Graph([GraphNode("x", "Placeholder", [], []), GraphNode("y", "Relu", ["x"], ["z"], "cpu:0")])
    exact = writing.tensor_scalar("exact", 1, 1000, 0.1, double=True)
    scalars = (writing.tensor_scalar("loss", 1, 1000, 0.1), exact)
    path = written(tmp_path, *scalars, writing.graph_record(0, 1000, graph))
    points = scalars_of_tensorboard(path)
    assert points["loss"] == [(1, 1000, float(np.float32(0.1)))]
    assert points["exact"] == [(1, 1000, 0.1)]
    found = EventAccumulator(str(path))
    found.Reload()
    nodes = [(node.name, node.op, list(node.input)) for node in found.Graph().node]
    assert nodes == [("x", "Placeholder", []), ("y", "Relu", ["x", "^z"])]
    (item,) = items_of(whole(path))
    assert item.value == graph


def test_hyper_parameters_are_those_of_the_plug_in(tmp_path: Path) -> None:
    given = HParams({"rate": 0.1, "name": "adam", "amsgrad": True, "none": None}, ["loss"], "g", "succeeded")
    path = written(tmp_path, writing.hparams_records(3, 5000, given, {"rate": [0.1, 0.2]}))
    read, values = plugin_data_pb2.HParamsPluginData.FromString, values_of_tensorboard(path)
    content = {value.tag: read(value.metadata.plugin_data.content) for value in values}
    experiment = content["_hparams_/experiment"].experiment
    kinds = {info.name: info.type for info in experiment.hparam_infos}
    assert kinds == {"rate": 3, "name": 1, "amsgrad": 2}
    assert [each.number_value for each in experiment.hparam_infos[0].domain_discrete.values] == [0.1, 0.2]
    assert [info.name.tag for info in experiment.metric_infos] == ["loss"]
    start = content["_hparams_/session_start_info"].session_start_info
    assert (start.group_name, start.start_time_secs) == ("g", 5.0)
    assert content["_hparams_/session_end_info"].session_end_info.status == 1
    values = [item.value for item in items_of(whole(path))]
    assert [each.metrics for each in values] == [["loss"], [], []]
    assert values[1].values == {"rate": 0.1, "name": "adam", "amsgrad": True}
    assert [each.status for each in values] == [None, "running", "succeeded"]


def test_a_session_that_starts_purges_what_follows_its_step(tmp_path: Path) -> None:
    """S17: TensorBoard drops the steps from that of the start on."""
    records = [writing.record("loss", step, 1000, 1.0) for step in range(5)]
    path = written(tmp_path, *records, writing.session_start(3, 2000), writing.record("loss", 3, 3000, 2.0))
    found = EventAccumulator(str(path))
    found.Reload()
    assert [(event.step, event.value) for event in found.Scalars("loss")] == [
        (0, 1.0), (1, 1.0), (2, 1.0), (3, 2.0),
    ]  # fmt: skip
    segments = [segment.starts_session for piece in whole(path) for segment in piece.decoded.segments]
    assert segments == [False, True]
