"""The nodes of a graph by scope: the parts of their names between slashes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from trackside.summaries.event_files.values import Graph, GraphNode
from trackside.summaries.kinds.kind import ReadRefused

MAX_NODES = 100_000
"""Nodes that one read returns."""
MAX_DEPTH = 100
"""Scopes within each other; what a name has below the last is one part."""
MAX_SCOPES = 1_000_000
"""Scopes of a graph whose tree is built; they need about 400 bytes each."""


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """A node or a scope of a graph.

    `path` is its full name, `name` the last part of it. `node` is None for what is only a scope. `children`
    counts the nodes and scopes directly below it, `nodes` all nodes below it.
    """

    path: str
    name: str
    node: GraphNode | None
    children: int
    nodes: int


@dataclass(frozen=True, slots=True)
class GraphPage:
    """Entries of a graph; `total` is how many there are without a limit."""

    entries: list[GraphEntry]
    total: int


@dataclass(slots=True)
class _Scope:
    scopes: dict[str, "_Scope"] = field(default_factory=dict)
    nodes: list[GraphNode] = field(default_factory=list)
    """The nodes that have the name of this scope; more than one only in a damaged graph."""
    below: int = 0


class GraphTree:
    """The scopes of a graph, built once; reads are then fast.

    Empty parts of a name don't count: `a//b` is in the scope `a`. Raises ReadRefused for a graph of more than
    MAX_SCOPES scopes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._root = _Scope()
        scopes = 0
        for node in graph.nodes:
            scope = self._root
            for part in _parts(node.name):
                scope.below += 1
                inner = scope.scopes.get(part)
                if inner is None:
                    inner = scope.scopes[part] = _Scope()
                    scopes += 1
                scope = inner
            scope.nodes.append(node)
            if scopes > MAX_SCOPES:
                raise ReadRefused("a graph of too many scopes", f"at most {MAX_SCOPES:,} nodes and scopes")

    def children(self, parent: str = "", limit: int = MAX_NODES) -> GraphPage:
        """Returns the nodes and scopes directly below a scope, "" for the top, in the order of the graph.

        Raises ReadRefused for a scope that the graph doesn't have, and for a limit over MAX_NODES.
        """
        _check_limit(limit)
        scope = self._scope(parent)
        if scope is None:
            raise ReadRefused(f"the scope {parent[:200]!r}", "the path of a node or scope of the graph")
        above = "/".join(_parts(parent))
        entries: list[GraphEntry] = []
        total = 0
        for name, inner in scope.scopes.items():
            found = list(_entries(f"{above}/{name}" if above else name, name, inner))
            total += len(found)
            entries += found[: limit - len(entries)]
        return GraphPage(entries, total)

    def search(self, text: str, limit: int = MAX_NODES) -> GraphPage:
        """Returns the nodes whose name has a text in it, in any case, in the order of the graph.

        Raises ReadRefused for a limit over MAX_NODES.
        """
        _check_limit(limit)
        wanted = text.casefold()
        found = [node for node in self.graph.nodes if wanted in node.name.casefold()]
        return GraphPage([self._entry(node) for node in found[:limit]], len(found))

    def all(self) -> GraphPage:
        """Returns all nodes in the order of the graph. Raises ReadRefused for more than MAX_NODES."""
        count = len(self.graph.nodes)
        if count > MAX_NODES:
            raise ReadRefused(f"a graph of {count:,} nodes", f"at most {MAX_NODES:,}; read it scope by scope")
        return GraphPage([self._entry(node) for node in self.graph.nodes], count)

    def _entry(self, node: GraphNode) -> GraphEntry:
        scope = self._scope(node.name) or _Scope()
        name = (_parts(node.name) or [""])[-1]
        return GraphEntry(node.name, name, node, len(scope.scopes), scope.below)

    def _scope(self, path: str) -> _Scope | None:
        scope: _Scope | None = self._root
        for part in _parts(path):
            if scope is None:
                return None
            scope = scope.scopes.get(part)
        return scope


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return parts if len(parts) <= MAX_DEPTH else [*parts[: MAX_DEPTH - 1], "/".join(parts[MAX_DEPTH - 1 :])]


def _entries(path: str, name: str, scope: _Scope) -> Iterator[GraphEntry]:
    if not scope.nodes:
        yield GraphEntry(path, name, None, len(scope.scopes), scope.below)
    for at, node in enumerate(scope.nodes):
        children, below = (0, 0) if at else (len(scope.scopes), scope.below)
        yield GraphEntry(node.name, name, node, children, below)


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_NODES:
        raise ReadRefused(f"a limit of {limit}", f"1 to {MAX_NODES:,}")
