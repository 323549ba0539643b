"""Routes of summaries that need the store: images as bytes, and graphs.

What a task wrote is never shown as a document: only types that a browser draws as a picture are sent as
such, anything else is a file to keep, such as SVG, which may have scripts.
"""

from functools import partial

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from trackside.artifacts.errors import ArtifactError
from trackside.artifacts.store import Store
from trackside.console.pages.summaries.charts import graph, read_bytes, stored_value
from trackside.console.web.application import Pages, explained
from trackside.projections.summaries.errors import SummaryReadRefused

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
HEADERS = {
    "content-security-policy": "default-src 'none'; sandbox",
    "cache-control": "private, max-age=3600",
}


def add_summaries(app: FastAPI, pages: Pages, store: Store | None) -> None:
    """Adds the routes to an application; without a store, values whose bytes it has are not shown."""
    app.add_route("/data/summaries/image", partial(_image, pages, store), ["GET"])
    app.add_route("/data/summaries/graph", partial(pages.columns, partial(graph, store)), ["GET"])


async def _image(pages: Pages, store: Store | None, request: Request) -> Response:
    try:
        value = await pages.read(request, partial(stored_value, kind="image"))
        data = await read_bytes(store, value)
    except (ArtifactError, SummaryReadRefused) as error:
        return PlainTextResponse(f"the image can't be read: {error}", 404)
    except Exception as error:  # noqa: BLE001 - every error becomes an answer
        problem, status = explained(error)
        return PlainTextResponse(problem, status)
    if data is None:
        return PlainTextResponse("this image has no bytes", 404)
    if value.media_type in IMAGE_TYPES:
        return Response(data, media_type=value.media_type, headers=HEADERS)
    headers = {**HEADERS, "content-disposition": 'attachment; filename="image"'}
    return Response(data, media_type="application/octet-stream", headers=headers)
