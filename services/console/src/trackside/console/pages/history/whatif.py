"""The page of a what-if: a form, and how far the one is that was asked for, or its result."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from trackside.console.pages.stream import found_stream, stream_values
from trackside.console.web.page import BadQuery, ChartValues, PageNotFound, PageRequest, Shown
from trackside.console.whatif.jobs import WhatIfJob, WhatIfJobs
from trackside.console.whatif.options import FIELDS, KINDS, LABELS, LINES, MAX_TEXT
from trackside.domain.display.text import duration

CHARTS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "search": (
        ("makespan_s", "Makespan", "s"),
        ("device_s", "Device time", "s"),
        ("value_lost", "Regret: how much the best value is worse than recorded", ""),
    ),
    "run": (("makespan_s", "Makespan", "s"), ("device_s", "Device time", "s")),
    "rounds": (("device_s", "Device time", "s"), ("deployed", "Rounds that deploy", "")),
}
"""The charts of a kind: value of a scenario, title, unit."""


async def whatif(request: PageRequest) -> Shown:
    """Shows the form of a what-if, filled with what the address has."""
    view, row = await found_stream(request)
    if view.kind not in KINDS:
        raise PageNotFound(
            f"a {view.kind} has no what-if; searches, runs of pipelines and incremental jobs have one"
        )
    fields = [(name, *LABELS[name], name in LINES) for name in FIELDS[view.kind]]
    values = {
        **stream_values(request, view.kind, row, "whatif"),
        "fields": fields,
        "given": {name: request.query.get(name, "")[:MAX_TEXT] for name in (*FIELDS[view.kind], "at")},
        "result_id": request.query.get("result", "")[:50],
    }
    stream_id = request.parts["stream_id"]
    return Shown(
        "whatif.html", f"What-if of {stream_id}", values, frozenset((stream_id,)), section="experiments"
    )


async def kind_of(request: PageRequest) -> str:
    """Returns the kind of the stream in the path; raises PageNotFound if it has no what-if."""
    view, _ = await found_stream(request)
    if view.kind not in KINDS:
        raise PageNotFound(f"a {view.kind} has no what-if")
    return view.kind


def result_values(job: WhatIfJob) -> dict[str, Any]:
    """Returns the values of the template of a job."""
    table = _table(job.kind, job.result) if job.result is not None else None
    return {"job": job, "table": table, "charts": CHARTS[job.kind]}


def _table(kind: str, result: Mapping[str, Any]) -> dict[str, Any]:
    scenarios, rows = result["scenarios"], []
    for at, each in enumerate(scenarios):
        rows.append([each["scenario"], *_CELLS[kind](each, at == 0)])
    return {"columns": _COLUMNS[kind], "rows": rows}


def _search_cells(each: Mapping[str, Any], is_base: bool) -> list[object]:
    return [
        None if is_base else each["mode"],
        duration(each["makespan_s"]),
        None if is_base else f"{each['makespan_saved']:.0%}",
        duration(each["device_s"]),
        None if is_base else f"{each['device_saved']:.0%}",
        each["stops"],
        each["best_value"],
        None if is_base else each["value_lost"],
        each["rank_of_best"],
        each["unknown_trials"] or None,
    ]


def _run_cells(each: Mapping[str, Any], is_base: bool) -> list[object]:
    path = ", ".join(f"{step['step']} {duration(step['duration_s'])}" for step in each["critical_path"])
    saved = None if is_base else f"{each['saved']:.0%}"
    use = f"{each['device_use']:.0%}"
    return [each["status"], duration(each["makespan_s"]), saved, duration(each["device_s"]), use, path]


def _job_cells(each: Mapping[str, Any], is_base: bool) -> list[object]:
    about = "about " if each["unknown_models"] else ""
    live = ", ".join(each["live"][-1]["models"]) if each["live"] else None
    saved = None if is_base else about + duration(each["device_s_saved"])
    counts = [each[name] for name in ("rounds", "deployed", "kept", "failed", "unknown")]
    return [*counts, about + duration(each["device_s"]), saved, live]


_CELLS = {"search": _search_cells, "run": _run_cells, "rounds": _job_cells}
_COLUMNS: Mapping[str, tuple[tuple[str, bool], ...]] = {
    "search": (
        ("scenario", False),
        ("freed slots", False),
        ("makespan", True),
        ("saved", True),
        ("device time", True),
        ("saved", True),
        ("stops", True),
        ("best", True),
        ("regret", True),
        ("rank of best", True),
        ("unknown trials", True),
    ),
    "run": (
        ("scenario", False),
        ("status", False),
        ("makespan", True),
        ("saved", True),
        ("device time", True),
        ("devices in use", True),
        ("critical path", False),
    ),
    "rounds": (
        ("scenario", False),
        ("rounds", True),
        ("deployed", True),
        ("kept", True),
        ("failed", True),
        ("unknown", True),
        ("device time", True),
        ("saved", True),
        ("live then", False),
    ),
}
"""The headings of the table of a kind, and whether their values are numbers."""


async def whatif_columns(jobs: WhatIfJobs, request: PageRequest) -> ChartValues:
    """One value of each scenario of a result."""
    job = jobs.find(request.query.get("result", ""), request.parts["stream_id"])
    if job is None or job.result is None:
        raise BadQuery("this result is not kept any more; start the what-if again")
    allowed = tuple(name for name, _, _ in CHARTS[job.kind])
    name = request.one_of("value", allowed, allowed[0])
    scenarios = job.result["scenarios"]
    labels = [_label(each, at) for at, each in enumerate(scenarios)]
    values = [each[name] for each in scenarios]
    return ChartValues(
        {
            "scenario": np.arange(len(labels), dtype=np.int32),
            name: np.array([np.nan if each is None else float(each) for each in values]),
        },
        {"scenario": labels},
    )


def _label(scenario: Mapping[str, Any], at: int) -> str:
    """Returns a name of a scenario that is unique: one may be there twice, with freed slots and without."""
    mode = f" ({scenario['mode']})" if at and "mode" in scenario else ""
    return f"{scenario['scenario']}{mode}"
