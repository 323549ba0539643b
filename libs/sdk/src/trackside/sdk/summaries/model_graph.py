"""The graph of a model of torch, as it is traced with an input."""

import sys
import warnings
from typing import Any

from trackside.summaries.event_files.values import Graph, GraphNode

_ATTRIBUTE = "prim::GetAttr"
_PREFIX = "__module."


def graph_of(model: Any, inputs: Any, verbose: bool, strict: bool) -> Graph:
    """Returns the operations of a model of torch; a node is named by the modules that it is in.

    The model is traced in evaluation mode, which it leaves again. Raises TypeError for another object, and
    what torch raises for a model that can't be traced.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(model, "named_modules"):
        raise TypeError(f"add_graph: expected a model of torch, got {type(model).__name__}")
    was_training = model.training
    model.train(False)
    try:
        with warnings.catch_warnings():
            # It is deprecated, and still the one that gives a graph without loss of names.
            warnings.simplefilter("ignore", FutureWarning)
            traced = torch.jit.trace(model, inputs, strict=strict).inlined_graph
    finally:
        model.train(was_training)
    if verbose:
        sys.stdout.write(f"{traced}\n")
    return _Reader(model).read(traced)


class _Reader:
    """Names the nodes of one traced graph. `names` are those of the nodes by the values that they give."""

    def __init__(self, model: Any) -> None:
        self._root = type(model).__name__
        self._labels = {
            _PREFIX + path: f"{type(module).__name__}[{path.rpartition('.')[2]}]"
            for path, module in model.named_modules()
            if path
        }
        self._attributes: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._nodes: list[GraphNode] = []

    def read(self, traced: Any) -> Graph:
        for value in traced.inputs():
            if value.type().kind() != "ClassType" and value.uses():
                name = f"input/{value.debugName()}"
                self._names[value.debugName()] = name
                self._nodes.append(GraphNode(name, "IO Node", [], []))
        for node in traced.nodes():
            self._read_node(node)
        for number, value in enumerate(traced.outputs(), 1):
            inputs = self._inputs([value])
            self._nodes.append(GraphNode(f"output/output.{number}", "IO Node", inputs, []))
        return Graph(self._nodes)

    def _read_node(self, node: Any) -> None:
        outputs = [value.debugName() for value in node.outputs()]
        if node.kind() == _ATTRIBUTE:
            parent = self._attributes.get(next(iter(node.inputs())).debugName(), "")
            path = self._attributes[outputs[0]] = f"{parent}.{node.s('name')}" if parent else node.s("name")
            if node.output().type().kind() == "ClassType":
                return  # a module: the names of what is in it have it
            scope = self._scope([_PREFIX + part for part in _paths(path.rpartition(".")[0])])
        else:
            scope = self._scope(node.scopeName().split("/"))
        name = f"{scope}/{outputs[0] if outputs else f'{node.kind()}.{len(self._nodes)}'}"
        self._names |= dict.fromkeys(outputs, name)
        self._nodes.append(GraphNode(name, node.kind(), self._inputs(node.inputs()), []))

    def _inputs(self, values: Any) -> list[str]:
        named = (self._names.get(value.debugName()) for value in values)
        return [name for name in named if name is not None]

    def _scope(self, parts: list[str]) -> str:
        labels = [self._labels.get(part, part.rpartition(".")[2]) for part in parts if part]
        return "/".join([self._root, *labels])


def _paths(path: str) -> list[str]:
    """Returns the modules above and at a path: of "a.b" these are "a" and "a.b"."""
    parts = path.split(".") if path else []
    return [".".join(parts[: number + 1]) for number in range(len(parts))]
