"""The command `summaries search`: the jobs that match a condition, with what it names."""

from collections.abc import Sequence
from typing import Any

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.run import run
from trackside.domain.display.text import Column, counted
from trackside.domain.rows.table import ViewRow
from trackside.projections.database.postgres import database
from trackside.projections.job_search.expressions import FieldName, MetricName, Name
from trackside.projections.job_search.parsing import parse_name
from trackside.projections.job_search.search import FoundJobs, JobSearch, search_jobs
from trackside.projections.reading.reads import json_row

_ALWAYS = ("id", "tag", "remark")


def search(wanted: JobSearch, as_json: bool) -> None:
    """Prints the jobs that match a condition, with the columns that it names."""
    found = run(_search(wanted))
    if as_json:
        jobs = [json_row(job) for job in found.jobs]
        screen.emit({"jobs": jobs, "total": found.total, "next": found.cursor, "types": found.types})
        return
    names = {name: parse_name(name, "columns") for name in found.types if name not in _ALWAYS}
    columns = [Column("job", keep=True)]
    columns += [Column(name, right=found.types[name] in ("int", "float")) for name in names]
    columns += [Column("tag", right=True), Column("remark", optional=True)]
    screen.show_table(columns, [_found_cells(job, list(names.values())) for job in found.jobs])
    shown = f"{len(found.jobs):,} of {counted(found.total, 'job')}"
    screen.complain(f"{shown}; the next page: --after {found.cursor}" if found.cursor else shown)


async def _search(wanted: JobSearch) -> FoundJobs:
    async with database(Addresses().dsn) as opened:
        return await search_jobs(opened, wanted)


def _found_cells(job: ViewRow, names: Sequence[Name]) -> list[object]:
    return [job["id"], *(_value_of(job, name) for name in names), job["tag"], job["remark"]]


def _value_of(job: ViewRow, name: Name) -> Any:
    """Returns the value that a job has for a name, None if it has none."""
    if isinstance(name, FieldName):
        return job[name.name]
    if isinstance(name, MetricName):
        return job["metrics"].get(name.tag, {}).get(name.statistic)
    if ".".join(name.path) in job["params"]:
        return job["params"][".".join(name.path)]
    value: Any = job["params"]
    for part in name.path:
        value = value.get(part) if isinstance(value, dict) else None
    return value
