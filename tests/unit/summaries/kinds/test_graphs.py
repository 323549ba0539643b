"""S21: the nodes of a graph by parent, by search, or all."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.summaries.kinds.values import GRAPHS
from trackside.summaries.event_files.values import Graph, GraphNode
from trackside.summaries.kinds import graph_tree
from trackside.summaries.kinds.graph_tree import MAX_NODES, GraphEntry, GraphTree
from trackside.summaries.kinds.kind import ReadRefused


def node(name: str, op: str = "") -> GraphNode:
    return GraphNode(name, op, [], [])


OPERATORS = {
    "input": "Placeholder",
    "model/dense": "MatMul",
    "model/dense/kernel": "Variable",
    "model/dense/bias": "Variable",
    "model/Relu": "Relu",
    "loss": "Mean",
}
MODEL = Graph([node(name, op) for name, op in OPERATORS.items()])


def seen(entries: list[GraphEntry]) -> list[tuple[str, str, str | None, int, int]]:
    return [(it.path, it.name, it.node.op if it.node else None, it.children, it.nodes) for it in entries]


def test_a_scope_has_its_nodes_and_scopes_with_their_counts() -> None:
    tree = GraphTree(MODEL)
    leaves = [("input", "input", "Placeholder", 0, 0), ("loss", "loss", "Mean", 0, 0)]
    assert seen(tree.children().entries) == [leaves[0], ("model", "model", None, 2, 4), leaves[1]]
    dense, relu = ("model/dense", "dense", "MatMul", 2, 2), ("model/Relu", "Relu", "Relu", 0, 0)
    assert seen(tree.children("model").entries) == [dense, relu]
    below = [entry.path for entry in tree.children("model/dense").entries]
    assert below == ["model/dense/kernel", "model/dense/bias"]
    assert tree.children("loss").entries == []


@pytest.mark.parametrize("parent", ["modell", "model/dense/kernel/x", "x" * 10_000])
def test_a_scope_that_the_graph_does_not_have_is_refused(parent: str) -> None:
    with pytest.raises(ReadRefused, match="expected the path of a node or scope of the graph") as refused:
        GraphTree(MODEL).children(parent)
    assert len(str(refused.value)) < 300


@pytest.mark.thorough
def test_a_search_finds_a_text_in_any_case_and_a_read_over_the_limit_is_refused() -> None:
    page = GraphTree(MODEL).search("DENSE")
    assert [entry.path for entry in page.entries] == ["model/dense", "model/dense/kernel", "model/dense/bias"]
    assert (page.entries[0].children, page.total) == (2, 3)
    assert GraphTree(MODEL).search("dense", limit=1).total == 3
    assert GraphTree(MODEL).search("absent").entries == []
    large = GraphTree(Graph([node(f"layer{at}", "Relu") for at in range(MAX_NODES + 1)]))
    with pytest.raises(ReadRefused, match="a graph of 100,001 nodes; expected at most 100,000"):
        large.all()
    page = large.children()
    assert (len(page.entries), page.total) == (MAX_NODES, MAX_NODES + 1)
    assert len(large.search("layer", limit=7).entries) == 7
    with pytest.raises(ReadRefused, match="a limit of 100001; expected 1 to 100,000"):
        large.search("layer", limit=MAX_NODES + 1)


@pytest.mark.thorough
@given(GRAPHS)
def test_every_node_is_found_below_its_parents(graph: Graph) -> None:
    tree = GraphTree(graph)
    assert [entry.node for entry in tree.all().entries] == graph.nodes
    found: list[GraphNode] = []
    waiting = [""]
    while waiting:
        for entry in tree.children(waiting.pop()).entries:
            found += [entry.node] if entry.node else []
            waiting += [entry.path] if entry.children else []
    unnamed = [one for one in graph.nodes if not one.name.strip("/")]
    assert sorted(map(repr, [*found, *unnamed])) == sorted(map(repr, graph.nodes))
    assert sum(entry.nodes + (entry.node is not None) for entry in tree.children().entries) == len(found)


def test_scopes_deep_within_each_other_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = GraphTree(Graph([node("/".join(["a"] * 5_000) + f"/{at}") for at in range(50)]))
    path, levels = "", 0
    while (entries := deep.children(path).entries) and entries[0].children:
        path, levels = entries[0].path, levels + 1
    assert levels == graph_tree.MAX_DEPTH - 1
    monkeypatch.setattr(graph_tree, "MAX_SCOPES", 1_000)
    with pytest.raises(ReadRefused, match="a graph of too many scopes; expected at most 1,000"):
        GraphTree(Graph([node(f"{at}/b/c") for at in range(400)]))


@given(st.text(), st.text())
def test_any_text_is_a_parent_or_a_search_or_refused(name: str, text: str) -> None:
    tree = GraphTree(Graph([node(name)]))
    tree.search(text)
    with contextlib.suppress(ReadRefused):
        tree.children(text)
