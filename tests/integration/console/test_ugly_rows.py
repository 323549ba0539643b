"""Any row that the log may lead to is shown: no value of a job breaks a page, chart or table for others."""

import asyncio
import html
import io
import re
import shlex
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from tempfile import TemporaryDirectory

import asyncpg
import pytest
from boards.expansion import sql
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from tests.integration.console.given import Browser, browser_of, browser_of_log
from tests.integration.console.test_batch_and_pipeline_pages import defined
from tests.integration.console.test_summary_pages import image, item
from tests.integration.console.ugly_rows import make_ugly
from tests.integration.projections.harness import TOPICS, query
from tests.integration.projections.test_dashboards import DASHBOARDS, VIEW, targets_of
from tests.integration.projections.test_views_of_rounds import ONE_PARTITION
from tests.integration.projections.test_views_of_rounds import eventful as eventful_job
from tests.integration.projections.test_views_of_runs import eventful as eventful_run
from tests.stack import Servers, database_with_tables, fresh_database
from tests.unit.projections.given import write_small_history
from trackside.cli.app import call
from trackside.console.pages.catalogue import SITE
from trackside.console.pages.searches.exports import Exports, TrialsExport
from trackside.console.web.application import packed
from trackside.console.web.page import BadQuery, PageNotFound
from trackside.contracts.tasks.summaries import (
    MetricPointsReported,
    ReportedItem,
    Series,
    SummaryItemsReported,
)
from trackside.eventlog.memory import MemoryLog
from trackside.projections.database.postgres import Connection
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.pages.trials_page import TrialFilter
from trackside.projections.reading.reads import SCHEMA
from trackside.projections.tables.metrics import rows_of
from trackside.projections.writing.metric_writes import write_metrics
from trackside.summaries.event_files.values import Graph, GraphNode, Histogram, HParams, TextRows

LINK = re.compile(r'(?:href|data-src)="(/[^"#]*)')
OF_EACH = 2
"""How many addresses of a page or chart are opened that links lead to."""
STARTS = (
    *("/", "/experiments", "/fleet", "/fleet/task-types", "/log", "/summaries"),
    *(f"/summaries?kind={kind}" for kind in ("image", "histogram", "text", "graph", "hparams", "hologram")),
)
OWN_STARTS = {
    "history": (
        *("/compare?id=one&id=two", "/selected?id=one&id=tasks", "/tasks/one/one.0"),
        "/experiments/one/trials",
    )
}
"""Addresses that no link leads to, of all databases and of one."""
COMMANDS = (
    *("ls", "ls --json", "tasks", "tasks --json", "dead-letters", "estimates", "artifacts ls --json"),
    *(
        "summaries ls",
        "summaries ls --json",
        "summaries search ''",
        "summaries search '' --sort updated_at --json",
    ),
)
"""Commands over the rows of all streams."""
OF_DATABASE = {
    "history": (
        *(
            "summaries show one.0",
            "summaries tags one.0",
            "summaries text one.0",
            "summaries histograms one.0",
        ),
        *("summaries lineage one.0", "summaries scalars one.0", "summaries values one.0 hologram"),
        *("summaries values one.0 hparams", "summaries export one.0 --format csv --out {folder}/csv"),
        "summaries export one.0 --format events --tag loss --out {folder}/events",
    ),
    "run": (),
    "job": (
        "rounds digits",
        "rounds digits --json",
        "models ls",
        "models show digits-model",
        "datasets show feed",
    ),
    "pipeline": ("pipelines ls", "pipelines show digits-1", "schedules ls"),
}
"""Commands over what only one database has."""


async def _history(dsn: str) -> Browser:
    """Writes searches, batches and workers, and values of all kinds that a task may report."""
    log = MemoryLog()
    await write_small_history(log, TOPICS)
    browser = await browser_of_log(log, dsn)
    curve = Series(
        tag="loss", steps=[0, 1, 2], times_ms=[1, 2, 3], values=[0.5, None, 2.0], non_finite={1: "nan"}
    )
    points = MetricPointsReported(stream="one", task_id="one.0", attempt=1, series=[curve])
    items = [
        item("text", "notes", 3, TextRows(["x"], (1,))),
        item("histogram", "weights", 0, Histogram([0.0, 1.0], [1.0, 2.0], [3.0, 4.0])),
        item("hparams", "all", 0, HParams({"lr": 0.1, "": "x"}, ["loss"])),
        item("graph", "net", 0, Graph([GraphNode("layer/weight", "Op", [], [])])),
        image(0),
        ReportedItem(kind="hologram", tag="a", step=0, time_ms=7, body={"x": [{"": None}]}),
    ]
    report = SummaryItemsReported(stream="one", task_id="one.0", attempt=1, items=items)
    async with opened_database(dsn) as opened:
        await opened.transaction(lambda connection: write_metrics(connection, rows_of([points, report])))
    return browser


async def _run(dsn: str) -> Browser:
    return await browser_of(eventful_run().records, dsn)


async def _job(dsn: str) -> Browser:
    return await browser_of(eventful_job().records, dsn, ONE_PARTITION)


async def _pipeline(dsn: str) -> Browser:
    return await browser_of(defined().records, dsn)


WRITERS = {"history": _history, "run": _run, "job": _job, "pipeline": _pipeline}


@dataclass
class Site:
    """Pages, charts and tables over the rows of one database."""

    browser: Browser
    streams: list[str]
    starts: tuple[str, ...]
    """Addresses that no link leads to."""
    own: tuple[str, ...]
    """The commands over what only this database has."""
    opened: set[str] = field(default_factory=set)
    """The paths of the pages and charts that were opened, as the catalogue has them."""

    async def failures(self, chance: Random) -> list[Exception]:
        """Makes all rows ugly and opens what links lead to; returns what fails, with its address."""
        connection = await asyncpg.connect(self.browser.dsn)
        try:
            await make_ugly(connection, chance)
        finally:
            await connection.close()
        found, counts = list[Exception](), dict[str, int]()
        waiting = [*self.starts, *(f"/experiments/{each}" for each in self.streams)]
        seen, starts = set(waiting), set(waiting)
        for address in waiting:
            path = _path_of(address)
            counts[path] = counts.get(path, 0) + 1
            if not path or (counts[path] > OF_EACH and address not in starts):
                continue
            self.opened.add(path)
            text = await _tried(found, address, self._open(address))
            more = [html.unescape(each) for each in LINK.findall(text)]
            waiting += [each for each in dict.fromkeys(more) if each not in seen]
            seen.update(more)
        for stream in self.streams:
            await _tried(found, f"CSV of {stream}", self._csv(stream))
        self.browser.close()
        return found

    async def _open(self, address: str) -> str:
        try:
            if address.startswith("/data/"):
                return packed(await self.browser.chart(address)).decode("latin-1")[:0]
            path, _, asked = address.partition("?")
            shown, values = await self.browser.pages.shown(path, QueryParams(asked), self.browser.user)
            return await self.browser.pages.rendered(shown, values)
        except (PageNotFound, BadQuery):
            return ""

    async def _csv(self, stream: str) -> str:
        exports = Exports(self.browser.pages, self.browser.dsn)
        try:
            export = TrialsExport(stream, ("x",), TrialFilter())
            return "".join([part async for part in exports.lines(export)])
        finally:
            exports.close()

    def commands(self, tasks: Sequence[str], folder: str) -> Iterator[str]:
        """Yields the commands that print what the rows have; some write into a folder."""
        yield from (*COMMANDS, *(each.format(folder=folder) for each in self.own))
        for stream in self.streams:
            yield from (f"show {stream}", f"show {stream} --json", f"report {stream}")
        yield from (f"show {task}" for task in tasks)


def _path_of(address: str) -> str:
    """Returns the path of the page or chart that an address opens, "" for another one."""
    path = address.partition("?")[0]
    known = [*(page.path for page in SITE.pages), *(chart.path for chart in SITE.charts)]
    return next((each for each in known if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each), path)), "")


async def _tried(found: list[Exception], what: str, opening: Awaitable[str]) -> str:
    try:
        return await opening
    except Exception as error:  # noqa: BLE001 - of whatever kind it is: it is a page that is not shown
        error.add_note(what)
        found.append(error)
        return ""


@pytest.fixture(scope="module")
def sites(stack: Servers) -> Iterator[dict[str, Site]]:
    found = {}
    with ExitStack() as databases:
        for name, write in WRITERS.items():
            dsn = databases.enter_context(fresh_database(stack.postgres_dsn, database_with_tables()))
            browser = asyncio.run(write(dsn))
            rows = asyncio.run(query(dsn, "SELECT stream_id FROM streams ORDER BY 1"))
            starts = (*STARTS, *OWN_STARTS.get(name, ()))
            found[name] = Site(browser, [str(row[0]) for row in rows], starts, OF_DATABASE[name])
        yield found


def check(site: Site, chance: Random) -> None:
    """Checks that everything is shown of rows whose values are drawn by chance."""
    failures = asyncio.run(site.failures(chance))
    tasks = asyncio.run(query(site.browser.dsn, "SELECT task_id FROM trackside.tasks ORDER BY 1 LIMIT 3"))
    with reading(site) as folder:
        for command in site.commands([str(row[0]) for row in tasks], folder):
            try:
                run(command)
            except Exception as error:  # noqa: BLE001 - as above
                error.add_note(command)
                failures.append(error)
    if failures:
        raise ExceptionGroup("not shown", failures)


def run(command: str) -> None:
    """Runs a command, which must end with 0 unless there is no such report."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = call(shlex.split(command))
    assert code == 0 or "there is no" in output.getvalue(), output.getvalue()


@contextmanager
def reading(site: Site) -> Iterator[str]:
    """Lets commands read the rows of a site while the block runs; yields a folder for what they write."""
    with pytest.MonkeyPatch.context() as patched, TemporaryDirectory() as folder:
        patched.setenv("TRACKSIDE_POSTGRES_DSN", site.browser.dsn)
        patched.setenv("TRACKSIDE_STORE", folder)
        yield folder


async def board_failures(site: Site) -> list[Exception]:
    """Asks what the boards ask; returns what fails, with the board."""
    named = {
        "search": "one",
        "task": "one.0",
        "run": "digits-1",
        "batch": "tasks",
        "job": "digits",
        "tag": "loss",
    }
    view = replace(VIEW, variables={**(VIEW.variables or {}), **named})
    found = list[Exception]()
    async with opened_database(site.browser.dsn, SCHEMA) as opened:
        for board in DASHBOARDS:
            for statement in [sql(target.text, view) for target in targets_of(board) if target.is_sql]:
                asked = opened.transaction(partial(_rows, statement))
                await _tried(found, f"{board.stem}: {statement}", asked)
    return found


async def _rows(statement: str, connection: Connection) -> str:
    return str(len(await connection.fetch(statement)))


def check_drawn(sites: dict[str, Site], examples: int, *, boards: bool) -> None:
    """Checks all sites with so many draws of all rows; `boards`: also what Grafana asks."""

    @settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.generate],  # an example is all pages: to find a smaller one takes minutes
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def drawn(chance: Random) -> None:
        for site in sites.values():
            check(site, chance)
            if boards and (failures := asyncio.run(board_failures(site))):
                raise ExceptionGroup("boards", failures)

    drawn()


def test_whatever_is_in_the_rows_every_page_chart_and_table_is_shown(sites: dict[str, Site]) -> None:
    check_drawn(sites, 1, boards=False)
    opened = {path for site in sites.values() for path in site.opened}
    assert {page.path for page in SITE.pages} - opened == set()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_many_draws_of_the_rows_are_shown(sites: dict[str, Site]) -> None:
    check_drawn(sites, 8, boards=True)
