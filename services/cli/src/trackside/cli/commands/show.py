"""Commands that query the read models: `ls`, `show`, `dead-letters`."""

from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.cli.commands import show_task
from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import CommandFailed
from trackside.cli.runtime.run import run
from trackside.domain.aggregate import AggregateType
from trackside.domain.display.text import Column, duration
from trackside.domain.table import ViewRow
from trackside.projections.reads import (
    ReadModels,
    json_row,
    open_read_models,
    queried_rows,
    row_of_stream,
)


def ls(limit: int, as_json: bool) -> None:
    """Prints all streams that have begun, such as searches and batches, the newest first."""
    run(_ls(limit, as_json))


def show(stream_id: str, as_json: bool) -> None:
    """Prints a stream or a task; raises CommandFailed if there is none of this id."""
    run(_show(stream_id, as_json))


def dead_letters(limit: int, as_json: bool) -> None:
    """Prints the records that could not be decoded, the newest first."""
    run(_dead_letters(limit, as_json))


async def _ls(limit: int, as_json: bool) -> None:
    found = []
    async with open_read_models(Addresses().dsn) as models:
        for aggregate in AGGREGATES.types:
            found += [(aggregate, row) for row in await models.rows(f"{aggregate.kind}.newest", limit)]
    found = sorted(found, key=lambda each: each[1]["started_at"], reverse=True)[:limit]
    if as_json:
        screen.emit([json_row(_named(aggregate, row)) for aggregate, row in found])
        return
    columns = [
        Column("id", keep=True),
        Column("kind"),
        Column("status"),
        Column("ended", right=True),
        Column("best", right=True),
        Column("tuner", optional=True),
        Column("runs", optional=True),
        Column("started", optional=True),
        Column("took", right=True),
    ]
    screen.show_table(columns, [_cells(aggregate, row) for aggregate, row in found])
    if not found:
        screen.complain("nothing yet; start a search or tasks with `trackside submit SPEC.yaml`")


def _named(aggregate: AggregateType[Any], row: ViewRow) -> ViewRow:
    return {"kind": aggregate.kind, "id": row[aggregate.view.id_column], **row}


def _cells(aggregate: AggregateType[Any], row: ViewRow) -> list[object]:
    own = aggregate.view.listed(row)
    special = [own.ended, own.best, own.tuner, own.runs]
    took = duration(row["duration_s"])
    return [row[aggregate.view.id_column], aggregate.kind, row["status"], *special, row["started_at"], took]


async def _show(stream_id: str, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        found = await row_of_stream(models, stream_id)
        if found is not None:
            await _show_stream(models, *found, stream_id, as_json)
            return
        task = await models.row("task", stream_id)
        if task is not None:
            await show_task.show_task(models, task, as_json)
            return
        commands = await models.rows("commands", stream_id)
    if not commands:
        first, *others = (aggregate.kind for aggregate in AGGREGATES.types)
        more = "".join(f", and no {kind}" for kind in others)
        raise CommandFailed(f"there is no {first} or task {stream_id}{more}; see `trackside ls`")
    _show_commands(stream_id, commands, as_json)


async def _show_stream(
    models: ReadModels, aggregate: AggregateType[Any], row: ViewRow, stream_id: str, as_json: bool
) -> None:
    rows = await queried_rows(models, aggregate, aggregate.view.page_queries, stream_id)
    if as_json:
        lists = {**aggregate.view.lists(row, rows), "commands": await models.rows("commands", stream_id)}
        listed = {name: [json_row(each) for each in found] for name, found in lists.items()}
        screen.emit(json_row(row) | listed)
        return
    page = aggregate.view.page(row, rows)
    screen.show_table([Column(""), Column("", keep=True)], page.facts)
    for table in page.tables:
        screen.say("")
        screen.show_text_table(table)


def _show_commands(stream_id: str, commands: list[ViewRow], as_json: bool) -> None:
    """Shows a stream that nothing was begun on: only its commands are known."""
    if as_json:
        screen.emit({"stream_id": stream_id, "commands": [json_row(row) for row in commands]})
        return
    columns = [Column("command", keep=True), Column("status"), Column("code"), Column("message", keep=True)]
    cells = [[row["command_type"], row["status"], row["code"], row["message"]] for row in commands]
    screen.show_table(columns, cells, title=stream_id)


async def _dead_letters(limit: int, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        rows = await models.rows("dead_letters", limit)
    if as_json:
        screen.emit([json_row(row) for row in rows])
        return
    columns = [
        Column("when"),
        Column("topic", keep=True),
        Column("part", right=True),
        Column("offset", right=True),
        Column("code"),
        Column("reason", keep=True),
    ]
    cells = [
        [row["written_at"], row["topic"], row["partition"], row["offset"], row["code"], row["message"]]
        for row in rows
    ]
    screen.show_table(columns, cells)
    if not rows:
        screen.complain("no dead letters")
