"""Routes of the output of tasks that are no pages: lines that a page loads, and the output as a file.

Both read the log, which may take seconds or wait for new lines, so they give the connection to Postgres back
before.
"""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from trackside.console.pages.searches.output import file_lines, find_output, read_lines
from trackside.console.web.application import Pages, explained
from trackside.eventlog.errors import TransientError

MOST_FOLLOWERS = 50
"""How many requests read the log at once, each with a consumer; more are told to ask again soon."""
HEADERS = {"content-security-policy": "default-src 'none'; sandbox"}


def add_output(app: FastAPI, pages: Pages) -> None:
    """Adds the routes to an application."""
    room = asyncio.Semaphore(MOST_FOLLOWERS)
    app.add_route("/tasks/{stream_id}/{task_id}/output/lines", partial(_lines, pages, room), ["GET"])
    app.add_route("/tasks/{stream_id}/{task_id}/output.txt", partial(_file, pages, room), ["GET"])


async def _lines(pages: Pages, room: asyncio.Semaphore, request: Request) -> Response:
    """Answers with lines as HTML, and with what asks for the next ones."""
    try:
        asked = await pages.read(request, find_output)
        if room.locked():
            values = {"problem": "Too many pages read output now.", "address": str(request.url.query)}
            return HTMLResponse(pages.fragment("output_problem.html", values))
        async with room:
            values = await read_lines(asked)
        return HTMLResponse(pages.fragment("output_lines.html", values))
    except TransientError as error:
        problem = f"Kafka does not answer: {error}."
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        problem = f"{explained(error)[0]}."
    values = {"problem": problem, "address": str(request.url.query)}
    return HTMLResponse(pages.fragment("output_problem.html", values))


async def _file(pages: Pages, room: asyncio.Semaphore, request: Request) -> Response:
    """Answers with all lines as text."""
    try:
        asked = await pages.read(request, find_output)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        problem, status = explained(error)
        return PlainTextResponse(problem, status)

    async def lines() -> AsyncIterator[str]:
        async with room:
            try:
                async for each in file_lines(asked):
                    yield each
            except TransientError as error:
                yield f"-- Kafka does not answer: {error}. Lines are missing here --\n"

    name = "".join(each if each.isalnum() or each in "-_." else "_" for each in asked.query.task_id)
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{name}.txt"'}
    return StreamingResponse(lines(), media_type="text/plain; charset=utf-8", headers=headers)
