"""Jobs that have summaries: tasks that report, and directories with event files."""

import re
from dataclasses import dataclass

from trackside.projections.database.postgres import Connection, sql
from trackside.projections.summaries.errors import SummaryReadRefused, is_storable, quoted, unknown_job

PAGE_LIMIT = 10
"""How many jobs a page has unless another number is asked for (S20)."""
MAX_PAGE_LIMIT = 999
MAX_PAGE = 1_000_000
_CURSOR = re.compile(r"(-?\d{1,19})\.([A-Za-z0-9._-]{1,128})")


@dataclass(frozen=True, slots=True)
class SummaryJobRow:
    """A job as the list has it; counts are of all its attempts or sessions, times ms since 1970.

    `base` and `path` are where the directory is, both empty for a task. `status` is ACTIVE, VANISHED or
    DELETED; `state` is the same in small letters, but for a task queued, placed, active or ended unless it is
    deleted. `tag` (0 to 10) and `remark` are what people said. `last_step` is the highest step of the
    training, and the times are of its values, None without any. `newest_ms` is what the list is sorted by.
    `bytes` are those read of its files, `quarantined` how many of them can't be read on.
    """

    job_id: str
    stream_id: str
    base: str
    path: str
    status: str
    state: str
    tag: int | None
    remark: str
    points: int
    items: int
    last_step: int | None
    first_ms: int | None
    last_ms: int | None
    newest_ms: int
    files: int
    bytes: int
    quarantined: int


@dataclass(frozen=True, slots=True)
class SummaryFileRow:
    """A file of a directory: up to which byte it is read, and why it isn't read on if it is quarantined."""

    file: str
    number: int
    end_byte: int
    records: int
    status: str
    code: str | None
    message: str
    again_at_ms: int | None
    indexed_ms: int | None


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, newest first; `total` is how many there are on all pages.

    `next_cursor` continues after the last one, None if there may be no more.
    """

    jobs: list[SummaryJobRow]
    total: int
    next_cursor: str | None


async def list_jobs(
    connection: Connection,
    limit: int = PAGE_LIMIT,
    cursor: str | None = None,
    page: int = 0,
    *,
    deleted: bool = False,
) -> JobPage:
    """Returns a page of jobs, those with the newest values first; the deleted ones only if asked for.

    The page begins after `cursor`, or is number `page` of those of `limit` jobs each, from 0, as MindInsight
    counts them. A cursor skips and repeats no job whose values are older. Raises SummaryReadRefused.
    """
    _check_page(limit, cursor, page)
    after_ms, after_id = (None, None) if cursor is None else _decode_cursor(cursor)
    bounds = (after_ms, after_id, limit, page * limit, deleted)
    rows = await connection.fetch(sql("queries", "summary_jobs"), *bounds)
    total = await connection.fetchval(sql("queries", "summary_jobs_total"), deleted)
    jobs = [SummaryJobRow(**dict(row)) for row in rows]
    last = f"{jobs[-1].newest_ms}.{jobs[-1].job_id}" if len(jobs) == limit else None
    return JobPage(jobs, total, last)


async def read_job(connection: Connection, job_id: str) -> SummaryJobRow:
    """Returns one job. Raises SummaryReadRefused if there is none of this id."""
    row = await connection.fetchrow(sql("queries", "summary_job"), job_id) if is_storable(job_id) else None
    if row is None:
        raise unknown_job(job_id)
    return SummaryJobRow(**dict(row))


async def read_files(connection: Connection, job_id: str) -> list[SummaryFileRow]:
    """Returns the files of a directory's job in the order in which they were found; of a task's none."""
    if not is_storable(job_id):
        return []
    rows = await connection.fetch(sql("queries", "summary_files"), job_id)
    return [SummaryFileRow(**dict(row)) for row in rows]


def _check_page(limit: int, cursor: str | None, page: int) -> None:
    if not 1 <= limit <= MAX_PAGE_LIMIT:
        expected = f"expected 1 to {MAX_PAGE_LIMIT}"
        raise SummaryReadRefused("bad_query", "limit", f"a page of {limit} jobs; {expected}")
    if not 0 <= page <= MAX_PAGE:
        raise SummaryReadRefused("bad_query", "page", f"page {page}; expected 0 to {MAX_PAGE:,}")
    if cursor is not None and page:
        raise SummaryReadRefused("bad_query", "cursor", "a cursor and a page number; expected one of them")


def _decode_cursor(cursor: str) -> tuple[int, str]:
    matched = _CURSOR.fullmatch(cursor)
    if matched is None or not -(2**63) <= int(matched[1]) < 2**63:
        expected = "expected `next_cursor` of the page before"
        raise SummaryReadRefused("bad_query", "cursor", f"the cursor {quoted(cursor)}; {expected}")
    return int(matched[1]), matched[2]
