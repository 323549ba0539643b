"""Routes of what-ifs: start one (operators may), follow it, and the values of its charts."""

import asyncio
from contextlib import suppress
from functools import partial
from urllib.parse import quote, urlencode

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from trackside.console.pages.history.whatif import kind_of, result_values, whatif_columns
from trackside.console.web.application import Pages, explained
from trackside.console.whatif.jobs import TooManyWaiting, WhatIfJobs
from trackside.console.whatif.options import FIELDS, MAX_TEXT

WAIT_S = 5.0
"""How long a request waits for the next phase."""


def add_whatif(app: FastAPI, pages: Pages, jobs: WhatIfJobs) -> None:
    """Adds the routes to an application."""
    app.add_route("/experiments/{stream_id}/whatif", partial(_start, pages, jobs), ["POST"])
    app.add_route("/experiments/{stream_id}/whatif/result", partial(_result, pages, jobs), ["GET"])
    columns = partial(pages.columns, partial(whatif_columns, jobs))
    app.add_route("/data/experiments/{stream_id}/whatif", columns, ["GET"])


async def _start(pages: Pages, jobs: WhatIfJobs, request: Request) -> Response:
    stream_id = request.path_params["stream_id"]
    try:
        kind = await pages.read(request, kind_of)
        form = await request.form()
        given = {name: str(form.get(name, ""))[:MAX_TEXT].strip() for name in (*FIELDS[kind], "at")}
        fields = {name: text for name, text in given.items() if text and name != "at"}
        job = jobs.start(stream_id, kind, given["at"], fields)
    except TooManyWaiting as error:
        return PlainTextResponse(str(error), 503)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        problem, status = explained(error)
        return PlainTextResponse(problem, status)
    query = urlencode({**{name: text for name, text in given.items() if text}, "result": job.id})
    return RedirectResponse(f"/experiments/{quote(stream_id, safe='')}/whatif?{query}", 303)


async def _result(pages: Pages, jobs: WhatIfJobs, request: Request) -> Response:
    """Answers with how far a what-if is, after its next phase if the query names the last one."""
    job = jobs.find(request.query_params.get("result", ""), request.path_params["stream_id"])
    if job is not None and not job.is_over and job.phase == request.query_params.get("phase"):
        changed = job.changed
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                await changed.wait()
    values = {"job": None} if job is None else result_values(job)
    return HTMLResponse(pages.fragment("whatif_result.html", values))
