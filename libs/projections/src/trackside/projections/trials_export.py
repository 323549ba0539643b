"""All trials of a search, one batch after another, by a cursor: a million are never in memory at once."""

from collections.abc import AsyncIterator, Sequence

from trackside.domain.table import ViewRow
from trackside.projections.read_pool import SnapshotModels
from trackside.projections.reads import plain_rows
from trackside.projections.trials_page import TrialFilter, matching_trials, order_of

BATCH_TRIALS = 1_000
SORT_LIMIT_S = 120
"""How long Postgres may sort before the first batch."""


async def export_trials(
    models: SnapshotModels, search_id: str, wanted: TrialFilter
) -> AsyncIterator[Sequence[ViewRow]]:
    """Yields the trials that match, in order, in batches of at most 1,000: those of one moment.

    Rows have trial, task_id, status, value, parameters, duration_s, suggested_at and ended_at. Limit and
    offset of the filter do not count. Raises BadFilterError for a sort key that there is none of.
    """
    key, condition, values = await matching_trials(models, search_id, wanted)
    await models.connection.execute(f"SET LOCAL statement_timeout = '{SORT_LIMIT_S}s'")
    statement = f"""
        SELECT trial, task_id, status, value, parameters, duration_s, suggested_at, ended_at
        FROM (SELECT *, {key} AS sort_key FROM trials WHERE {condition}) AS matching
        ORDER BY {order_of(wanted)}
    """  # noqa: S608
    prepared = await models.connection.prepare(statement)
    cursor = await prepared.cursor(*values)
    while batch := await cursor.fetch(BATCH_TRIALS):
        yield plain_rows(prepared, batch)
