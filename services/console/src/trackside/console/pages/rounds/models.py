"""The pages of a model and of its versions: their metrics, stages, origin, and what each was made of."""

from typing import Any

import numpy as np

from trackside.aggregates.model.view import VERSIONS, version_facts
from trackside.aggregates.rounds.display.round_display import as_number
from trackside.console.commands.model_actions import version_actions
from trackside.console.pages.rounds.bills import bill_values, read_bill
from trackside.console.pages.stream import stream_values
from trackside.console.web.page import ChartValues, PageNotFound, PageRequest, Shown
from trackside.domain.rows.table import ViewRow
from trackside.projections.pages.job_rounds import read_jobs_of_model

LIMIT = 50
JOBS = 50


async def model(request: PageRequest, row: ViewRow) -> Shown:
    """Shows a model: its versions with their metrics, and the jobs that train or use it."""
    model_id, models = request.parts["stream_id"], request.models
    versions = await models.rows(f"model.{VERSIONS}", model_id)
    newest = versions[::-1]
    offset = request.number("offset", 0)
    names = metric_names(versions)
    values = {
        **stream_values(request, "model", row),
        "versions": newest[offset : offset + LIMIT],
        "total": len(versions),
        "offset": offset,
        "limit": LIMIT,
        "metrics": names,
        "metric": request.one_of("metric", tuple(names), names[0] if names else ""),
        "jobs": await read_jobs_of_model(models, model_id, JOBS),
        "facts": [
            ("description", row["description"]),
            ("tags", row["tags"] or None),
            ("labels", row["labels"] or None),
            ("registered", row["started_at"]),
            *([("archived", row["ended_at"]), ("reason", row["archive_reason"])] if row["ended_at"] else []),
        ],
    }
    return Shown("model.html", model_id, values, frozenset((model_id,)), section="experiments")


def metric_names(versions: list[ViewRow]) -> list[str]:
    """Returns the names of metrics that some versions have as numbers, accuracy first."""
    names = {
        name for each in versions for name, value in (each["metrics"] or {}).items() if _is_number(value)
    }
    return sorted(names, key=lambda name: (name != "accuracy", name))


def _is_number(value: object) -> bool:
    return as_number(value) is not None


async def model_version(request: PageRequest, row: ViewRow) -> Shown:
    """Shows a version of a model, and what it was made of, back to the first version."""
    model_id = request.parts["stream_id"]
    found = await _version_row(request)
    number = found["version"]
    values = {
        **stream_values(request, "model", row),
        **bill_values(await read_bill(request, model_id, number)),
        "found": found,
        "facts": [(name, value) for name, value in version_facts(found) if value not in (None, "", {}, [])],
        "version_forms": version_actions(model_id, row, found),
    }
    title = f"{model_id}@{number}"
    return Shown("model_version.html", title, values, frozenset((model_id,)), section="experiments")


async def _version_row(request: PageRequest) -> ViewRow:
    model_id, number = request.parts["stream_id"], request.parts["version"]
    versions = await request.models.rows(f"model.{VERSIONS}", model_id)
    found = next((each for each in versions if str(each["version"]) == number), None)
    if found is None:
        raise PageNotFound(f"model {model_id} has no version {number[:20]}; it has {len(versions)}")
    return found


async def metric_chart(request: PageRequest) -> ChartValues:
    """Returns a metric of the versions of a model by their numbers; stages are annotations."""
    name = request.query.get("metric", "")
    rows = await request.models.rows(f"model.{VERSIONS}", request.parts["stream_id"])
    values = [as_number((row["metrics"] or {}).get(name)) for row in rows]
    notes: list[dict[str, Any]] = [
        {"x": row["version"], "text": f"version {row['version']}: {row['stage']}", "kind": row["stage"]}
        for row in rows
        if row["stage"] in ("staging", "production")
    ]
    arrays = {
        "version": np.array([row["version"] for row in rows], np.float64),
        name: np.array([np.nan if value is None else value for value in values], np.float64),
    }
    return ChartValues(arrays, meta={"annotations": notes})
