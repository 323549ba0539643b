"""S22: what MindSpore's lineage files say of a job, under the names that MindInsight's filters have."""

import json
from io import BytesIO

from trackside.summaries.event_files.framing import frame
from trackside.summaries.event_files.mindspore_lineage import DATASET_TAG, LineageDecoder
from trackside.summaries.event_files.protos.mindspore_pb2 import (
    DatasetGraph,
    EvaluationLineage,
    LineageEvent,
    Operation,
    OperationParameter,
    TrainLineage,
    UserDefinedInfo,
)
from trackside.summaries.event_files.reading import read_from
from trackside.summaries.event_files.values import Graph, HParams, SummaryItem, TextRows

VERSION = LineageEvent(wall_time=1.0, version="MindSpore.Event:1")
TRAIN = TrainLineage(
    hyper_parameters=TrainLineage.HyperParameters(optimizer="Momentum", learning_rate=0.1, epoch=0),
    train_dataset=TrainLineage.TrainDataset(train_dataset_path="/data/train", train_dataset_size=60_000),
    algorithm=TrainLineage.Algorithm(network="LeNet5", loss=2.302),
    model=TrainLineage.SavedModel(path="/models/lenet.ckpt", size=2**40),
)


def items_of(*events: LineageEvent) -> list[SummaryItem]:
    file = BytesIO(b"".join(frame(event.SerializeToString()) for event in (VERSION, *events)))
    pieces = list(read_from(file, 0, LineageDecoder()))
    assert [piece.problem for piece in pieces] == [None]
    return [item for piece in pieces for segment in piece.decoded.segments for item in segment.items]


def values_of(*events: LineageEvent) -> dict[str, object]:
    found: dict[str, object] = {}
    for item in items_of(*events):
        assert isinstance(item.value, HParams)
        found.update(item.value.values)
    return found


def test_a_training_has_its_hyper_parameters_its_dataset_and_its_model() -> None:
    event = LineageEvent(wall_time=2.0, step=3, train_lineage=TRAIN)
    said = {"optimizer": "Momentum", "learning_rate": 0.1, "epoch": 0, "network": "LeNet5", "loss": 2.302}
    dataset = {"train_dataset_path": "/data/train", "train_dataset_count": 60_000}
    assert values_of(event) == {
        **said, **dataset, "model_path": "/models/lenet.ckpt", "model_size": 2**40
    }  # fmt: skip
    (item,) = items_of(event)
    assert (item.kind, item.tag, item.step, item.time_ms) == ("hparams", "lineage/train", 3, 2_000)


def test_what_users_add_has_its_path_as_its_name_and_an_evaluation_its_metrics() -> None:
    inner = UserDefinedInfo(map_double={"rate": 0.5})
    info = UserDefinedInfo(map_str={"version": "v1"}, map_int32={"seed": 7}, map_dict={"deep": inner})
    added = {"user_defined/version": "v1", "user_defined/seed": 7, "user_defined/deep/rate": 0.5}
    assert values_of(LineageEvent(user_defined_info=UserDefinedInfo(user_info=[info]))) == added
    dataset = EvaluationLineage.ValidDataset(valid_dataset_path="/data/test", valid_dataset_size=10_000)
    lineage = EvaluationLineage(metric='{"accuracy": 0.98, "by class": [1, 2]}', valid_dataset=dataset)
    tested = {"test_dataset_path": "/data/test", "test_dataset_count": 10_000}
    metrics = {"metric/accuracy": 0.98, "metric/by class": "[1, 2]"}
    assert values_of(LineageEvent(evaluation_lineage=lineage)) == {**tested, **metrics}
    for metric in ("0.98 or so", "[1]", "[" * 100_000):
        lineage = EvaluationLineage(metric=metric)
        assert values_of(LineageEvent(evaluation_lineage=lineage)) == {"metric/": metric}


def test_the_pipeline_of_a_dataset_is_a_graph_and_a_text_with_all_parameters() -> None:
    source = DatasetGraph(
        parameter=OperationParameter(map_str={"op_type": "MnistDataset", "dataset_dir": "/data"}),
        sampler=Operation(operation_param=OperationParameter(map_str={"sampler_name": "RandomSampler"})),
    )
    named = OperationParameter(map_str={"tensor_op_name": "Resize"})
    resize = Operation(operation_param=named, size=[32, 32], weights=[0.1])
    strings = {"columns": OperationParameter.Strings(str_value=["image", "label"])}
    batch = DatasetGraph(
        parameter=OperationParameter(
            map_str={"op_type": "BatchDataset"}, map_int={"batch_size": 32}, map_str_list=strings
        ),
        operations=[resize],
        children=[source],
    )
    graph, text = items_of(LineageEvent(dataset_graph=batch))
    assert isinstance(graph.value, Graph)
    assert [(node.name, node.op, node.inputs) for node in graph.value.nodes] == [
        ("MnistDataset-0", "MnistDataset", []),
        ("MnistDataset-0/RandomSampler-0", "RandomSampler", ["MnistDataset-0"]),
        ("BatchDataset-2", "BatchDataset", ["MnistDataset-0"]),
        ("BatchDataset-2/Resize-0", "Resize", ["BatchDataset-2"]),
    ]
    assert isinstance(text.value, TextRows)
    assert (text.kind, text.tag) == ("text", DATASET_TAG)
    assert json.loads(text.value.texts[0]) == {
        "op_type": "BatchDataset",
        "batch_size": 32,
        "columns": ["image", "label"],
        "operations": [{"tensor_op_name": "Resize", "size": [32, 32], "weights": [0.1]}],
        "children": [
            {"op_type": "MnistDataset", "dataset_dir": "/data", "sampler": {"sampler_name": "RandomSampler"}}
        ],
    }


def test_reading_stops_at_a_record_that_is_no_lineage_and_goes_on_from_any_other() -> None:
    first, good = frame(VERSION.SerializeToString()), LineageEvent(train_lineage=TRAIN).SerializeToString()
    file = BytesIO(first + frame(good) + frame(b"\xff\xff\xff"))
    (piece,) = read_from(file, 0, LineageDecoder())
    assert (piece.problem, piece.records, piece.end) == ("not_an_event", 2, len(file.getvalue()) - 19)
    (piece,) = read_from(BytesIO(first + frame(good)), len(first), LineageDecoder())
    assert [item.tag for item in piece.decoded.segments[0].items] == ["lineage/train"]
