"""The web application: routes for pages, charts, pushed changes, commands, assets and logins."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np
import structlog
from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import compile_path

from trackside.console.web import assets
from trackside.console.web.access import Access, Guard
from trackside.console.web.page import (
    Alerts,
    BadQuery,
    ChartValues,
    ColumnsFunction,
    PageFunction,
    PageNotFound,
    PageRequest,
    ServiceStates,
    Shown,
    Site,
)
from trackside.console.web.templates import Templates
from trackside.console.web.users import Role, User
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.log import Log
from trackside.projections.database.postgres import (
    PostgresGoneError,
    SchemaMissingError,
    StatementTimeoutError,
)
from trackside.projections.pages.trial_cache import TrialColumnsCache
from trackside.projections.past.store import PastStore
from trackside.projections.reading.read_pool import ReadModelsPool, SnapshotModels
from trackside.replay.causality.standings import Standings
from trackside.telemetry import metrics

logger = structlog.get_logger("trackside.console")

T = TypeVar("T")
Values = Mapping[str, Any]
YEAR_S = 365 * 24 * 3600
NAVIGATION = (
    ("home", "Home", "/"),
    ("experiments", "Experiments", "/experiments"),
    ("fleet", "Fleet", "/fleet"),
    ("log", "Log", "/log"),
)


class Pages:
    """Answers requests for pages and charts: finds the function of an address, and renders what it shows."""

    def __init__(
        self,
        site: Site,
        pool: ReadModelsPool,
        log: Log,
        topics: Topics,
        access: Access,
        states: ServiceStates | None = None,
        alerts: Alerts | None = None,
    ) -> None:
        self._states, self._alerts = states or ServiceStates(), alerts or Alerts()
        self._pool, self._log, self._topics = pool, log, topics
        self._access, self._trials, self._standings = access, TrialColumnsCache(), Standings()
        self.past: PastStore | None = None
        self._templates = Templates()
        self._routes = [(*compile_path(route.path), route.function) for route in site.pages]

    def find(self, path: str) -> tuple[PageFunction, dict[str, str]]:
        """Returns the function of a path and its variable parts; raises PageNotFound."""
        for pattern, _, converters, function in self._routes:
            found = pattern.match(path)
            if found is not None:
                return function, {
                    name: str(converters[name].convert(value)) for name, value in found.groupdict().items()
                }
        raise PageNotFound(f"there is no page {path[:200]}; the menu at the top shows where you can go")

    async def shown(self, path: str, query: QueryParams, user: User) -> tuple[Shown, Values]:
        """Returns what a page shows, with all values of its template.

        Raises PageNotFound, BadQuery, and the errors of the read models.
        """
        function, parts = self.find(path)
        async with self._pool.read() as models:
            request = self._request(path, parts, query, user, models)
            shown = await function(request)
            positions = await models.positions()
        return shown, {
            **self.surroundings(path, query, user),
            **shown.values,
            "title": shown.title,
            "section": shown.section,
            "position": position_text(positions),
            "read_positions": positions,
        }

    def surroundings(self, path: str, query: QueryParams, user: User | None) -> dict[str, Any]:
        """Returns the values that every template has."""
        return {
            "path": path,
            "query": query,
            "user": user,
            "needs_login": self._access.needs_login,
            "may_publish": user is not None and user.role >= Role.OPERATOR,
            "navigation": NAVIGATION,
            "section": "",
            "position": "",
            "states": self._states,
            "alerts": self._alerts,
            "reads_alerts": bool(self._access.settings.prometheus_url),
            "address_of_trace": self._access.settings.address_of_trace,
        }

    async def rendered(self, shown: Shown, values: Values) -> str:
        """Returns the whole page; in a thread, since one of thousands of rows takes a second."""
        return await asyncio.to_thread(self._templates.page, shown.template, values)

    async def content(self, shown: Shown, values: Values) -> str:
        """Returns what is between the navigation and the foot of the page."""
        return await asyncio.to_thread(self._templates.content, shown.template, values)

    def template(self, name: str, values: Values) -> str:
        """Returns another template, such as the one of a login."""
        return self._templates.page(name, values)

    def fragment(self, name: str, values: Values) -> str:
        """Returns a part of a page, which the page loads by itself."""
        return self._templates.fragment(name, values)

    async def page(self, request: Request) -> Response:
        """Answers with a page, or with a page that says why there is none."""
        path, user = request.url.path, request.state.user
        try:
            with metrics.histogram("trackside.console.render.seconds").time():
                shown, values = await self.shown(path, request.query_params, user)
                html = await self.rendered(shown, values)
            return HTMLResponse(html, shown.status)
        except Exception as error:  # noqa: BLE001 - every error becomes a page
            problem, status = explained(error)
            around = self.surroundings(path, request.query_params, user)
            values = {**around, "title": "Not shown", "problem": problem, "status": status}
            return HTMLResponse(self._templates.page("problem.html", values), status)

    async def read(self, request: Request, function: Callable[[PageRequest], Awaitable[T]]) -> T:
        """Returns what a function reads for a request; raises what `shown` raises."""
        async with self._pool.read() as models:
            return await function(self.request(request, models))

    def request(self, request: Request, models: SnapshotModels) -> PageRequest:
        """Returns what a function gets of a request."""
        parts = {name: str(value) for name, value in request.path_params.items()}
        path, query, user = request.url.path, request.query_params, request.state.user
        return self._request(path, parts, query, user, models)

    def _request(
        self, path: str, parts: dict[str, str], query: QueryParams, user: User, models: SnapshotModels
    ) -> PageRequest:
        own = self._log, self._topics, self._trials, self.past, self._standings
        return PageRequest(path, parts, query, user, models, *own)

    async def columns(self, function: ColumnsFunction, request: Request) -> Response:
        """Answers with the values of a chart, or with a sentence why there are none."""
        try:
            found = await self.read(request, function)
            return Response(await run_in_threadpool(packed, found), media_type=MEDIA_TYPE)
        except Exception as error:  # noqa: BLE001 - every error becomes a page
            problem, status = explained(error)
            return PlainTextResponse(problem, status)


def explained(error: Exception) -> tuple[str, int]:
    """Returns what users see of an error, with its status code; logs one that nothing expects."""
    match error:
        case PageNotFound():
            return str(error), 404
        case BadQuery():
            return str(error), 400
        case StatementTimeoutError():
            return "Postgres took too long to answer; choose a smaller range or a narrower filter", 503
        case SchemaMissingError():
            return "the read models do not exist yet; they are made when the dispatcher starts", 503
        case PostgresGoneError():
            return f"Postgres does not answer: {error}. This page tries again", 503
    logger.error("a page failed", exc_info=error)
    return "an error of the console; its log has it. Reload the page, and report it if it stays", 500


def position_text(positions: Mapping[tuple[str, str, int], int]) -> str:
    """Returns how far the read models are: the events of the slowest owner, in all partitions."""
    by_owner: dict[str, int] = {}
    for (owner, topic, _), position in positions.items():
        if topic.endswith("events"):
            by_owner[owner] = by_owner.get(owner, 0) + position
    return f"{min(by_owner.values()):,}" if by_owner else "0"


def make_application(
    pages: Pages, site: Site, access: Access, others: Callable[[FastAPI], None]
) -> Callable[..., Awaitable[None]]:
    """Returns the ASGI application; `others` adds the routes that are neither pages nor charts."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    async def asset(request: Request) -> Response:
        found = assets.assets().get(request.path_params["path"])
        if found is None or request.path_params["release"] != assets.release():
            return PlainTextResponse("there is no such file in this release; reload the page", 404)
        headers = {"cache-control": f"public, max-age={YEAR_S}, immutable"}
        return Response(found.body, media_type=found.media_type, headers=headers)

    app.add_route("/static/{release}/{path:path}", asset, ["GET"])
    for chart in site.charts:
        app.add_route(chart.path, partial(pages.columns, chart.function), ["GET"])
    others(app)
    app.add_route("/{path:path}", pages.page, ["GET"])
    return Guard(app, access)


MEDIA_TYPE = "application/vnd.trackside.columns"
_TYPES = {"f8": "<f8", "f4": "<f4", "i4": "<i4"}


def packed(chart: ChartValues) -> bytes:
    """Returns columns as bytes; numbers that are neither f4 nor i4 become f8."""
    listed: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for name, values in chart.arrays.items():
        kind = {"f": "f4", "i": "i4"}.get(values.dtype.char, "f8")
        column: dict[str, Any] = {"name": name, "type": kind, "length": len(values)}
        if name in chart.labels:
            column["labels"] = list(chart.labels[name])
        listed.append(column)
        parts.append(_padded(np.ascontiguousarray(values, dtype=_TYPES[kind]).tobytes()))
    head = json.dumps({"columns": listed, "meta": chart.meta}, default=str, allow_nan=False).encode()
    return _padded(len(head).to_bytes(4, "little") + head) + b"".join(parts)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 8)
