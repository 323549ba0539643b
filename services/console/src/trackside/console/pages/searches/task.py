"""The page of a task, which may be a trial: its curves, attempts, parameters and artifacts."""

from typing import Any

from trackside.aggregates.batch.messages import StopTasks
from trackside.aggregates.search.messages import StopTrial
from trackside.console.commands.forms import Form
from trackside.console.web.page import PageNotFound, PageRequest, Shown
from trackside.domain.display.redacted import redacted_note
from trackside.domain.display.text import duration
from trackside.domain.rows.table import ViewRow
from trackside.projections.pages.trial_lineage import read_trial_lineage
from trackside.projections.reading.reads import row_of_stream

TAGS = 4
"""How many curves are shown if the address names none."""


async def task(request: PageRequest) -> Shown:
    """Shows a task of a stream."""
    stream_id, task_id = request.parts["stream_id"], request.parts["task_id"]
    models = request.models
    row = await models.row("task_of_stream", stream_id, task_id)
    if row is None:
        raise PageNotFound(f"{stream_id[:200]} has no task {task_id[:200]}")
    attempts = await models.rows("attempts_of_task", stream_id, task_id)
    all_tags = [each["tag"] for each in await models.rows("tags_of_task", stream_id, task_id)]
    chosen = [tag for tag in request.query.getlist("tag") if tag in all_tags]
    own = [tag for tag in all_tags if not tag.startswith("system/")]
    found = await row_of_stream(models, stream_id)
    trial, is_search = row["trial"], found is not None and found[0].kind == "search"
    lineage = await read_trial_lineage(models, stream_id, trial) if is_search and trial is not None else None
    best = found[1].get("best_parameters") if found is not None and found[0].kind == "search" else None
    values = {
        "task": row,
        "attempts": attempts,
        "artifacts": await models.rows("artifacts_of_task", task_id, stream_id),
        "all_tags": own or all_tags,
        "tags": chosen or own[:TAGS] or all_tags[:TAGS],
        "parameters": row["parameters"] or {},
        "best": best,
        "known": _facts(row),
        "resources": [tag for tag in all_tags if tag not in own],
        "lineage": lineage,
        "forms": _forms(stream_id, row, None if found is None else found[0].kind),
    }
    title = task_id if row["trial"] is None else f"Trial {row['trial']}"
    return Shown("task.html", title, values, frozenset((stream_id, task_id)), section="experiments")


def _facts(row: ViewRow) -> list[tuple[str, Any]]:
    facts = [(name, row[name]) for name in ("task_type", "queue", "priority", "state", "ending", "objective")]
    facts += [("result", row["result"])]
    facts += [("redacted", note)] if (note := redacted_note(row["result"])) else []
    facts += [("queued", row["queued_at"]), ("ended", row["ended_at"])]
    facts += [("runs at most", duration(row["run_timeout_s"]))] if row["run_timeout_s"] else []
    return facts


def _forms(stream_id: str, row: ViewRow, kind: str | None) -> list[Form]:
    if row["state"] == "ended":
        return []
    confirm = "Stop it? If it runs, it is ended."
    if kind == "search" and row["trial"] is not None:
        fixed = {"trial": row["trial"]}
        return [Form("Stop", stream_id, StopTrial, fixed=fixed, confirm=confirm, is_danger=True)]
    if kind == "batch":
        fixed = {"task": row["task_id"]}
        return [Form("Stop", stream_id, StopTasks, fixed=fixed, confirm=confirm, is_danger=True)]
    return []
