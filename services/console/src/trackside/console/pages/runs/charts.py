"""Values of the charts of a run: the graph of its steps, and when each of them ran."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np

from trackside.aggregates.run.step_messages import FAILURES
from trackside.aggregates.run.steps.critical_path import critical_path_of_rows, path_text
from trackside.console.web.page import ChartValues, PageRequest
from trackside.domain.display.text import duration
from trackside.domain.rows.table import ViewRow
from trackside.eventlog.clock import now_ms
from trackside.projections.pages.run_steps import read_graph_steps

MAX_NODES = 400
"""How many steps a graph shows: more can't be read."""
MAX_ROWS = 200
"""How many rows a timeline of steps has."""
_OPEN = frozenset(("ready", "queued", "running"))
_FAILURES = frozenset(state.value for state in FAILURES)


async def graph(request: PageRequest) -> ChartValues:
    """Returns the steps of a run as nodes, with what each needs as edges; the critical path is marked."""
    run_id = request.parts["stream_id"]
    rows = await read_graph_steps(request.models, run_id)
    path = [each.step for each in critical_path_of_rows(rows)]
    shown = _chosen(rows, set(path))
    names = {row["step"] for row in shown}
    steps_on_path = set(itertools.pairwise(path))
    nodes = [_node(run_id, row, row["step"] in path) for row in shown]
    edges = [
        {"source": source, "target": row["step"]}
        | ({"critical": True} if (source, row["step"]) in steps_on_path else {})
        for row in shown
        for source in row["needs"]
        if source in names
    ]
    note = f"Critical path: {path_text(critical_path_of_rows(rows))}." if path else ""
    if len(shown) < len(rows):
        chosen = "those that failed, are open, or are on the critical path, then the first"
        note = f"{len(shown)} of {len(rows)} steps: {chosen}. {note}"
    return ChartValues({}, meta={"nodes": nodes, "edges": edges, "note": note})


def _chosen(rows: Sequence[ViewRow], critical: set[str]) -> list[ViewRow]:
    """Returns the steps that matter most, in the order of their definition."""
    if len(rows) <= MAX_NODES:
        return list(rows)

    def rank(row: ViewRow) -> int:
        ranks = (row["state"] in _FAILURES, row["state"] in _OPEN, row["step"] in critical)
        return next((at for at, holds in enumerate(ranks) if holds), len(ranks))

    return sorted(sorted(rows, key=rank)[:MAX_NODES], key=lambda row: int(row["number"]))


def _node(run_id: str, row: ViewRow, is_critical: bool) -> dict[str, Any]:
    took = duration(row["took_s"] if row["took_s"] is not None else row["duration_s"])
    several = row["items"] > 1
    items = f"{row['begun'] - row['open']}/{row['items']}" if several else ""
    ended = took if row["ended_at"] is not None and row["ready_at"] is not None else ""
    return {
        "id": row["step"],
        "label": row["step"],
        "state": row["state"],
        "detail": " · ".join(filter(None, (ended, items, row["what"]))),
        "href": f"/experiments/{quote(run_id, safe='')}/steps/{quote(row['step'], safe='')}",
        "critical": is_critical,
    }


async def timeline(request: PageRequest) -> ChartValues:
    """Returns when the steps of a run waited for a device and ran: two bars a step, in ms since 1970."""
    rows = [
        row for row in await read_graph_steps(request.models, request.parts["stream_id"]) if row["ready_at"]
    ]
    shown = sorted(
        sorted(rows, key=_span, reverse=True)[:MAX_ROWS], key=lambda row: (row["ready_at"], row["number"])
    )
    names, bars = [row["step"] for row in shown], list(_bars(shown))
    states = sorted({bar[3] for bar in bars})
    note = f"{len(shown)} of {len(rows)} steps: those that took longest." if len(shown) < len(rows) else ""
    return ChartValues(
        {
            "row": np.array([bar[0] for bar in bars], np.int32),
            "start": np.array([bar[1] for bar in bars], float),
            "end": np.array([bar[2] for bar in bars], float),
            "state": np.array([states.index(bar[3]) for bar in bars], np.int32),
            "id": np.array([bar[0] for bar in bars], np.int32),
        },
        labels={"row": names, "state": states, "id": names},
        meta={"now": now_ms(), "note": note},
    )


def _span(row: ViewRow) -> float:
    return float("inf") if row["ended_at"] is None else float(row["duration_s"] or 0)


def _bars(rows: Iterable[ViewRow]) -> Iterable[tuple[int, float, float, str]]:
    """Yields row, start and end in ms (NaN: not ended), and state: it waits until it starts."""
    for at, row in enumerate(rows):
        ready, started, ended = (_ms(row[name]) for name in ("ready_at", "started_at", "ended_at"))
        if started is None:
            yield at, ready or 0.0, _or_nan(ended), row["state"] if ended else "queued"
            continue
        if started > (ready or 0.0):
            yield at, ready or 0.0, started, "queued"
        yield at, started, _or_nan(ended), row["state"]


def _ms(time: Any) -> float | None:
    return None if time is None else time.timestamp() * 1000


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value
