"""Bytes and contents of stored values: decoded by their kinds, read from the store where they are artifacts.

These functions block while they read and decode: a service calls them in a thread.
"""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from trackside.artifacts.blobs.reading import read_blob
from trackside.artifacts.store import Store
from trackside.projections.summaries.errors import SummaryReadRefused
from trackside.projections.summaries.items import StoredValue, known_kind
from trackside.summaries.kinds.bodies import MAX_DATA_BYTES
from trackside.summaries.kinds.graph_tree import MAX_NODES, GraphPage, GraphTree
from trackside.summaries.kinds.kind import BadValue, ReadRefused
from trackside.summaries.kinds.tensor import MAX_TENSOR_VALUES, json_values, slice_of

TensorPart = Literal["statistics", "histogram", "slice"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """Which nodes are read: those directly below `parent`, those with `search` in their name, or all."""

    parent: str = ""
    search: str | None = None
    everything: bool = False
    limit: int = MAX_NODES


def value_bytes(store: Store, value: StoredValue) -> bytes | None:
    """Returns the bytes of a value that is an artifact, checked by their digest; None where the body is all.

    Raises ArtifactError, and SummaryReadRefused for one that is longer than any value may be.
    """
    if value.sha256 is None:
        return None
    if value.size_bytes is not None and value.size_bytes > MAX_DATA_BYTES:
        hint = f"expected at most {MAX_DATA_BYTES:,}"
        raise SummaryReadRefused("too_many_values", "step", f"a value of {value.size_bytes:,} bytes", hint)
    content = io.BytesIO()
    read_blob([store.blobs, *store.copies], value.sha256, value.size_bytes, content)
    return content.getvalue()


def unpack_value(store: Store, value: StoredValue) -> Any:
    """Returns a value as its kind has it, such as a Histogram; raises ArtifactError or SummaryReadRefused."""
    data = value_bytes(store, value)
    return _refusing("step", lambda: known_kind(value.kind).unpack(value.body, data))


def read_tensor(store: Store, value: StoredValue, part: TensorPart, dims: str | None = None) -> Any:
    """Returns a part of a tensor as JSON: its statistics, its histogram, or the slice that `dims` selects.

    Only a slice reads the bytes. Raises ArtifactError or SummaryReadRefused.
    """
    if part != "slice":
        if dims is not None:
            raise SummaryReadRefused("bad_query", "dims", f"dims for the {part} of a tensor; expected none")
        return value.body.get(part)
    if dims is None:
        what = "a slice without dims; expected an index or a range for each dimension, such as [0, :, 2:5]"
        raise SummaryReadRefused("bad_query", "dims", what)
    shape = value.body.get("shape")
    if isinstance(shape, list) and math.prod(shape) > MAX_TENSOR_VALUES:
        hint = f"expected at most {MAX_TENSOR_VALUES:,}"
        raise SummaryReadRefused("too_many_values", "dims", f"a tensor of {math.prod(shape):,} values", hint)
    tensor = unpack_value(store, value)
    return _refusing("dims", lambda: json_values(slice_of(tensor, dims)))


def read_graph(store: Store, value: StoredValue, query: GraphQuery) -> GraphPage:
    """Returns nodes of a graph. Raises ArtifactError or SummaryReadRefused."""
    tree = GraphTree(unpack_value(store, value))
    if query.everything:
        return _refusing("all", tree.all)
    if query.search is not None:
        wanted = query.search
        return _refusing("limit", lambda: tree.search(wanted, query.limit))
    return _refusing("parent", lambda: tree.children(query.parent, query.limit))


def _refusing(path: str, work: Callable[[], T]) -> T:
    """Returns what a function of a kind returns; its errors are refusals."""
    try:
        return work()
    except ReadRefused as error:
        raise SummaryReadRefused("bad_query", path, error.what, f"expected {error.expected}") from error
    except BadValue as error:
        hint = f"expected {error.expected}"
        raise SummaryReadRefused("unreadable_value", path, error.what, hint) from error
