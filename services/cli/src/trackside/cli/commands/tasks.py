"""Commands that list tasks and devices, and report on them: `tasks`, `devices`, `report`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trackside.cli.commands import show_batch as batch_reading
from trackside.cli.render import report as reports
from trackside.cli.render import report_page, screen
from trackside.cli.render.report import Report, Section
from trackside.cli.render.screen import Column
from trackside.cli.runtime import heartbeats as pulses
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import Failure, Misuse
from trackside.cli.runtime.options import AsJson, Limit
from trackside.cli.runtime.run import run
from trackside.contracts.fleet import WorkerHeartbeat
from trackside.contracts.memory import shown
from trackside.contracts.refusals import nearest
from trackside.domain.task import TaskState
from trackside.projections.reads import ReadModels, ViewRow, json_row, open_read_models

STATES = tuple(state.value for state in TaskState)
COLUMNS = 6
"""How many result columns a screen shows; the page and the JSON have them all."""


def tasks(
    stream: Annotated[str, typer.Option("--stream", metavar="ID", help="Only of this search or batch.")] = "",
    state: Annotated[str, typer.Option("--state", help=f"Only these: {', '.join(STATES)}.")] = "",
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List tasks, the newest first: where each is, what it runs on, how it ended.

    \b
    Examples:
      trackside tasks
      trackside tasks --state queued
      trackside tasks --stream compare-1 --state ended --json
    """
    if state and state not in STATES:
        expected = f"expected one of: {', '.join(STATES)}{nearest(state, STATES)}"
        raise Misuse(f"--state {state!r}: no task is in it; {expected}")
    run(_tasks(stream, state, limit, as_json))


def devices(as_json: AsJson = False) -> None:
    """List the devices of all workers: what they are, what is reserved and used of them, what runs there.

    How much is used, and how busy a device is, comes from its worker's newest heartbeat.

    \b
    Examples:
      trackside devices
      trackside devices --json
    """
    run(_devices(as_json))


def report(
    stream_id: Annotated[str, typer.Argument(metavar="ID", help="A batch, or a search.")],
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page too.")] = None,
    as_json: AsJson = False,
) -> None:
    """Report on each group of a batch, or on the trials of a search: results, times, and what failed.

    \b
    Examples:
      trackside report compare-1
      trackside report compare-1 --html compare-1.html
      trackside report digits-1 --json
    """
    found = run(reported(stream_id))
    if html is not None:
        try:
            html.write_text(report_page.page(found), encoding="utf-8")
        except OSError as error:
            raise Failure(f"{html}: cannot be written: {error.strerror or error}") from error
    if as_json:
        screen.emit(asdict(found))
    elif html is not None:
        screen.say(f"{html} written")
    else:
        show(found)


async def _tasks(stream: str, state: str, limit: int, as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        rows = await models.rows("some_tasks", stream or None, state or None, limit)
    if as_json:
        screen.emit([json_row(row) for row in rows])
        return
    columns = [
        Column("task", keep=True),
        Column("type", optional=True),
        Column("state"),
        Column("device", keep=True),
        Column("attempt", right=True),
        Column("end"),
        Column("value", right=True),
        Column("queued", optional=True),
    ]
    screen.show_table(columns, [_task_cells(row) for row in rows])
    if not rows:
        screen.complain("no such tasks")


def _task_cells(row: ViewRow) -> list[object]:
    attempt = {"status": row["attempt_status"]}
    return [
        row["task_id"],
        row["task_type"],
        batch_reading.state_of(row, attempt),
        batch_reading.device_of(row),
        row["attempts"],
        row["ending"],
        row["objective"],
        row["queued_at"],
    ]


async def _devices(as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        rows = await models.rows("devices")
    beats = await pulses.newest_beats(len({row["worker_id"] for row in rows})) if rows else {}
    rows = [pulses.with_use(row, beats) for row in rows]
    if as_json:
        screen.emit([json_row(row) for row in rows])
        return
    columns = [
        Column("device", keep=True),
        Column("kind", optional=True),
        Column("name", optional=True),
        Column("memory", right=True),
        Column("reserved", right=True),
        Column("used", right=True),
        Column("busy", right=True),
        Column("state"),
        Column("tasks", keep=True),
    ]
    screen.show_table(columns, [_device_cells(row) for row in rows])
    for worker_id, beat in sorted(beats.items()):
        _say_host(worker_id, beat)
    for row in rows:
        if row["unhealthy"]:
            screen.say(f"{row['worker_id']}/{row['device_id']} has failed: {row['unhealthy']}")
    if not rows:
        screen.complain("no worker has joined yet; see `trackside status`")


def _device_cells(row: ViewRow) -> list[object]:
    return [
        f"{row['worker_id']}/{row['device_id']}",
        row["kind"],
        row["name"],
        shown(row["memory_bytes"]),
        shown(row["reserved_bytes"]) if row["reserved_bytes"] else None,
        None if row["used_bytes"] is None else shown(row["used_bytes"]),
        None if row["utilisation_percent"] is None else f"{row['utilisation_percent']:.0f} %",
        row["state"],
        row["task_ids"],
    ]


def _say_host(worker_id: str, beat: WorkerHeartbeat) -> None:
    """Says how busy a worker's host is, as far as it has told."""
    parts = [] if beat.cpu_percent is None else [f"CPU {beat.cpu_percent:.0f} %"]
    parts += [] if beat.available_bytes is None else [f"{shown(beat.available_bytes)} of memory free"]
    if parts:
        screen.say(f"{worker_id}: {', '.join(parts)}")


async def reported(stream_id: str) -> Report:
    """Gives the report of a batch or a search as Postgres has it now; raises Failure if there is none."""
    async with open_read_models(Addresses().dsn) as models:
        return await _found(models, stream_id)


async def _found(models: ReadModels, stream_id: str) -> Report:
    attempts = {row["task_id"]: row for row in await models.rows("last_attempts", stream_id)}
    batch = await models.row("batch", stream_id)
    if batch is not None:
        groups = await models.rows("groups", stream_id)
        tasks = batch_reading.in_order(batch, await models.rows("tasks", stream_id))
        return reports.of_batch(batch, groups, tasks, attempts)
    search = await models.row("search", stream_id)
    if search is not None:
        trials = await models.rows("trials", stream_id)
        return reports.of_search(search, trials, await models.rows("tasks", stream_id), attempts)
    raise Failure(f"there is no search or batch {stream_id}; `trackside ls` lists them")


def show(report: Report) -> None:
    """Prints a report: a table of results and one of failures for each group."""
    took = None if report.ended_at is None else (report.ended_at - report.started_at).total_seconds()
    name = f" {report.name}" if report.name else ""
    screen.say(f"{report.kind} {report.id}{name}: {report.status}, took {screen.duration(took)}")
    for section in report.sections:
        _show_section(section)


def _show_section(section: Section) -> None:
    over = f", {section.open} not over" if section.open else ""
    screen.say(
        f"\n{section.name} {section.status}: "
        f"{len(section.finished)} finished, {len(section.failed)} did not finish{over}"
    )
    if section.finished:
        names = section.columns[:COLUMNS]
        columns = [Column("task", keep=True), *(Column(name, right=True, optional=True) for name in names)]
        columns += [
            Column("load", right=True),
            Column("train", right=True),
            Column("attempts", right=True, optional=True),
        ]
        cells = [
            [
                row.name.replace(" ", "\u00a0"),
                *(row.cells.get(name) for name in names),
                _span(row.load_time_ms),
                _span(row.train_time_ms),
                row.attempts,
            ]
            for row in section.finished
        ]
        screen.show_table(columns, cells)
        if len(section.columns) > COLUMNS:
            more = ", ".join(section.columns[COLUMNS:])
            screen.say(f"with --html or --json also: {more}")
    if section.failed:
        columns = [
            Column("did not finish", keep=True),
            Column("ending"),
            Column("stage"),
            Column("attempts", right=True),
            Column("message", keep=True),
        ]
        failures = [
            [row.name, row.ending, row.stage, row.attempts, _first_line(row.message)]
            for row in section.failed
        ]
        screen.show_table(columns, failures)


def _span(ms: int | None) -> str:
    return screen.duration(None if ms is None else ms / 1000)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""
