"""The command `summaries ls`: jobs, the newest first."""

from dataclasses import asdict, dataclass

from trackside.cli.commands.summaries.reading import place_of, read, time_of
from trackside.cli.render import screen
from trackside.cli.runtime.failures import BadUsage
from trackside.domain.display.text import Column, counted
from trackside.projections.postgres import Connection
from trackside.projections.summaries.jobs import JobPage, SummaryJobRow, list_jobs


@dataclass(frozen=True, slots=True)
class ListedPage:
    """Which page of the list: after a cursor, or by its number; `everything` includes deleted jobs."""

    limit: int
    after: str
    page: int
    everything: bool


def ls(wanted: ListedPage, where: str, as_json: bool) -> None:
    """Prints a page of jobs, the newest first; with a condition those that match it, as `search` does."""
    if where:
        from trackside.cli.commands.summaries.searching import search
        from trackside.projections.job_search.search import JobSearch

        if wanted.page or wanted.everything:
            raise BadUsage("--where finds jobs that aren't deleted, by --after: leave out --page and --all")
        search(JobSearch(where, "updated_at", True, wanted.limit, wanted.after), as_json)
        return

    async def page(connection: Connection) -> JobPage:
        return await list_jobs(
            connection, wanted.limit, wanted.after or None, wanted.page, deleted=wanted.everything
        )

    found = read(page)
    if as_json:
        screen.emit(
            {"jobs": [asdict(job) for job in found.jobs], "total": found.total, "next": found.next_cursor}
        )
        return
    columns = [Column("job", keep=True), Column("values", right=True), Column("step", right=True)]
    columns += [Column("newest"), Column("from"), Column("state"), Column("tag", right=True)]
    columns += [Column("remark", optional=True)]
    screen.show_table(columns, [_cells(job) for job in found.jobs])
    if not found.total:
        screen.complain(
            "no jobs yet: tasks that report values are jobs, and `trackside summaries import DIR`"
        )
    elif found.next_cursor is not None and found.total > len(found.jobs):
        screen.complain(f"of {found.total:,} jobs; the next page: --after {found.next_cursor}")


def _cells(job: SummaryJobRow) -> list[object]:
    values = f"{job.points + job.items:,}"
    state = job.status.lower()
    if job.quarantined and job.status == "ACTIVE":
        state = counted(job.quarantined, "bad file")
    return [
        job.job_id,
        values,
        job.last_step,
        time_of(job.newest_ms),
        place_of(job),
        state,
        job.tag,
        job.remark,
    ]
