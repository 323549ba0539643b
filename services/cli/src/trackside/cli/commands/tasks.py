"""Commands that list tasks and devices, and report on them: `tasks`, `devices`, `report`."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from trackside.aggregates.listings import LISTINGS
from trackside.cli.render import report_page, screen
from trackside.cli.render.history_chart import sparkline
from trackside.cli.render.report import StreamReport, counts_of, stream_report
from trackside.cli.runtime import heartbeats
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.contracts.envelope.memory import shown
from trackside.contracts.envelope.refusals import nearest
from trackside.contracts.fleet.fleet import WorkerHeartbeat
from trackside.domain.display.report import FinishedTask, ReportSection
from trackside.domain.display.selection import SHOWN_ROWS
from trackside.domain.display.task_rows import device_of, state_of
from trackside.domain.display.text import Column, duration
from trackside.domain.rows.table import ViewRow
from trackside.domain.tasks.task import TaskState
from trackside.projections.reading.reads import json_row, open_read_models, queried_rows, row_of_stream

STATES = tuple(state.value for state in TaskState)
COLUMNS = 6
"""How many result columns a screen shows; the HTML page and JSON have all."""


def tasks(stream: str, state: str, limit: int, as_json: bool) -> None:
    """Prints tasks, the newest first; empty `stream` and `state` mean any."""
    if state and state not in STATES:
        expected = f"expected one of: {', '.join(STATES)}{nearest(state, STATES)}"
        raise BadUsage(f"--state {state!r}: there is no such state; {expected}")
    run(_tasks(stream, state, limit, as_json))


def devices(as_json: bool) -> None:
    """Prints the devices of all workers with their use."""
    run(_devices(as_json))


def report(stream_id: str, html: Path | None, as_json: bool) -> None:
    """Prints the report of a stream, or writes it as an HTML page."""
    found = run(report_of(stream_id))
    if html is not None:
        try:
            html.write_text(report_page.page(found), encoding="utf-8")
        except OSError as error:
            raise CommandFailed(f"{html}: cannot be written: {error.strerror or error}") from error
    if as_json:
        screen.emit({name: value for name, value in asdict(found).items() if name != "page"})
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
        state_of(row, attempt),
        device_of(row),
        row["attempts"],
        row["ending"],
        row["objective"],
        row["queued_at"],
    ]


async def _devices(as_json: bool) -> None:
    async with open_read_models(Addresses().dsn) as models:
        rows = await models.rows("devices")
    newest = await heartbeats.newest_heartbeats(len({row["worker_id"] for row in rows})) if rows else {}
    rows = [heartbeats.with_use(row, newest) for row in rows]
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
    for worker_id, beat in sorted(newest.items()):
        _say_host(worker_id, beat)
    for sentence in _shared(rows):
        screen.say(sentence)
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
        f"{row['state']}, draining" if row["draining"] and row["state"] == "busy" else row["state"],
        row["task_ids"],
    ]


def _shared(rows: Sequence[ViewRow]) -> Iterator[str]:
    """Yields sentences about what workers on one host share."""
    told: set[str] = set()
    pools: dict[str, list[str]] = {}
    for row in rows:
        name = f"{row['worker_id']}/{row['device_id']}"
        if row["shared_with"] and name not in told:
            told.update(row["shared_with"])
            yield f"{_listed([name, *row['shared_with']])} are one GPU: what a task has of it counts for all"
        if row["memory_pool"] and row["state"] in ("busy", "free", "failed", "drained"):
            pools.setdefault(row["memory_pool"], []).append(row["worker_id"])
    for workers in pools.values():
        if len(names := list(dict.fromkeys(workers))) > 1:
            yield f"{_listed(names)} share the memory of one host"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _say_host(worker_id: str, beat: WorkerHeartbeat) -> None:
    """Prints the load of a worker's host, as far as it is known."""
    parts = [] if beat.cpu_percent is None else [f"CPU {beat.cpu_percent:.0f} %"]
    parts += [] if beat.available_bytes is None else [f"{shown(beat.available_bytes)} of memory free"]
    if parts:
        screen.say(f"{worker_id}: {', '.join(parts)}")


async def report_of(stream_id: str) -> StreamReport:
    """Returns the report of a stream from Postgres; raises CommandFailed if there is none of this id."""
    async with open_read_models(Addresses().dsn) as models:
        found = await row_of_stream(models, stream_id)
        if found is None:
            kinds = " or ".join(LISTINGS)
            raise CommandFailed(f"there is no {kinds} {stream_id}; `trackside ls` lists them")
        view, row = found
        return stream_report(view, row, await queried_rows(models, view, view.report_queries, stream_id))


def show(report: StreamReport) -> None:
    """Prints a report: a table of results and one of failures for each group."""
    took = None if report.ended_at is None else (report.ended_at - report.started_at).total_seconds()
    name = f" {report.name}" if report.name else ""
    screen.say(f"{report.kind} {report.id}{name}: {report.status}, took {duration(took)}")
    if report.page.facts:
        screen.show_table([Column(""), Column("", keep=True)], report.page.facts)
    for table in report.page.tables:
        screen.say("")
        screen.show_text_table(table)
    for section in report.sections:
        _show_section(section)


def _show_section(section: ReportSection) -> None:
    screen.say(f"\n{section.name} {section.status}: {counts_of(section)}")
    if sparks := sparkline(section):
        screen.say(f"best so far {sparks}")
    if section.finished:
        _show_results(section, section.finished, "task")
    if section.early_stopped:
        _show_results(section, section.early_stopped, "stopped early")
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


def _show_results(section: ReportSection, tasks: Sequence[FinishedTask], heading: str) -> None:
    names = section.columns[:COLUMNS]
    columns = [Column(heading, keep=True), *(Column(name, right=True, optional=True) for name in names)]
    columns += [Column("load", right=True), Column("train", right=True)]
    columns += [Column("attempts", right=True, optional=True)]
    cells = [
        [
            row.name.replace(" ", "\u00a0"),
            *(row.cells.get(name) for name in names),
            _span(row.load_time_ms),
            _span(row.train_time_ms),
            row.attempts,
        ]
        for row in tasks[:SHOWN_ROWS]
    ]
    screen.show_table(columns, cells)
    if len(tasks) > SHOWN_ROWS:
        screen.say(f"and {len(tasks) - SHOWN_ROWS} more; --html and --json have all")


def _span(ms: int | None) -> str:
    return duration(None if ms is None else ms / 1000)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else ""
