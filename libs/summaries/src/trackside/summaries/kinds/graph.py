"""The kinds graph and optimized graph: the operations of a computation."""

from trackside.summaries.event_files.values import Graph, GraphNode
from trackside.summaries.kinds.bodies import (
    pack_json,
    to_integer,
    to_list,
    to_object,
    to_text,
    to_texts,
    unpack_json,
)
from trackside.summaries.kinds.graph_tree import GraphEntry, GraphTree
from trackside.summaries.kinds.kind import Body, Packed, SummaryKind
from trackside.summaries.kinds.text_lines import clip, counted

TOP_SCOPES = 100
"""Scopes at the top that the body of a graph has."""
SCOPE_CHARACTERS = 100
SHOWN_DEPTH = 3
"""Levels of a graph that are shown in a terminal, each with at most SHOWN_CHILDREN of a scope."""
SHOWN_CHILDREN = 12


def pack(graph: Graph) -> Packed:
    """Returns a graph as it is stored. Raises BadValue.

    The body has `nodes`, how many they are, and `scopes`: name and number of nodes of the first ones at the
    top.
    """
    scopes: dict[str, int] = {}
    for node in graph.nodes:
        name = clip(node.name.strip("/").partition("/")[0], SCOPE_CHARACTERS)
        if name in scopes or len(scopes) < TOP_SCOPES:
            scopes[name] = scopes.get(name, 0) + 1
    top = [{"name": name, "nodes": count} for name, count in scopes.items()]
    return pack_json({"nodes": len(graph.nodes), "scopes": top}, [_encode(node) for node in graph.nodes])


def unpack(body: Body, data: bytes | None) -> Graph:
    """Returns the graph. Raises BadValue."""
    return Graph([_decode(value) for value in to_list(unpack_json(body, data), "a graph")])


def lines(body: Body, width: int) -> list[str]:
    """Returns the number of nodes and a tree of scopes and nodes; of a large graph only the top."""
    nodes = to_integer(body.get("nodes"), "the number of nodes")
    found = [counted(nodes, "node")]
    if "value" in body:
        found += _branches(GraphTree(unpack(body, None)), "", 1)
    else:
        for scope in to_list(body.get("scopes"), "the scopes of a graph"):
            name = to_text(to_object(scope, "a scope").get("name"), "the name of a scope")
            found.append(f"  {name} ({counted(to_integer(scope.get('nodes'), 'nodes of a scope'), 'node')})")
    return [clip(line, width) for line in found]


def _branches(tree: GraphTree, parent: str, depth: int) -> list[str]:
    page = tree.children(parent)
    found = []
    for entry in page.entries[:SHOWN_CHILDREN]:
        found.append("  " * depth + _shown(entry))
        if entry.children and depth < SHOWN_DEPTH:
            found += _branches(tree, entry.path, depth + 1)
    if page.total > SHOWN_CHILDREN:
        found.append("  " * depth + f"... {page.total - SHOWN_CHILDREN:,} more")
    return found


def _shown(entry: GraphEntry) -> str:
    op = f" [{entry.node.op}]" if entry.node and entry.node.op else ""
    return entry.name + op + (f" ({counted(entry.nodes, 'node')})" if entry.nodes else "")


def _encode(node: GraphNode) -> Body:
    """Returns a node as JSON; what is empty is left out."""
    every = {
        "op": node.op,
        "inputs": node.inputs,
        "control_inputs": node.control_inputs,
        "device": node.device,
    }
    return {"name": node.name, **{name: value for name, value in every.items() if value}}


def _decode(value: object) -> GraphNode:
    found = to_object(value, "a node")
    return GraphNode(
        to_text(found.get("name"), "the name of a node"),
        to_text(found.get("op", ""), "the operation of a node"),
        to_texts(found.get("inputs", []), "the inputs of a node"),
        to_texts(found.get("control_inputs", []), "the control inputs of a node"),
        to_text(found.get("device", ""), "the device of a node"),
    )


GRAPH = SummaryKind("graph", page_size=1, pack=pack, unpack=unpack, lines=lines)
OPTIMIZED_GRAPH = SummaryKind("optimized_graph", page_size=1, pack=pack, unpack=unpack, lines=lines)
