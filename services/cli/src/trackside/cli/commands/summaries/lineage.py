"""The command `summaries lineage`: what a job was given, what it saved, and what came of that."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.run import run
from trackside.domain.display.text import Column
from trackside.domain.rows.table import ViewRow
from trackside.projections.database.postgres import database
from trackside.projections.pages.lineage import JobLineage
from trackside.projections.pages.lineage import lineage as read_lineage
from trackside.projections.summaries.jobs import read_job

TABLES = {
    "inputs": ("use", "name", "source", "uri"),
    "artifacts": ("name", "version", "kind", "size_bytes", "sha256"),
    "models": ("model_id", "version", "stage", "sha256"),
    "upstream": ("level", "job_id", "stream", "via"),
    "downstream": ("level", "job_id", "stream", "via"),
}
"""The lists of a lineage, and the columns of each that are shown if its rows have them."""
DIGITS = 12


def lineage(job: str, as_json: bool) -> None:
    """Prints the lineage of a job."""
    found = run(_lineage(job))
    if as_json:
        screen.emit(asdict(found))
        return
    parts = 0
    for title, names in TABLES.items():
        rows: Sequence[ViewRow] = getattr(found, title)
        if rows:
            columns = [name for name in names if any(name in row for row in rows)]
            screen.show_table(
                [Column(name) for name in columns], [_cells(row, columns) for row in rows], title
            )
            screen.say("")
            parts += 1
    for name, value in found.reported.items():
        screen.say(f"{name}, of a lineage file")
        _show_reported(value)
        screen.say("")
        parts += 1
    if not parts:
        screen.complain(f"job {job} has no inputs, saved nothing, and has no lineage files")


async def _lineage(job: str) -> JobLineage:
    async with database(Addresses().dsn) as opened:
        found = await read_lineage(opened, job)
        if found == JobLineage(job):
            await opened.transaction(lambda connection: read_job(connection, job))
        return found


def _cells(row: ViewRow, columns: Sequence[str]) -> list[Any]:
    return [str(row.get(name) or "")[:DIGITS] if name == "sha256" else row.get(name) for name in columns]


def _show_reported(value: object) -> None:
    if isinstance(value, dict) and not any(isinstance(each, dict | list) for each in value.values()):
        screen.show_table([Column("name"), Column("value", keep=True)], list(value.items()))
    else:
        screen.emit(value)
