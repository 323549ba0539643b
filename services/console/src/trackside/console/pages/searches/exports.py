"""Files that users take away: the trials of a search as CSV, sent while they are read."""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

import structlog
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from trackside.console.pages.searches.search import search_row, trial_filter
from trackside.console.web.application import Pages, explained
from trackside.console.web.page import PageRequest
from trackside.domain.rows.table import ViewRow
from trackside.projections.pages.trials_page import BATCH_TRIALS, TrialFilter, export_trials
from trackside.projections.reading.read_pool import ReadModelsPool

MOST_EXPORTS = 2
"""How many exports run at once, each with a connection of its own; more are told to try again."""
EXPORT_LIMIT_S = 900.0
"""How long an export may take: its rows are of one moment, which Postgres keeps as long."""
TIMES = ("duration_s", "suggested_at", "ended_at")

logger = structlog.get_logger("trackside.console")


@dataclass(frozen=True, slots=True)
class TrialsExport:
    """What is exported: the trials of a search that a filter admits, with these parameters."""

    search_id: str
    parameters: Sequence[str]
    wanted: TrialFilter


class Exports:
    """Sends exports, at most two at once, by connections that pages do not wait for."""

    def __init__(self, pages: Pages, dsn: str) -> None:
        self._pages = pages
        self._pool = ReadModelsPool(dsn, size=MOST_EXPORTS, limit_s=EXPORT_LIMIT_S)
        self._running = 0

    async def answer(self, request: Request) -> Response:
        """Answers with the trials that the query admits, as CSV."""
        try:
            export = await self._pages.read(request, asked_export)
        except Exception as error:  # noqa: BLE001 - every error becomes an answer
            problem, status = explained(error)
            return PlainTextResponse(problem, status)
        if self._running >= MOST_EXPORTS:
            what = f"{MOST_EXPORTS} exports run now, and there may be no more; try again when one has ended"
            return PlainTextResponse(what, 503)
        name = "".join(each if each.isalnum() or each in "-_." else "_" for each in export.search_id)
        headers = {"content-disposition": f'attachment; filename="{name}-trials.csv"'}
        return StreamingResponse(self.lines(export), media_type="text/csv; charset=utf-8", headers=headers)

    async def lines(self, export: TrialsExport) -> AsyncIterator[str]:
        """Yields the lines of a file, some for each batch of trials.

        An error breaks the connection off, so that a browser says that the file is not whole.
        """
        self._running += 1
        try:
            async with self._pool.read() as models:
                yield _lines([["trial", "task_id", "status", "value", *export.parameters, *TIMES]])
                async for batch in export_trials(models, export.search_id, export.wanted):
                    yield _lines(_cells(each, export.parameters) for each in batch)
        except Exception as error:
            logger.error("an export was not sent whole", search=export.search_id, reason=str(error))
            raise
        finally:
            self._running -= 1

    def close(self) -> None:
        """Drops the connections that are not in use."""
        self._pool.close()


def add_exports(app: FastAPI, exports: Exports) -> None:
    """Adds the routes of files to an application."""
    app.add_route("/experiments/{stream_id}/trials.csv", exports.answer, ["GET"])


async def asked_export(request: PageRequest) -> TrialsExport:
    """Returns what the path and the query ask for; raises PageNotFound."""
    row = await search_row(request)
    wanted = trial_filter(request, row, BATCH_TRIALS)
    return TrialsExport(request.parts["stream_id"], list(row["spec"]["space"]), wanted)


def _cells(row: ViewRow, parameters: Sequence[str]) -> list[object]:
    found = [row["parameters"].get(name) for name in parameters]
    return [row["trial"], row["task_id"], row["status"], row["value"], *found, *(row[each] for each in TIMES)]


def _lines(rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()
