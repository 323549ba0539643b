"""Commands that show a stream or a task from the read models, and dead letters: `show`, `dead-letters`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from trackside.cli.render import screen
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.domain.display.end_rate import EndRate
from trackside.domain.display.selection import SHOWN_ROWS, BadSelectionError, Selection, selected
from trackside.domain.display.text import Column
from trackside.domain.display.view import View
from trackside.domain.rows.table import ViewRow
from trackside.eventlog.clock import now_ms
from trackside.projections.reading.reads import (
    ReadModels,
    json_row,
    open_read_models,
    parked_text,
    queried_rows,
    row_of_stream,
)


def show(stream_id: str, selection: Selection, as_json: bool) -> None:
    """Prints a stream with the selected rows, or a task; raises CommandFailed if there is none of this id."""
    run(_show(stream_id, selection, as_json))


def lineage(stream_id: str, as_json: bool) -> None:
    """Prints which trials of a search continue which; raises CommandFailed for a stream that has none."""
    run(_lineage(stream_id, as_json))


def dead_letters(limit: int, as_json: bool) -> None:
    """Prints the records that could not be decoded, the newest first."""
    run(_dead_letters(limit, as_json))


async def _show(stream_id: str, selection: Selection, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        found = await row_of_stream(models, stream_id)
        if found is not None:
            await _show_stream(models, *found, selection, as_json)
            return
        task = await models.row("task", stream_id)
        if task is not None:
            if selection:
                raise BadUsage(f"{stream_id} is a task: --limit, --sort and --status are for what has tasks")
            from trackside.cli.commands import show_task  # with what reads the log

            await show_task.show_task(models, task, as_json)
            return
        forgotten = await models.row("forgotten_stream", stream_id)
        if forgotten is not None:
            _show_forgotten(forgotten, as_json)
            return
        commands = await models.rows("commands", stream_id)
        parked = await models.row("parked_stream", stream_id)
    if parked is not None and not as_json:
        screen.say(f"{stream_id}: {parked_text(parked)}; see `trackside repair --list`")
        if not commands:
            return
    if not commands:
        raise CommandFailed(
            f"there is nothing with the id {stream_id}; see `trackside ls` and `trackside tasks`"
        )
    _show_commands(stream_id, commands, as_json)


def _show_forgotten(row: ViewRow, as_json: bool) -> None:
    """Prints all that is known of a stream that was forgotten."""
    if as_json:
        screen.emit(json_row(row) | {"forgotten": True})
        return
    unit = row["unit"].removesuffix("s") if row["ended"] == 1 else row["unit"]
    ends = ", ".join(f"{count} {end}" for end, count in row["ends"].items())
    facts = [
        ("id", row["stream_id"]),
        ("kind", row["kind"]),
        ("status", f"FORGOTTEN, was {row['status']}"),
        ("ended", f"{row['ended']} {unit}: {ends}" if ends else f"{row['ended']} {unit}"),
        ("started", row["started_at"]),
        ("ended at", row["ended_at"]),
        ("forgotten", row["forgotten_at"]),
        ("reason", row["reason"]),
    ]
    screen.show_table([Column(""), Column("", keep=True)], facts)


async def _show_stream(
    models: ReadModels, view: View[Any], row: ViewRow, selection: Selection, as_json: bool
) -> None:
    stream_id = row[view.id_column]
    rows = await queried_rows(models, view, view.page_queries, stream_id)
    limit = SHOWN_ROWS if selection.limit is None and not as_json else selection.limit
    selection = replace(selection, limit=limit if selection.sort else None)
    every = view.ordered(row, rows[view.list_query])
    try:
        listed = selected(every, selection, view.sort_keys(row), view.status_of, view.statuses)
    except BadSelectionError as error:
        raise BadUsage(str(error)) from None
    if limit is not None and not selection.sort:
        listed = list(view.chosen(listed, limit))
    rows = {**rows, view.list_query: listed}
    labels, parked = await models.row("labels", stream_id), await models.row("parked_stream", stream_id)
    if as_json:
        lists = {**view.lists(row, rows), "commands": await models.rows("commands", stream_id)}
        found = {name: [json_row(each) for each in listed] for name, listed in lists.items()}
        screen.emit(
            json_row(row)
            | found
            | {"stream_labels": labels and json_row(labels)}
            | {"parked": parked and parked_text(parked)}
        )
        return
    facts = view.facts(row, {**rows, view.list_query: every})
    if parked is not None:
        facts = [(name, parked_text(parked) if name == "status" else value) for name, value in facts]
    pace = _pace(row, every, view.left(row))
    facts = [*facts, *_label_facts(labels), *([("pace", pace)] if pace else [])]
    screen.show_table([Column(""), Column("", keep=True)], facts)
    for table in view.tables(row, rows):
        screen.say("")
        screen.show_text_table(table)
    if len(listed) < len(every):
        by_choice = selection.sort or selection.status
        screen.say(_selected(listed, every, view) if by_choice else view.left_out(listed, every))


def _label_facts(labels: ViewRow | None) -> list[tuple[str, object]]:
    """Returns the labels of a stream that has some; a model has tags of its own, too."""
    if labels is None:
        return []
    archived = "yes: `trackside ls` lists it with --archived" if labels["archived"] else ""
    found = [("stream tags", ", ".join(labels["tags"])), ("note", labels["note"]), ("archived", archived)]
    return [(name, text) for name, text in found if text]


async def _lineage(stream_id: str, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        found = await row_of_stream(models, stream_id)
        if found is None:
            raise CommandFailed(f"there is no search {stream_id}; see `trackside ls`")
        view = found[0]
        rows = await queried_rows(models, view, view.page_queries, stream_id)
        lines = view.lineage(rows)
        if not lines:
            raise CommandFailed(f"{stream_id} has no trials: only a search has a lineage")
        if as_json:
            screen.emit([json_row(row) for row in await models.rows(f"{view.kind}.lineage", stream_id)])
            return
    for line in lines:
        screen.say(line)


def _pace(row: ViewRow, parts: Sequence[ViewRow], left: int | None) -> str:
    """Returns how fast parts of a running stream ended lately and how long the others take; else nothing."""
    if row["ended_at"] is not None:
        return ""
    ends_ms = sorted(_ms(part["ended_at"]) for part in parts if part.get("ended_at") is not None)
    return EndRate(_ms(row["started_at"]), ends_ms).text(left, now_ms())


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _selected(listed: Sequence[ViewRow], every: Sequence[ViewRow], view: View[Any]) -> str:
    """Returns how many rows aren't shown of those that were asked for, and how to see them."""
    return f"{len(listed)} of {len(every)} {view.list_query}; see --limit, --sort and --status"


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
