"""What is read, as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from trackside.projections.summaries.items import StoredValue
from trackside.projections.summaries.scalars import ScalarCurve
from trackside.summaries.curves import CurveAxis
from trackside.summaries.kinds.graph_tree import GraphEntry, GraphPage


def curve_json(curve: ScalarCurve, axis: CurveAxis) -> dict[str, Any]:
    """Returns a curve as columns; a value that isn't finite is null, and `non_finite` has it by its index."""
    values = curve.points.values
    finite = np.isfinite(values)
    found: dict[str, Any] = {
        "job_id": curve.job_id,
        "tag": curve.tag,
        "attempt": curve.attempt,
        "total": curve.total,
        "steps": curve.points.steps.tolist(),
        "times_ms": curve.points.times_ms.tolist(),
    }
    if axis != "step":
        found["positions"] = curve.positions.tolist()
    if bool(finite.all()):
        return found | {"values": values.tolist(), "non_finite": {}}
    named = {int(at): _name(float(values[at])) for at in np.flatnonzero(~finite)}
    columns = [None if at in named else value for at, value in enumerate(values.tolist())]
    return found | {"values": columns, "non_finite": named}


def value_json(value: StoredValue) -> dict[str, Any]:
    """Returns a value as it is stored."""
    return asdict(value)


def graph_json(page: GraphPage) -> dict[str, Any]:
    """Returns nodes of a graph, and how many there are without a limit."""
    return {"total": page.total, "nodes": _entries(page.entries)}


def _entries(entries: Sequence[GraphEntry]) -> list[dict[str, Any]]:
    found = []
    for entry in entries:
        shown: dict[str, Any] = {
            "path": entry.path,
            "name": entry.name,
            "children": entry.children,
            "nodes": entry.nodes,
        }
        if entry.node is not None:
            node = entry.node
            shown |= {
                "op": node.op,
                "inputs": node.inputs,
                "control_inputs": node.control_inputs,
                "device": node.device,
            }
        found.append(shown)
    return found


def _name(value: float) -> str:
    return "nan" if value != value else "inf" if value > 0 else "-inf"
