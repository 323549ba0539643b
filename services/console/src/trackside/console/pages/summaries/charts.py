"""Charts of summaries: curves over jobs, histograms over steps, hyper-parameters, graphs."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from trackside.artifacts.errors import ArtifactError, StoreMissing
from trackside.artifacts.store import Store
from trackside.console.pages.summaries.page import MOST_JOBS, hparam_values
from trackside.console.web.page import BadQuery, ChartValues, PageRequest
from trackside.projections.pages.curve_columns import curve_columns
from trackside.projections.reading.read_pool import SnapshotModels
from trackside.projections.summaries.chosen import live_tables
from trackside.projections.summaries.errors import SummaryReadRefused
from trackside.projections.summaries.items import StoredValue, ValueQuery, read_value, read_values
from trackside.projections.summaries.tags import read_tags
from trackside.projections.summaries.values import value_bytes
from trackside.summaries.event_files.values import Graph, Histogram
from trackside.summaries.kinds.graph import unpack as unpack_graph
from trackside.summaries.kinds.graph_tree import GraphEntry, GraphTree
from trackside.summaries.kinds.histogram import CHART_ROWS, decode, rebin
from trackside.summaries.kinds.kind import BadValue, ReadRefused

POINTS = 1_000
BINS, HISTOGRAMS = 30, 50
"""How many buckets a histogram is shown with, and at how many steps."""
MOST_NODES, MOST_EDGES = 200, 1_000
"""How many nodes and edges of a graph are drawn."""


async def scalars(request: PageRequest) -> ChartValues:
    """The curves of a tag, one series for each job."""
    jobs, tag = _jobs(request), request.query.get("tag", "")
    found = await curve_columns(request.models, jobs, tag, POINTS)
    sizes = [each.rows for each in found.values()]
    arrays: dict[str, NDArray[Any]] = {"series": np.repeat(np.arange(len(found), dtype=np.int32), sizes)}
    for name, column in (("step", "step"), ("time", "time_ms"), ("value", "value")):
        parts = [each.arrays[column].astype(np.float64) for each in found.values()]
        arrays[name] = np.concatenate(parts or [np.empty(0)])
    thinned = sum(each.total > each.rows for each in found.values())
    note = f"{thinned} of {len(found)} curves are thinned" if thinned else ""
    return ChartValues(arrays, {"series": list(found)}, {"note": note})


async def histograms(request: PageRequest) -> ChartValues:
    """The histograms of a tag of one job over steps: a cell for each bucket."""
    query = ValueQuery(_jobs(request)[0], "histogram", request.query.get("tag", ""), limit=HISTOGRAMS)
    try:
        async with live_tables(request.models) as connection:
            page = await read_values(connection, query)
    except SummaryReadRefused as error:
        raise BadQuery(str(error)) from None
    shown = [(value.step, found) for value in page.values if (found := _histogram(value)) is not None]
    ends = [step for step, _ in shown[1:]]
    width = (shown[-1][0] - shown[-2][0]) if len(shown) > 1 else 1
    ends += [shown[-1][0] + max(1, width)] if shown else []
    columns: dict[str, list[float]] = {name: [] for name in ("step", "step_high", "bin", "bin_high", "count")}
    for (step, found), end in zip(shown, ends, strict=True):
        for low, high, count in zip(found.left, found.right, found.counts, strict=True):
            if math.isfinite(low) and math.isfinite(high) and high > low:
                row = zip(columns.values(), (step, end, low, high, count), strict=True)
                for column, number in row:
                    column.append(number)
    note = f"{len(shown)} of {page.steps:,} steps are shown" if len(shown) < page.steps else ""
    return ChartValues({name: np.array(each, float) for name, each in columns.items()}, {}, {"note": note})


def _histogram(value: StoredValue) -> Histogram | None:
    """Returns a histogram with few buckets: of a large one, what its row has of it."""
    try:
        body = value.body
        found = decode(body["value"] if "value" in body else body.get("chart"))
        return rebin(found, BINS if "value" in body else CHART_ROWS)
    except BadValue:
        return None


async def hparams(request: PageRequest) -> ChartValues:
    """The hyper-parameters of jobs and the last values of their metrics: a row for each job."""
    jobs = _jobs(request)
    rows = [await _hparam_row(request.models, job) for job in jobs]
    names = list(dict.fromkeys(name for row in rows for name in row))
    arrays: dict[str, NDArray[Any]] = {"id": np.arange(len(jobs), dtype=np.int32)}
    labels: dict[str, Sequence[str]] = {"id": jobs}
    for name in names[:100]:
        values = [row.get(name) for row in rows]
        if all(
            each is None or (isinstance(each, int | float) and not isinstance(each, bool)) for each in values
        ):
            arrays[name] = np.array([math.nan if each is None else float(each) for each in values])
        else:
            texts = list(dict.fromkeys(str(each) for each in values if each is not None))
            places = {text: at for at, text in enumerate(texts)}
            arrays[name] = np.array([-1 if each is None else places[str(each)] for each in values], np.int32)
            labels[name] = texts
    return ChartValues(arrays, labels)


async def _hparam_row(models: SnapshotModels, job: str) -> dict[str, Any]:
    """Returns the hyper-parameters of a job with the last value of each of its scalars."""
    found: dict[str, Any] = {}
    try:
        async with live_tables(models) as connection:
            tags = await read_tags(connection, job)
            for tag in [each for each in tags if each.kind == "hparams"]:
                page = await read_values(connection, ValueQuery(job, "hparams", tag.tag, limit=1))
                for value in page.values:
                    found |= hparam_values(value)
    except SummaryReadRefused as error:
        raise BadQuery(str(error)) from None
    last = {each.tag: each.last_value for each in tags if each.kind == "scalar" and not each.is_system}
    return {**found, **{name: value for name, value in last.items() if not isinstance(value, str)}}


async def stored_value(request: PageRequest, kind: str) -> StoredValue:
    """Returns the value of a job, tag, step and index that the query names; raises BadQuery."""
    step = request.signed("step") or 0
    query = ValueQuery(_jobs(request)[0], kind, request.query.get("tag", ""))
    try:
        async with live_tables(request.models) as connection:
            return await read_value(connection, query, step, request.number("index", 0))
    except SummaryReadRefused as error:
        raise BadQuery(str(error)) from None


async def graph(store: Store | None, request: PageRequest) -> ChartValues:
    """The nodes and scopes directly below a scope of a graph, with the edges between them."""
    kind = request.one_of("kind", ("graph", "optimized_graph"), "graph")
    value = await stored_value(request, kind)
    scope = request.query.get("scope", "")
    try:
        data = await read_bytes(store, value)
        nodes, edges, total = await asyncio.to_thread(drawn_graph, unpack_graph(value.body, data), scope)
    except (BadValue, ReadRefused, ArtifactError, SummaryReadRefused) as error:
        raise BadQuery(f"this graph can't be shown: {error}") from None
    base = request.query.get("base", "")
    for node in nodes if base.startswith(("/experiments/", "/summaries")) else ():
        if node["inner"]:
            node["href"] = f"{base}{'&' if '?' in base else '?'}{urlencode({'scope': node['id']})}"
    note = f"{len(nodes):,} of {total:,} nodes are shown" if len(nodes) < total else ""
    return ChartValues({}, {}, {"nodes": nodes, "edges": edges, "note": note})


def drawn_graph(given: Graph, scope: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Returns the nodes below a scope as the chart has them, their edges, and how many nodes there are.

    An edge between nodes of two scopes is one between the scopes. Raises ReadRefused.
    """
    page = GraphTree(given).children(scope, MOST_NODES)
    paths = {each.path for each in page.entries}
    edges: dict[tuple[str, str], None] = {}
    for node in given.nodes:
        target = _entry_of(node.name, scope, paths)
        for name in () if target is None else node.inputs:
            source = _entry_of(name.removeprefix("^").partition(":")[0], scope, paths)
            if source is not None and source != target and len(edges) < MOST_EDGES:
                edges[source, target or ""] = None
    nodes = [_drawn_node(each) for each in page.entries]
    return nodes, [{"source": source, "target": target} for source, target in edges], page.total


def _entry_of(name: str, scope: str, paths: set[str]) -> str | None:
    """Returns the entry of a level that a node is, or is in."""
    parts = [part for part in name.split("/") if part]
    depth = len([part for part in scope.split("/") if part])
    path = "/".join(parts[: depth + 1])
    return path if path in paths else None


def _drawn_node(entry: GraphEntry) -> dict[str, Any]:
    op = "" if entry.node is None else entry.node.op
    detail = f"{entry.nodes:,} nodes" if entry.nodes else op
    return {"id": entry.path, "label": entry.name, "state": "", "detail": detail, "inner": entry.children}


async def read_bytes(store: Store | None, value: StoredValue) -> bytes | None:
    """Returns the bytes of a value that is an artifact, None if its row has all.

    Raises ArtifactError, and SummaryReadRefused for one that is too long.
    """
    if value.sha256 is None:
        return None
    if store is None:
        raise StoreMissing("no store for artifacts is set: set TRACKSIDE_STORE for the console")
    return await asyncio.to_thread(value_bytes, store, value)


def _jobs(request: PageRequest) -> list[str]:
    jobs = list(dict.fromkeys(filter(None, request.query.getlist("job"))))
    if not 1 <= len(jobs) <= MOST_JOBS:
        raise BadQuery(f"{len(jobs)} jobs; expected 1 to {MOST_JOBS}")
    return jobs
