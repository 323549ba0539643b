"""Jobs with summaries that users choose from: those of one stream, or all, filtered by a text."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from trackside.domain.rows.table import ViewRow
from trackside.projections.database.postgres import LIVE_SCHEMA, Connection
from trackside.projections.reading.read_pool import SnapshotModels
from trackside.projections.summaries.errors import SummaryReadRefused

_CONDITION = f"""
    ($1::text IS NULL OR briefs.stream_id = $1 OR briefs.job_id IN (
        SELECT coalesce(task_id, summary_id) FROM {LIVE_SCHEMA}.summary_jobs WHERE summary_id = $1
    ))
    AND ($2 = '' OR strpos(lower(briefs.job_id), lower($2)) > 0)
    AND briefs.job_id NOT IN (
        SELECT coalesce(task_id, summary_id) FROM {LIVE_SCHEMA}.summary_jobs WHERE status = 'DELETED'
    )
"""  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class ChosenJobs:
    """A page of jobs, those with the newest values first, and how many there are on all pages.

    Rows have `job_id`, `stream_id`, `points`, `items` (values that are no points), `last_step` and `last_at`.
    """

    rows: list[ViewRow]
    total: int


async def read_jobs(
    models: SnapshotModels, stream_id: str | None, text: str = "", limit: int = 20, offset: int = 0
) -> ChosenJobs:
    """Returns the jobs of a stream, None for those of all, whose id contains a text in any case.

    Jobs without values so far and deleted ones are left out.
    """
    rows = await models.fetch(
        "SELECT briefs.job_id, briefs.stream_id, briefs.points, briefs.items, briefs.last_step, "  # noqa: S608
        f"time_of(briefs.last_ms) AS last_at FROM summary_briefs AS briefs WHERE {_CONDITION} "
        "ORDER BY briefs.last_ms DESC, briefs.job_id LIMIT $3 OFFSET $4",
        *(stream_id, text, limit, offset),
    )
    statement = f"SELECT count(*) AS jobs FROM summary_briefs AS briefs WHERE {_CONDITION}"  # noqa: S608
    return ChosenJobs(rows, int((await models.fetch(statement, stream_id, text))[0]["jobs"]))


@asynccontextmanager
async def live_tables(models: SnapshotModels) -> AsyncIterator[Connection]:
    """Yields the connection of a snapshot for reads of summaries, which are on the tables, not on the views.

    The names of views are searched first again after the block, also after a refused read.
    """
    connection = models.connection
    before = await connection.fetchval("SELECT current_setting('search_path')")
    await connection.execute(f"SET LOCAL search_path = {LIVE_SCHEMA}")
    try:
        yield connection
    except SummaryReadRefused:  # after an error of Postgres the whole transaction is over
        await connection.execute("SELECT set_config('search_path', $1, true)", before)
        raise
    await connection.execute("SELECT set_config('search_path', $1, true)", before)
