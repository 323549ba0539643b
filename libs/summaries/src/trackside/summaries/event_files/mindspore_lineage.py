"""Decodes records of MindSpore's lineage files: what a training was given, and what it has led to.

Hyper-parameters, datasets, the model, metrics of evaluations and what users added become hyper-parameters, so
that jobs can be searched by them. They have the names that MindInsight's filters have: `learning_rate`,
`metric/accuracy`, `user_defined/version`.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from trackside.summaries.event_files.milliseconds import milliseconds
from trackside.summaries.event_files.protos.mindspore_pb2 import (
    DatasetGraph,
    EvaluationLineage,
    LineageEvent,
    Operation,
    OperationParameter,
    TrainLineage,
    UserDefinedInfo,
)
from trackside.summaries.event_files.values import (
    Decoded,
    Graph,
    GraphNode,
    HParams,
    Kind,
    SummaryItem,
    SummaryValue,
    TextRows,
)

TRAIN_TAG, EVALUATION_TAG, USER_TAG = "lineage/train", "lineage/evaluation", "lineage/user_defined"
DATASET_TAG = "lineage/dataset"
"""The tag of a dataset's pipeline: its operations as a graph, and as JSON with their parameters in a text."""
MAX_OPERATIONS = 10_000
"""How many operations of a pipeline are read; the others are left out."""

_Values = dict[str, str | float | bool | None]


class LineageDecoder:
    """Decodes the records of one file in their order; each record stands by itself."""

    def learn(self, bodies: Sequence[bytes]) -> None:
        """Remembers nothing: a record names its kind."""

    def decode(self, bodies: Sequence[bytes]) -> tuple[Decoded, int]:
        """Returns what the records hold, and how many were decoded: not all if one is no lineage."""
        decoded = Decoded()
        for number, body in enumerate(bodies):
            try:
                event = LineageEvent.FromString(body)
            except DecodeError:
                return decoded, number
            for kind, tag, value in _values(event):
                item = SummaryItem(kind, tag, event.step, milliseconds(event.wall_time), value)
                decoded.segments[-1].items.append(item)
        return decoded, len(bodies)


def _values(event: LineageEvent) -> Iterator[tuple[Kind, str, SummaryValue]]:
    """Yields kind, tag and value of what a record holds."""
    match event.WhichOneof("what"):
        case "train_lineage":
            yield "hparams", TRAIN_TAG, HParams(_train(event.train_lineage))
        case "evaluation_lineage":
            yield "hparams", EVALUATION_TAG, HParams(_evaluation(event.evaluation_lineage))
        case "user_defined_info":
            yield "hparams", USER_TAG, HParams(dict(_user_defined(event.user_defined_info, "user_defined")))
        case "dataset_graph":
            nodes: list[GraphNode] = []
            _add_nodes(event.dataset_graph, nodes)
            yield "graph", DATASET_TAG, Graph(nodes)
            yield "text", DATASET_TAG, TextRows([json.dumps(_pipeline(event.dataset_graph))])


def _train(lineage: TrainLineage) -> _Values:
    found: _Values = {}
    for part, names in (
        (lineage.hyper_parameters, {}),
        (lineage.train_dataset, {"train_dataset_size": "train_dataset_count"}),
        (lineage.algorithm, {}),
        (lineage.model, {"path": "model_path", "size": "model_size"}),
    ):
        for described, value in part.ListFields():
            found[names.get(described.name, described.name)] = _plain(value, described.type)
    return found


def _evaluation(lineage: EvaluationLineage) -> _Values:
    names = {"valid_dataset_path": "test_dataset_path", "valid_dataset_size": "test_dataset_count"}
    found: _Values = {names[each.name]: value for each, value in lineage.valid_dataset.ListFields()}
    try:
        metrics = json.loads(lineage.metric) if lineage.metric else {}
    except (ValueError, RecursionError):
        metrics = {"": lineage.metric}
    if not isinstance(metrics, Mapping):
        metrics = {"": lineage.metric}
    for name, value in metrics.items():
        plain = value is None or isinstance(value, str | bool | int | float)
        found[f"metric/{name}"] = value if plain else json.dumps(value)
    return found


def _user_defined(given: UserDefinedInfo, prefix: str) -> Iterator[tuple[str, str | float]]:
    """Yields names and values, those within others as `a/b`."""
    for values in (given.map_int32, given.map_str, given.map_double):
        for name, value in values.items():
            yield f"{prefix}/{name}", value
    for name, inner in given.map_dict.items():
        yield from _user_defined(inner, f"{prefix}/{name}")
    for inner in given.user_info:
        yield from _user_defined(inner, prefix)


def _plain(value: Any, kind: int) -> Any:
    """Returns a value; a float of 32 bits as the shortest number that is it: 0.1, not 0.10000000149."""
    return float(str(np.float32(value))) if kind == _FLOAT_32 and math.isfinite(value) else value


_FLOAT_32 = TrainLineage.Algorithm.DESCRIPTOR.fields_by_name["loss"].type


def _add_nodes(dataset: DatasetGraph, nodes: list[GraphNode]) -> str:
    """Adds the operations of a pipeline, each after those that it reads from; returns the last one's name."""
    inputs = [_add_nodes(child, nodes) for child in dataset.children if len(nodes) < MAX_OPERATIONS]
    op = dataset.parameter.map_str.get("op_type", "dataset")
    name = f"{op}-{len(nodes)}"
    nodes.append(GraphNode(name, op, inputs, []))
    steps = [(step, "operation") for step in dataset.operations]
    steps += [(dataset.sampler, "sampler")] if dataset.HasField("sampler") else []
    for number, (step, kind) in enumerate(steps[: max(0, MAX_OPERATIONS - len(nodes))]):
        given = step.operation_param.map_str
        step_op = given.get("tensor_op_name") or given.get("sampler_name") or given.get("op_type") or kind
        nodes.append(GraphNode(f"{name}/{step_op}-{number}", step_op, [name], []))
    return name


def _pipeline(dataset: DatasetGraph) -> dict[str, Any]:
    """Returns a pipeline with all parameters, as JSON: `children` are those that it reads from."""
    found = _parameters(dataset.parameter)
    if dataset.operations:
        found["operations"] = [_operation(step) for step in dataset.operations]
    if dataset.HasField("sampler"):
        found["sampler"] = _operation(dataset.sampler)
    if dataset.children:
        found["children"] = [_pipeline(child) for child in dataset.children]
    return found


def _operation(step: Operation) -> dict[str, Any]:
    found = _parameters(step.operation_param)
    if step.size:
        found["size"] = list(step.size)
    if step.weights:
        found["weights"] = [_plain(weight, _FLOAT_32) for weight in step.weights]
    return found


def _parameters(given: OperationParameter) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for values in (given.map_str, given.map_bool, given.map_int, given.map_double):
        found.update(values)
    found.update({name: list(texts.str_value) for name, texts in given.map_str_list.items()})
    return found
