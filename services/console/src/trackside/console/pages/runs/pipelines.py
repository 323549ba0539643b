"""The page of a pipeline: its runs, its schedules, its versions with what changed, and a form for a run."""

import asyncio
import json
from difflib import unified_diff
from typing import Any

import numpy as np

from trackside.aggregates.pipeline.view import SCHEDULES, VERSIONS
from trackside.console.commands.pipeline_actions import (
    pipeline_actions,
    run_cancellation,
    schedule_actions,
)
from trackside.console.pages.stream import found_stream, stream_values
from trackside.console.web.page import ChartValues, PageNotFound, PageRequest, Shown
from trackside.contracts.envelope.message import Json
from trackside.domain.pipelines.compiling import CompiledPipeline, compile_pipeline, needed
from trackside.domain.pipelines.definition import GATE, PipelineSpec
from trackside.domain.rows.table import ViewRow
from trackside.projections.pages.pipeline_runs import (
    count_pipeline_runs,
    read_pipeline_runs,
    read_run_durations,
)

LIMIT = 50
CHART_RUNS = 2_000
"""How many runs a chart has."""
MAX_DIFF_LINES = 400


async def pipeline(request: PageRequest, row: ViewRow) -> Shown:
    """Shows a pipeline: its runs, its schedules and its versions."""
    pipeline_id, models = request.parts["stream_id"], request.models
    versions = await models.rows(f"pipeline.{VERSIONS}", pipeline_id)
    current = next(each for each in versions if each["version"] == row["version"])
    counts = await count_pipeline_runs(models, pipeline_id)
    status, offset = request.one_of("status", tuple(counts), ""), request.number("offset", 0)
    runs = await read_pipeline_runs(models, pipeline_id, status, LIMIT, offset)
    schedules = await models.rows(f"pipeline.{SCHEDULES}", pipeline_id)
    values = {
        **stream_values(request, "pipeline", row),
        "forms": pipeline_actions(pipeline_id, row, current["definition"]),
        "facts": [
            ("title", row["title"]),
            ("description", row["description"]),
            ("runs at once", row["max_runs"]),
            ("defined", row["started_at"]),
            ("digest", row["sha256"][:12]),
            *([("retired", row["ended_at"]), ("reason", row["retire_reason"])] if row["ended_at"] else []),
        ],
        "runs": [(each, run_cancellation(pipeline_id, each)) for each in runs],
        "counts": counts,
        "status": status,
        "total": counts.get(status, 0) if status else sum(counts.values()),
        "offset": offset,
        "limit": LIMIT,
        "schedules": [(each, schedule_actions(pipeline_id, each)) for each in schedules],
        "versions": versions[::-1],
        "parameters": current["definition"].get("parameters") or {},
    }
    return Shown("pipeline.html", pipeline_id, values, frozenset((pipeline_id,)), section="experiments")


async def pipeline_version(request: PageRequest, row: ViewRow) -> Shown:
    """Shows a version of a pipeline: its graph, its definition, and what differs from the version before."""
    pipeline_id = request.parts["stream_id"]
    versions = await request.models.rows(f"pipeline.{VERSIONS}", pipeline_id)
    number = request.parts["version"]
    found = next((each for each in versions if str(each["version"]) == number), None)
    if found is None:
        raise PageNotFound(f"pipeline {pipeline_id} has no version {number[:20]}; it has {len(versions)}")
    before = next((each for each in versions if each["version"] == found["version"] - 1), None)
    values = {
        **stream_values(request, "pipeline", row),
        "version": found,
        "definition": _text(found["definition"]),
        "difference": [] if before is None else _difference(before["definition"], found["definition"]),
        "before": before,
    }
    title = f"Version {found['version']} of {pipeline_id}"
    return Shown("pipeline_version.html", title, values, frozenset((pipeline_id,)), section="experiments")


def _text(definition: Json) -> str:
    return json.dumps(definition, indent=2, ensure_ascii=False)


def _difference(before: Json, after: Json) -> list[str]:
    """Returns the lines that differ, with their surroundings, as `diff -u` has them."""
    lines = unified_diff(_text(before).splitlines(), _text(after).splitlines(), lineterm="", n=2)
    return list(lines)[2 : MAX_DIFF_LINES + 2]


async def durations(request: PageRequest) -> ChartValues:
    """Returns how long the runs of a pipeline took, s, by their numbers."""
    rows = await read_run_durations(request.models, request.parts["stream_id"], CHART_RUNS)
    arrays = {
        "number": np.array([row["run_number"] for row in rows], np.float64),
        "duration": np.array([row["duration_s"] for row in rows], np.float64),
    }
    notes = [
        {"x": row["run_number"], "text": f"run {row['run_number']} {row['status']}", "kind": row["status"]}
        for row in rows
        if row["status"] != "SUCCEEDED"
    ]
    return ChartValues(arrays, meta={"annotations": notes})


async def definition_graph(request: PageRequest) -> ChartValues:
    """Returns the steps of a version of a pipeline as nodes, with what each needs as edges."""
    await found_stream(request)
    versions = await request.models.rows(f"pipeline.{VERSIONS}", request.parts["stream_id"])
    found = next((each for each in versions if str(each["version"]) == request.parts["version"]), None)
    if found is None:
        raise PageNotFound("there is no such version")
    return await asyncio.to_thread(_drawn_definition, found["definition"])


def _drawn_definition(definition: Any) -> ChartValues:
    # As JSON, since a definition is strict: a list is no tuple there.
    compiled = compile_pipeline(PipelineSpec.model_validate_json(json.dumps(definition)))
    steps = compiled.pipeline.steps if isinstance(compiled, CompiledPipeline) else []
    nodes = [
        {"id": step.name, "label": step.name, "detail": step.task_type or step.kind or GATE} for step in steps
    ]
    edges = [{"source": each, "target": step.name} for step in steps for each in needed(step)]
    return ChartValues({}, meta={"nodes": nodes, "edges": edges})
