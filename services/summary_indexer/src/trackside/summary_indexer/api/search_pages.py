"""The pages of jobs together: those that match a condition, and what a job was made from and gave."""

from dataclasses import asdict
from functools import partial

from aiohttp import web

from trackside.projections.job_search.search import SEARCH_LIMIT_S, FoundJobs, JobSearch, search_jobs
from trackside.projections.pages.lineage import LIMIT_S, JobLineage, lineage
from trackside.projections.summaries.jobs import read_job
from trackside.summary_indexer.api.parameters import RequestParameters
from trackside.summary_indexer.api.problems import json_answer
from trackside.summary_indexer.api.reads import ApiReads

SEARCH = ("where", "sort", "descending", "limit", "cursor", "column")


async def search_page(reads: ApiReads, request: web.Request) -> web.Response:
    """Answers with a page of the jobs that match a condition, and with the types of the columns it names."""
    asked = RequestParameters(request.query, {}, SEARCH)
    wanted = JobSearch(
        where=asked.text("where") or "",
        sort=asked.text("sort") or "",
        descending=asked.flag("descending"),
        limit=asked.number("limit", JobSearch().limit),
        cursor=asked.text("cursor") or "",
        columns=tuple(request.query.getall("column", [])),
    )
    pool = reads.curves.pool
    limit_s = min(SEARCH_LIMIT_S, pool.statement_limit_s)
    found: FoundJobs = await pool.use(partial(search_jobs, search=wanted, limit_s=limit_s))
    more = {"total": found.total, "next_cursor": found.cursor, "types": found.types}
    return json_answer({"jobs": found.jobs} | more)


async def lineage_page(reads: ApiReads, request: web.Request) -> web.Response:
    """Answers with what a job was given, what it saved, the jobs before and after it, and lineage files."""
    job_id = RequestParameters(request.query, request.match_info, ()).job()
    pool = reads.curves.pool
    limit_s = min(LIMIT_S, pool.statement_limit_s)
    found: JobLineage = await pool.use(partial(lineage, job_id=job_id, limit_s=limit_s))
    if found == JobLineage(job_id):
        await pool.read(partial(read_job, job_id=job_id))
    return json_answer(asdict(found))
