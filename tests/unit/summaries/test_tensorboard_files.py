import math
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.plugins.image.metadata import create_summary_metadata as image_metadata
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboard.util import tensor_util

from tests.unit.summaries.tensorboard_files import (
    items_of,
    only_file,
    same,
    scalars_of,
    scalars_of_tensorboard,
    values_of_tensorboard,
    whole,
)
from trackside.summaries.event_files import writing
from trackside.summaries.event_files.values import Graph, GraphNode, Histogram, HParams, Image, TextRows

NUMBERS = [0.0, -1.5, 1e38, 1e-45, math.nan, math.inf, -math.inf, 3.1415927]
STEPS = [-5, 0, 0, 3, 2, 2**53 + 1, 2**62, 7]


@pytest.mark.parametrize("library", ["torch.utils.tensorboard", "tensorboardX"])
def test_scalars_of_other_writers_are_read_point_for_point(tmp_path: Path, library: str) -> None:
    writer = pytest.importorskip(library).SummaryWriter(str(tmp_path))
    new: dict[str, bool] = {"new_style": True} if library.startswith("torch") else {}
    for step, number in zip(STEPS, NUMBERS, strict=True):
        writer.add_scalar("loss", number, step, walltime=1e9 + step % 1000 / 7)
        writer.add_scalar("Größe/学習率\n", number, step, walltime=0.0, **new)
    writer.close()
    path = only_file(tmp_path)
    found = scalars_of(whole(path))
    assert [len(points) for points in found.values()] == [len(NUMBERS)] * 2
    assert same(found, scalars_of_tensorboard(path))


def test_the_plugin_of_a_tag_is_remembered_from_its_first_record(tmp_path: Path) -> None:
    """A writer of TensorFlow 1 leaves the metadata out of all records of a tag but the first."""
    writer = EventFileWriter(str(tmp_path))
    for step in range(5):
        value = scalar_pb("loss", step / 2).value[0]
        if step:
            value.ClearField("metadata")
        writer.add_event(Event(step=step, wall_time=step, summary=Summary(value=[value])))
    writer.close()
    path = only_file(tmp_path)
    assert scalars_of(whole(path)) == {"loss": [(n, n * 1000, n / 2) for n in range(5)]}
    assert same(scalars_of(whole(path)), scalars_of_tensorboard(path))


def test_histograms_pictures_texts_and_hyper_parameters_of_torch_are_read(tmp_path: Path) -> None:
    of_torch = pytest.importorskip("torch.utils.tensorboard").SummaryWriter
    torch_writer = of_torch(tmp_path)
    torch_writer.add_histogram("weights", np.arange(100.0), 4)
    torch_writer.add_image("picture", np.zeros((3, 4, 6), np.uint8), 5)
    torch_writer.add_text("note", "*bold* <b>", 6)
    torch_writer.close()
    of_run = of_torch(tmp_path / "runs")
    of_run.add_hparams({"lr": 0.1, "adam": True, "name": "x"}, {"accuracy": 0.5}, run_name="run")
    of_run.close()
    found = {item.kind: item for item in items_of(whole(only_file(tmp_path)))}
    histogram, picture, note = (found[kind] for kind in ("histogram", "image", "text"))
    theirs = {value.tag: value for value in values_of_tensorboard(only_file(tmp_path))}
    assert sum(histogram.value.counts) == theirs["weights"].histo.num == 100
    assert (histogram.value.minimum, histogram.value.maximum) == (0.0, 99.0)
    assert histogram.value.left[0] == 0.0 and histogram.value.right[-1] == 99.0
    assert histogram.value.right[:-1] == list(theirs["weights"].histo.bucket_limit)[:-1]
    assert picture.value == Image(theirs["picture"].image.encoded_image_string, 6, 4) and picture.step == 5
    assert (note.tag, note.value) == ("note/text_summary", TextRows(["*bold* <b>"], (1,)))
    told = [item.value for item in items_of(whole(only_file(tmp_path / "runs" / "run")))]
    assert HParams(metrics=["accuracy"]) in told and HParams(status="succeeded") in told
    assert {"lr": 0.1, "adam": True, "name": "x"} in [each.values for each in told]


def test_histograms_and_pictures_of_tensorflow_2_are_read(tmp_path: Path) -> None:
    pictures = tensor_util.make_tensor_proto([b"6", b"4", b"\x89PNG 1", b"\x89PNG 2"], dtype=np.object_)
    metadata = image_metadata(None, None, converted_to_tensor=True)
    image = Summary(value=[Summary.Value(tag="pictures", tensor=pictures, metadata=metadata)])
    histogram = histogram_pb("weights", np.arange(10.0), buckets=5)
    writer = EventFileWriter(str(tmp_path))
    for summary in (histogram, image):
        writer.add_event(Event(step=3, wall_time=1.0, summary=summary))
    writer.close()
    items = items_of(whole(only_file(tmp_path)))
    assert [(item.kind, item.index) for item in items] == [("histogram", 0), ("image", 0), ("image", 1)]
    rows = tensor_util.make_ndarray(histogram.value[0].tensor)
    found = items[0].value
    assert np.array_equal(np.column_stack([found.left, found.right, found.counts]), rows)
    assert sum(found.counts) == 10
    assert [item.value for item in items[1:]] == [Image(b"\x89PNG 1", 6, 4), Image(b"\x89PNG 2", 6, 4)]


def test_a_session_start_begins_a_segment_and_a_kind_nobody_knows_is_counted(tmp_path: Path) -> None:
    writer = EventFileWriter(str(tmp_path))
    start = SessionLog(status=SessionLog.START)
    writer.add_event(Event(step=0, session_log=start))
    writer.add_event(Event(step=8, summary=Summary(value=[Summary.Value(tag="loss", simple_value=1)])))
    writer.add_event(Event(step=5, session_log=start))
    writer.add_event(Event(step=5, summary=Summary(value=[Summary.Value(tag="loss", simple_value=2)])))
    sound = Summary.Value(tag="sound", audio=Summary.Audio())
    writer.add_event(Event(step=6, summary=Summary(value=[sound])))
    writer.close()
    (piece,) = whole(only_file(tmp_path))
    assert [segment.starts_session for segment in piece.decoded.segments] == [True, True]
    assert [segment.scalars["loss"].steps for segment in piece.decoded.segments] == [[8], [5]]
    assert piece.decoded.unknown == {"audio": 1}


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
