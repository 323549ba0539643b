"""The command `summaries ls`: jobs, the newest first."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from trackside.cli.commands.summaries.reading import place_of, read, time_of
from trackside.cli.render import screen
from trackside.cli.runtime.failures import BadUsage
from trackside.domain.display.text import Column, as_text, counted, one_line
from trackside.eventlog.clock import now_ms
from trackside.projections.database.postgres import Connection
from trackside.projections.summaries.jobs import JobPage, SummaryJobRow, list_jobs
from trackside.projections.summaries.updaters import FailedUpdater, failed_updaters

RECENT_MS = 24 * 3_600_000
"""For how long a failure of an updater is shown below the list."""


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

    async def page(connection: Connection) -> tuple[JobPage, list[FailedUpdater]]:
        jobs = await list_jobs(
            connection, wanted.limit, wanted.after or None, wanted.page, deleted=wanted.everything
        )
        return jobs, await failed_updaters(connection, now_ms() - RECENT_MS)

    found, failed = read(page)
    if as_json:
        jobs = [asdict(job) for job in found.jobs]
        updaters = [asdict(updater) for updater in failed]
        screen.emit(
            {"jobs": jobs, "total": found.total, "next": found.next_cursor, "failed_updaters": updaters}
        )
        return
    columns = [Column("job", keep=True), Column("values", right=True), Column("step", right=True)]
    columns += [Column("newest"), Column("from"), Column("state", keep=True), Column("tag", right=True)]
    columns += [Column("remark", optional=True)]
    screen.show_table(columns, [_cells(job) for job in found.jobs])
    if not found.total:
        screen.complain(
            "no jobs yet: tasks that report values are jobs, and `trackside summaries import DIR`"
        )
    elif found.next_cursor is not None and found.total > len(found.jobs):
        screen.complain(f"of {found.total:,} jobs; the next page: --after {found.next_cursor}")
    _complain_of(failed)


def _complain_of(failed: Sequence[FailedUpdater]) -> None:
    for updater in failed:
        calls, error = counted(updater.failures, "failed call"), one_line(updater.error)
        when = as_text(time_of(updater.failed_ms))
        screen.complain(
            f"updater {one_line(updater.name)}: {calls} since the indexer was started, the last one noted at "
            f"{when}: {error}"
        )


def _cells(job: SummaryJobRow) -> list[object]:
    values = f"{job.points + job.items:,}"
    is_bad = job.quarantined and job.status == "ACTIVE"
    state = counted(job.quarantined, "bad file") if is_bad else job.state
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
