"""Pages of the console over rows in Postgres and a log in memory, as a browser gets them."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing

import httpx2
from fastapi import FastAPI
from starlette.datastructures import QueryParams
from starlette.requests import HTTPConnection

from tests.integration.projections.harness import TOPICS, write_rows
from trackside.console.live.hub import Hub
from trackside.console.pages.catalogue import SITE
from trackside.console.settings import ConsoleSettings
from trackside.console.web.access import Access
from trackside.console.web.application import Pages, make_application
from trackside.console.web.page import ChartValues, PageRequest
from trackside.console.web.users import LOCAL_USER, Sessions, User
from trackside.contracts.message import Record
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.log import Log, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.projections.read_pool import ReadModelsPool


class _SameUser(Access):
    """Takes every request as one of the same user."""

    def __init__(self, access: Access, user: User) -> None:
        super().__init__(access.settings, None, access.sessions, has_oidc=False)
        self._user = user

    def user(self, request: HTTPConnection) -> User | None:
        """Returns the user."""
        return self._user


class Browser:
    """Asks for pages and for the values of charts, as one user."""

    def __init__(
        self,
        pool: ReadModelsPool,
        log: Log,
        topics: Topics,
        user: User = LOCAL_USER,
        trace_url: str = "",
        prometheus_url: str = "",
        hub: Hub | None = None,
    ) -> None:
        self.pool, self._log, self._topics, self.user = pool, log, topics, user
        settings = ConsoleSettings(trace_url=trace_url, prometheus_url=prometheus_url)
        self._access = Access(settings, None, Sessions("k" * 32, 1), has_oidc=False)
        known = hub or Hub(1)
        self.pages = Pages(SITE, pool, log, topics, self._access, known.states, known.alerts)

    async def page(self, address: str) -> str:
        """Returns the HTML of a page; raises what the page raises."""
        path, _, query = address.partition("?")
        shown, values = await self.pages.shown(path, QueryParams(query), self.user)
        return self.pages.rendered(shown, values)

    @asynccontextmanager
    async def client(self, others: Callable[[FastAPI, Pages], None]) -> AsyncIterator[httpx2.AsyncClient]:
        """Yields a client of the application with the routes that `others` adds, as this user."""

        def as_user(app: FastAPI) -> None:
            others(app, self.pages)

        application = make_application(self.pages, SITE, _SameUser(self._access, self.user), as_user)
        transport = httpx2.ASGITransport(app=application)
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
        async with self.pool.read() as models:
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


async def written_log(records: Sequence[Record], topics: Topics = TOPICS) -> MemoryLog:
    """Returns a log with these records."""
    log, topic = MemoryLog(), topics.events
    await log.ensure(topics.shared)
    for record in records:
        stream, value = record.envelope.stream, record.message.model_dump_json().encode()
        outgoing = Outgoing(stream.encode(), value, list(record.envelope.headers.items()))
        await log.append(topic.name, partition_of(stream, topic.partitions), [outgoing])
    return log


@asynccontextmanager
async def browsing(
    records: Sequence[Record], dsn: str, topics: Topics = TOPICS, user: User = LOCAL_USER
) -> AsyncIterator[Browser]:
    """Writes records and their rows, and yields a browser of the console over them."""
    async with browsing_log(await written_log(records, topics), dsn, topics, user) as browser:
        yield browser


@asynccontextmanager
async def browsing_log(
    log: Log, dsn: str, topics: Topics = TOPICS, user: User = LOCAL_USER
) -> AsyncIterator[Browser]:
    """Writes the rows of a log, and yields a browser of the console over both."""
    await write_rows(log, dsn, topics)
    with closing(ReadModelsPool(dsn)) as pool:
        yield Browser(pool, log, topics, user)
