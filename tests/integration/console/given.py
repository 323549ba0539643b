"""Pages of the console over rows in Postgres and a log in memory, as a browser gets them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager

import httpx2
from fastapi import FastAPI
from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection

from tests.integration.projections.harness import TOPICS, log_of, write_rows
from tests.stack import Servers, database_with_tables, fresh_database
from trackside.console.live.hub import Hub
from trackside.console.pages.catalogue import SITE
from trackside.console.settings import ConsoleSettings
from trackside.console.web.access import Access
from trackside.console.web.application import Pages, make_application
from trackside.console.web.page import ChartValues, PageRequest
from trackside.console.web.users import LOCAL_USER, Sessions, User
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.log import Log
from trackside.eventlog.memory import MemoryLog
from trackside.projections.reading.read_pool import ReadModelsPool


class _SameUser(Access):
    """Takes every request as one of the same user."""

    def __init__(self, access: Access, user: User) -> None:
        super().__init__(access.settings, None, access.sessions, has_oidc=False)
        self._user = user

    def user(self, request: HTTPConnection) -> User | None:
        """Returns the user."""
        return self._user


class Browser:
    """Asks for pages and for the values of charts, as one user, in the event loop of any test."""

    def __init__(
        self,
        dsn: str,
        log: Log | None = None,
        topics: Topics = TOPICS,
        user: User = LOCAL_USER,
        trace_url: str = "",
        prometheus_url: str = "",
        hub: Hub | None = None,
    ) -> None:
        self.dsn, self._log, self._topics, self.user = dsn, log or MemoryLog(), topics, user
        settings = ConsoleSettings(trace_url=trace_url, prometheus_url=prometheus_url)
        self._access = Access(settings, None, Sessions("k" * 32, 1), has_oidc=False)
        self._pool, known = ReadModelsPool(dsn, size=1), hub or Hub(1)
        self.pages = Pages(SITE, self._pool, self._log, topics, self._access, known.states, known.alerts)

    def of(self, user: User) -> "Browser":
        """Returns the browser of another user."""
        return Browser(self.dsn, self._log, self._topics, user)

    async def page(self, address: str) -> str:
        """Returns the HTML of a page; raises what the page raises."""
        path, _, query = address.partition("?")
        with closing(self._pool):  # what was opened in one event loop is of no use in the next
            shown, values = await self.pages.shown(path, QueryParams(query), self.user)
        return await self.pages.rendered(shown, values)

    def close(self) -> None:
        """Drops the connections of this event loop: they are of no use in the next one."""
        self._pool.close()

    @asynccontextmanager
    async def client(self, others: Callable[[FastAPI, Pages], None]) -> AsyncIterator[httpx2.AsyncClient]:
        """Yields a client of the application with the routes that `others` adds, as this user."""

        def as_user(app: FastAPI) -> None:
            others(app, self.pages)

        application = make_application(self.pages, SITE, _SameUser(self._access, self.user), as_user)
        transport = httpx2.ASGITransport(app=application)
        with closing(self._pool):
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                yield client

    async def chart(self, address: str) -> ChartValues:
        """Returns the values of a chart; the address is as in its `data-src`."""
        path, _, query = address.partition("?")
        function, parts = next(
            (route.function, parts)
            for route in SITE.charts
            if (parts := _parts(route.path, path)) is not None
        )
        with closing(self._pool):
            async with self._pool.read() as models:
                return await function(
                    PageRequest(path, parts, QueryParams(query), self.user, models, self._log, self._topics)
                )


def _parts(pattern: str, path: str) -> dict[str, str] | None:
    """Returns the variable parts of a path if it is like the pattern."""
    names, values = pattern.split("/"), path.split("/")
    if len(names) != len(values):
        return None
    pairs = list(zip(names, values, strict=True))
    if any(name != value for name, value in pairs if not name.startswith("{")):
        return None
    return {name[1:-1]: value for name, value in pairs if name.startswith("{")}


async def browser_of(records: Sequence[Record], dsn: str, topics: Topics = TOPICS) -> Browser:
    """Writes records and their rows, and returns a browser of the console over them."""
    return await browser_of_log(await log_of(records, topics), dsn, topics)


async def browser_of_log(log: Log, dsn: str, topics: Topics = TOPICS) -> Browser:
    """Writes the rows of a log, and returns a browser of the console over both."""
    await write_rows(log, dsn, topics)
    return Browser(dsn, log, topics)


@contextmanager
def browsing(stack: Servers, records: Sequence[Record], topics: Topics = TOPICS) -> Iterator[Browser]:
    """Yields a browser over records in a database of their own, for all tests of a module."""
    with fresh_database(stack.postgres_dsn, database_with_tables()) as dsn:
        yield asyncio.run(browser_of(records, dsn, topics))
