"""Files that users take away: the trials of a search as CSV."""

from functools import partial

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from trackside.console.pages.searches.search import trials_csv
from trackside.console.web.application import Pages, explained


def add_exports(app: FastAPI, pages: Pages) -> None:
    """Adds the routes of files to an application."""
    app.add_route("/experiments/{stream_id}/trials.csv", partial(_trials, pages), ["GET"])


async def _trials(pages: Pages, request: Request) -> Response:
    try:
        text = await pages.read(request, trials_csv)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        problem, status = explained(error)
        return PlainTextResponse(problem, status)
    name = f"{request.path_params['stream_id']}-trials.csv"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(text, media_type="text/csv; charset=utf-8", headers=headers)
