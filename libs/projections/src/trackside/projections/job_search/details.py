"""What is shown of the jobs of a page: their fields, parameters, and the metrics that were named."""

import json
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from trackside.domain.display.times import time_of_ms
from trackside.domain.rows.table import ViewRow
from trackside.projections.job_search.expressions import FieldName
from trackside.projections.job_search.fields import FIELDS
from trackside.projections.job_search.known_names import Fetch
from trackside.projections.job_search.statements import REPORTED, STATISTIC_COLUMNS, TOTALS, SqlParts

JobKey = tuple[str, str]
"""Id and stream of a job."""
_REPORTED = REPORTED.format(more=" AND metric_series.task_id = ANY($1::text[])")
_METRICS = f"""
SELECT metric_totals.task_id, metric_totals.tag, {TOTALS}
FROM unnest($2::text[]) AS asked(tag)
JOIN metric_totals ON hashtextextended(metric_totals.tag, 0) = hashtextextended(asked.tag, 0)
    AND metric_totals.tag = asked.tag AND metric_totals.kind = 'scalar' AND metric_totals.newest
WHERE metric_totals.task_id = ANY($1::text[])"""  # noqa: S608 - our columns


async def details_of(fetch: Fetch, jobs: str, keys: Sequence[JobKey], tags: Iterable[str]) -> list[ViewRow]:
    """Returns the rows of jobs, in the order of their keys; `jobs` selects all jobs."""
    if not keys:
        return []
    ids = sorted({job_id for job_id, _ in keys})
    statement, names = _fields_statement(jobs)
    rows = {(row["id"], row["stream"]): row for row in await fetch(statement, ids)}
    reported = {row["task_id"]: _parsed(row["reported"]) for row in await fetch(_REPORTED, ids)}
    metrics: dict[str, dict[str, ViewRow]] = {}
    if named := list(tags):
        for row in await fetch(_METRICS, ids, named):
            metrics.setdefault(row["task_id"], {})[row["tag"]] = _statistics(row)
    found = []
    for key in keys:
        row = rows[key]
        shown = {name: _shown(row[name], FIELDS[name].column) for name in names}
        given = {**reported.get(key[0], {}), **_parsed(row["parameters"])}
        found.append({**shown, "params": given, "metrics": metrics.get(key[0], {})})
    return found


def _fields_statement(jobs: str) -> tuple[str, list[str]]:
    """Returns the statement for all fields of jobs by id, and the names of the fields."""
    parts, names = SqlParts(), [name for name, known in FIELDS.items() if known.column != "tags"]
    columns = ", ".join(f'{parts.column(FieldName(name))} AS "{name}"' for name in names)
    joined = f"({jobs}) AS job{''.join(parts.joins)}"
    return f"SELECT {columns}, job.parameters FROM {joined} WHERE job.id = ANY($1::text[])", names  # noqa: S608


def _statistics(row: ViewRow) -> ViewRow:
    return {name: _shown(row[column], "float") for name, column in STATISTIC_COLUMNS.items()}


def _parsed(value: str | None) -> dict[str, Any]:
    found = None if value is None else json.loads(value)
    return found if isinstance(found, dict) else {}


def _shown(value: Any, column: str) -> Any:
    """Returns a value as JSON has it, or a time."""
    if isinstance(value, int) and column == "time":
        return time_of_ms(value)
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
