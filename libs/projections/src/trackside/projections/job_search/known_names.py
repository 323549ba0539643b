"""Refuses names of metrics and parameters that no job has, with the nearest one that there is."""

from collections.abc import Awaitable, Callable, Iterable

from trackside.contracts.envelope.refusals import nearest
from trackside.domain.rows.table import ViewRow
from trackside.projections.job_search.expressions import MetricName, ParameterPath, SearchRefused
from trackside.projections.job_search.fields import shown_name

Fetch = Callable[..., Awaitable[list[ViewRow]]]
"""Returns the rows of a statement, given its values."""
MAX_NAMES = 5_000
"""How many names are compared with one that is unknown."""
MAX_TASKS = 10_000
"""How many tasks have their parameters' names compared with one that is unknown: the newest."""
MAX_SHOWN = 200
_UNKNOWN_TAGS = """
SELECT tag FROM unnest($1::text[]) AS asked(tag)
WHERE NOT EXISTS (
    SELECT FROM metric_series
    WHERE hashtextextended(metric_series.tag, 0) = hashtextextended(asked.tag, 0)
        AND metric_series.tag = asked.tag AND metric_series.kind = 'scalar'
)"""
_TAGS = "SELECT DISTINCT tag FROM metric_series WHERE kind = 'scalar' LIMIT $1"
_HAS_PARAMETER = """
SELECT
    EXISTS (SELECT FROM tasks WHERE parameters ?| $1::text[])
    OR EXISTS (
        SELECT FROM metric_series
        JOIN summary_items ON summary_items.series = metric_series.series
        WHERE metric_series.kind = 'hparams' AND summary_items.body -> 'value' -> 'values' ?| $1::text[]
    ) AS known"""
_PARAMETERS = """
SELECT DISTINCT jsonb_object_keys(newest.parameters) AS name
FROM (SELECT parameters FROM tasks ORDER BY queued_ms DESC LIMIT $2) AS newest
LIMIT $1"""


async def check_metrics(fetch: Fetch, names: Iterable[MetricName], path: str) -> None:
    """Raises SearchRefused for the first metric that no job has."""
    asked = list(names)
    unknown = {row["tag"] for row in await fetch(_UNKNOWN_TAGS, sorted({name.tag for name in asked}))}
    for name in asked:
        if name.tag in unknown:
            known = [row["tag"][:MAX_SHOWN] for row in await fetch(_TAGS, MAX_NAMES)]
            message = f"no job has a metric {name.tag[:MAX_SHOWN]!r}{nearest(name.tag, known)}"
            raise SearchRefused("unknown_metric", message, path=path, at=name.at)


async def check_parameters(fetch: Fetch, names: Iterable[ParameterPath], path: str) -> None:
    """Raises SearchRefused for the first parameter that no job has."""
    for name in names:
        found = await fetch(_HAS_PARAMETER, [name.path[0], ".".join(name.path)])
        if not found[0]["known"]:
            known = [row["name"][:MAX_SHOWN] for row in await fetch(_PARAMETERS, MAX_NAMES, MAX_TASKS)]
            hint = nearest(".".join(name.path), known)
            message = f"no job has a parameter {shown_name(name)[len('params.') :][:MAX_SHOWN]!r}{hint}"
            raise SearchRefused("unknown_parameter", message, path=path, at=name.at)
