"""The pages of an incremental job: its rounds over time, its triggers, samples, services and deployments."""

from typing import Any

import numpy as np

from trackside.aggregates.rounds.display.round_display import (
    facts,
    metric_values,
    result_of,
    service_problems,
    shown_metric,
    why_of,
)
from trackside.aggregates.rounds.display.trigger_display import progress_text
from trackside.aggregates.rounds.view import SERVICES
from trackside.console.commands.round_actions import approval_actions, rollback_actions
from trackside.console.pages.stream import row_of_kind, stream_values
from trackside.console.web.page import ChartValues, PageNotFound, PageRequest, Shown
from trackside.domain.rows.table import ViewRow
from trackside.projections.pages.job_rounds import (
    count_rounds,
    count_samples,
    read_deployments,
    read_hard_shares,
    read_metric_names,
    read_round,
    read_round_metric,
    read_rounds,
    read_sample_ranges,
    read_stages,
    read_trigger_evaluations,
)

LIMIT = 50
DEPLOYMENTS, EVALUATIONS = 50, 20
CHART_ROUNDS = 5_000
"""How many rounds a chart has, the newest ones."""
_ELSEWHERE = ("job", "name", "status", "rounds", "stage", "blocked", "trigger", "waits for", "until", "live")
"""Facts that other parts of the page show."""


async def rounds(request: PageRequest, row: ViewRow) -> Shown:
    """Shows a job: where it is and why it waits, its rounds with their metrics, and what is live."""
    job_id, models = request.parts["stream_id"], request.models
    offset = request.number("offset", 0)
    found = await read_rounds(models, job_id, LIMIT, offset)
    names = await read_metric_names(models, job_id)
    metric = request.one_of("metric", tuple(names), shown_metric(found) or (names[0] if names else ""))
    services = await models.rows(f"rounds.{SERVICES}", job_id)
    deployments = await read_deployments(models, job_id, DEPLOYMENTS)
    back = rollback_actions(job_id, row, deployments)
    values = {
        **stream_values(request, "rounds", row),
        "approval": approval_actions(job_id, row),
        "facts": [(name, value) for name, value in facts(row) if name not in _ELSEWHERE],
        "triggers": [trigger_row(each) for each in row["triggers"]],
        "rounds": [round_values(each, metric) for each in found],
        "total": await count_rounds(models, job_id),
        "offset": offset,
        "limit": LIMIT,
        "metrics": names,
        "metric": metric,
        "samples": await count_samples(models, job_id),
        "services": services,
        "problems": service_problems(services),
        "deployments": [(each, back.get(each["update_number"], [])) for each in deployments],
        "evaluations": [
            {**each, "seen": seen_values(each["seen"])}
            for each in await read_trigger_evaluations(models, job_id, EVALUATIONS)
        ],
    }
    title = str(row["name"] or job_id)
    return Shown("rounds.html", title, values, frozenset((job_id,)), section="experiments")


def round_values(row: ViewRow, metric: str) -> ViewRow:
    """Returns the row of a round with what a table says of it."""
    trained, live = metric_values(row, metric) if metric else (None, None)
    delta = None if trained is None or live is None else trained - live
    return {
        **row,
        "metric": trained,
        "live": live,
        "delta": delta,
        "result": result_of(row),
        "why": why_of(row),
    }


def seen_values(seen: dict[str, Any]) -> dict[str, Any]:
    """Returns the numbers that an evaluation saw by name, or the reason why there was none."""
    return {
        name: each.get("value", each.get("reason")) if isinstance(each, dict) else each
        for name, each in seen.items()
    }


def trigger_row(trigger: dict[str, Any]) -> dict[str, Any]:
    """Returns a trigger with how far its numbers are; `share` is from 0 to 1, None where there is none."""
    seen = [
        {"text": progress_text(each), "share": _share(each), "holds": each["value"] is not None}
        for each in trigger["seen"]
    ]
    return {**trigger, "seen": seen}


def _share(seen: dict[str, Any]) -> float | None:
    """Returns how much of a threshold a number has reached that must become as large."""
    value, threshold = seen["value"], seen["threshold"]
    if value is None or seen["operator"] not in (">", ">=") or threshold <= 0:
        return None
    return float(max(0.0, min(1.0, value / threshold)))


async def job_row(request: PageRequest) -> ViewRow:
    """Returns the row of the job in the path; raises PageNotFound."""
    return await row_of_kind(request, "rounds", "only a job has rounds")


async def round_page(request: PageRequest) -> Shown:
    """Shows one round: its stages with their tasks, its samples, and why its model was deployed or not."""
    row = await job_row(request)
    job_id, number = request.parts["stream_id"], request.parts["round"]
    digits = number if number.isascii() and number.isdecimal() and len(number) < 16 else "0"
    found = await read_round(request.models, job_id, int(digits))
    if found is None:
        raise PageNotFound(f"job {job_id} has had no round {number[:20]}")
    metrics = sorted({*(found["trained"] or {}), *(found["deployed_metrics"] or {})})
    values = {
        **stream_values(request, "rounds", row),
        "round": round_values(found, shown_metric([found])),
        "metrics": [(name, *metric_values(found, name)) for name in metrics],
        "stages": await read_stages(request.models, job_id, found["round"]),
        "ranges": await read_sample_ranges(request.models, job_id, found["round"]),
        "approval": approval_actions(job_id, row) if found["approval"] == "waiting" else [],
    }
    title = f"Round {found['round']} of {row['name'] or job_id}"
    return Shown("round.html", title, values, frozenset((job_id,)), section="experiments")


async def metric_chart(request: PageRequest) -> ChartValues:
    """Returns a metric of the trained and of the live model by round; deployments are annotations."""
    job_id, models = request.parts["stream_id"], request.models
    rows = await read_round_metric(models, job_id, request.query.get("metric", ""), CHART_ROUNDS)
    first = rows[0]["round"] if rows else 0
    notes = [
        _annotation(each)
        for each in await read_deployments(models, job_id, CHART_ROUNDS)
        if each["deployed_at"] is not None and (each["round"] or 0) >= first and each["round"] is not None
    ]
    arrays = {
        "round": np.array([row["round"] for row in rows], np.float64),
        "trained": _numbers(rows, "trained"),
        "live": _numbers(rows, "deployed"),
    }
    return ChartValues(arrays, meta={"annotations": notes})


def _annotation(deployment: ViewRow) -> dict[str, Any]:
    text = f"{deployment['model']}@{deployment['version']} live"
    return {"x": deployment["round"], "text": text, "kind": "deployed"}


def _numbers(rows: list[ViewRow], name: str) -> Any:
    return np.array([np.nan if row[name] is None else row[name] for row in rows], np.float64)


async def hard_chart(request: PageRequest) -> ChartValues:
    """Returns the share of hard examples among the inferences of a job's services, by round."""
    rows = await read_hard_shares(request.models, request.parts["stream_id"], CHART_ROUNDS)
    shares = [row["hard_examples"] / row["inferences"] if row["inferences"] else np.nan for row in rows]
    numbers = np.array([row["round"] for row in rows], np.float64)
    return ChartValues({"round": numbers, "share": np.array(shares, np.float64)})
