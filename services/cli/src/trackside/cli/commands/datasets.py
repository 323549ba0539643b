"""The commands `trackside datasets ...`: rows are read from Postgres."""

from trackside.aggregates.dataset.aggregate import DATASET
from trackside.aggregates.dataset.messages import DeleteDataset, PauseDataset, ResumeDataset
from trackside.cli.commands import show as streams
from trackside.cli.commands.publishing import Publishing
from trackside.cli.commands.submit import check_id, send
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.memory import shown
from trackside.contracts.envelope.refusals import nearest
from trackside.domain.display.selection import Selection
from trackside.domain.display.text import Column
from trackside.projections.reading.reads import json_row, open_read_models

MOST_DATASETS = 1_000


def ls(limit: int, as_json: bool) -> None:
    """Prints datasets, the newest first."""
    run(_ls(limit, as_json))


def show(dataset: str, as_json: bool) -> None:
    """Prints a dataset and the tasks that watch it; raises CommandFailed if there is none."""
    check_id(dataset)
    run(_check_known(dataset))
    streams.show(dataset, Selection(), as_json)


def pause(dataset: str, reason: str, publishing: Publishing) -> None:
    """Pauses a dataset."""
    send(dataset, PauseDataset, {"reason": reason}, publishing)


def resume(dataset: str, publishing: Publishing) -> None:
    """Resumes a dataset."""
    send(dataset, ResumeDataset, {}, publishing)


def delete(dataset: str, reason: str, publishing: Publishing) -> None:
    """Deletes a dataset."""
    send(dataset, DeleteDataset, {"reason": reason}, publishing)


async def _ls(limit: int, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        rows = await models.rows(f"{DATASET.kind}.newest", limit)
    if as_json:
        screen.emit([json_row(row) for row in rows])
        return
    columns = [Column("dataset", keep=True), Column("status"), Column("samples", right=True)]
    columns += [Column("size", right=True), Column("format"), Column("reason", keep=True), Column("metrics")]
    columns += [Column("url", optional=True), Column("observed", optional=True)]
    names = ("dataset_id", "status", "lines", "bytes", "format", "reason", "metrics", "url", "observed_at")
    listed = [
        {**row, "bytes": shown(row["bytes"]), "reason": row["reason"] or row["waits_for"]} for row in rows
    ]
    screen.show_table(columns, [[row[name] for name in names] for row in listed])
    if not rows:
        screen.complain("no datasets yet; register one with `trackside submit FILE.yaml --id NAME`")


async def _check_known(dataset: str) -> None:
    async with open_read_models(Addresses().dsn) as models:
        if await models.row(f"{DATASET.kind}.one", dataset) is not None:
            return
        known = [row["dataset_id"] for row in await models.rows(f"{DATASET.kind}.newest", MOST_DATASETS)]
    hint = nearest(dataset, known)
    raise CommandFailed(f"there is no dataset {dataset}{hint}; `trackside datasets ls` lists them")
