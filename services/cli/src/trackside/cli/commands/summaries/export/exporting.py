"""Exports the values of jobs, part by part: the memory that it takes does not grow with them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeAlias

from trackside.cli.commands.artifacts.finding import installed_store
from trackside.cli.commands.summaries.export.event_files import event_files
from trackside.cli.commands.summaries.export.tables import csv_files, parquet_files
from trackside.cli.commands.summaries.export.targets import ExportFiles, fit_single
from trackside.cli.render import screen
from trackside.cli.render.progress import late_progress
from trackside.cli.runtime.addresses import Addresses
from trackside.cli.runtime.failures import BadUsage, CommandFailed
from trackside.cli.runtime.run import run
from trackside.domain.display.text import counted
from trackside.projections.database.postgres import LIVE_SCHEMA, Connection, open_repeatable_read
from trackside.projections.summaries.jobs import SummaryJobRow, read_job
from trackside.projections.summaries.series import SeriesExtent, read_series
from trackside.projections.summaries.tags import read_tags
from trackside.projections.summaries.whole_series import all_values, point_chunks
from trackside.summaries.kinds.scalar import SCALAR

ExportFormat: TypeAlias = Literal["csv", "parquet", "events"]


@dataclass(frozen=True, slots=True)
class ExportChoice:
    """What is exported: jobs, tags (all if there are none), and values that a later attempt has replaced."""

    jobs: Sequence[str]
    tags: Sequence[str]
    superseded: bool


@dataclass(slots=True)
class ExportCounts:
    """What was exported; `left_out` are values that the format has no form for."""

    points: int = 0
    values: int = 0
    left_out: int = 0


def export(choice: ExportChoice, form: ExportFormat, folder: Path, as_json: bool) -> None:
    """Writes values of jobs to a new folder."""
    if form == "events" and choice.superseded:
        raise BadUsage("--superseded is for csv and parquet: an event file has the values that count")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise BadUsage(f"{folder} exists already: name a new or an empty folder")
    try:
        counts = run(_export(choice, form, folder))
    except OSError as error:
        where = error.filename or folder
        raise CommandFailed(f"{where} can't be written: {error.strerror or error}") from error
    if as_json:
        left = {"left_out": counts.left_out}
        screen.emit({"folder": str(folder), "points": counts.points, "values": counts.values, **left})
        return
    screen.say(f"{folder}: {counted(counts.points, 'point')}, {counted(counts.values, 'other value')}")
    if counts.left_out:
        screen.complain(f"{counts.left_out:,} values left out: event files have no form for their kinds")


async def _export(choice: ExportChoice, form: ExportFormat, folder: Path) -> ExportCounts:
    async with open_repeatable_read(Addresses().dsn, LIVE_SCHEMA) as connection:
        jobs = [await read_job(connection, job) for job in dict.fromkeys(choice.jobs)]
        with late_progress("exporting") as report, _files(form, folder) as files:
            exporter = _Exporter(
                connection, choice, files, form, report, sum(job.points + job.items for job in jobs)
            )
            for job in jobs:
                await exporter.export(job)
            return exporter.counts


def _files(form: ExportFormat, folder: Path) -> AbstractContextManager[ExportFiles]:
    folder.mkdir(parents=True, exist_ok=True)
    match form:
        case "csv":
            return csv_files(folder)
        case "parquet":
            return parquet_files(folder)
        case "events":
            return event_files(folder, installed_store)


class _Exporter:
    """Writes jobs to files, and counts what it has written."""

    def __init__(
        self,
        connection: Connection,
        choice: ExportChoice,
        files: ExportFiles,
        form: ExportFormat,
        report: Callable[[int, int], None],
        total: int,
    ) -> None:
        self.counts = ExportCounts()
        self._connection, self._choice, self._files = connection, choice, files
        self._form, self._report, self._total = form, report, total

    async def export(self, job: SummaryJobRow) -> None:
        """Exports one job."""
        self._files.begin_job(job)
        kinds = {tag.kind for tag in await read_tags(self._connection, job.job_id)}
        for kind in sorted(kinds, key=lambda kind: (kind != SCALAR.name, kind)):
            tags = self._choice.tags or None
            series = await read_series(self._connection, [job.job_id], kind, tags)
            chosen = [each for each in series if self._choice.superseded or each.counts]
            if kind == SCALAR.name:
                for curve in self._curves(chosen):
                    await self._export_curve(curve)
            else:
                for each in chosen:
                    await self._export_values(each, kind)

    def _curves(self, series: Sequence[SeriesExtent]) -> Iterator[list[SeriesExtent]]:
        """Yields what is one curve: of a table each attempt, which is a column; of an event file each tag."""
        if self._form == "events":
            yield from (list(group) for _, group in groupby(series, lambda each: each.tag))
        else:
            yield from ([each] for each in series)

    async def _export_curve(self, curve: Sequence[SeriesExtent]) -> None:
        superseded = self._choice.superseded
        if self._form == "events":
            single = True
            async for points in point_chunks(self._connection, curve, superseded=superseded):
                single = single and fit_single(points.values)
                if not single:
                    break
            self._files.begin_curve(single=single)
        async for points in point_chunks(self._connection, curve, superseded=superseded):
            self._files.add_points(curve[0].job_id, curve[0].tag, curve[0].attempt, points)
            self.counts.points += len(points.steps)
            self._report_progress()

    async def _export_values(self, series: SeriesExtent, kind: str) -> None:
        async for value in all_values(self._connection, series, kind, superseded=self._choice.superseded):
            if self._files.add_value(value):
                self.counts.values += 1
            else:
                self.counts.left_out += 1
            self._report_progress()

    def _report_progress(self) -> None:
        self._report(self.counts.points + self.counts.values, self._total)
