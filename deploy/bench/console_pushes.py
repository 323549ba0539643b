"""How soon an open page shows a change, and what 50 open pages cost while a search runs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import aiohttp

from bench.command_latency import publish, search
from bench.console_process import RunningConsole, ask, events
from bench.cpu_time import tree_ms
from bench.fresh_stack import SLOTS, TOPICS
from bench.log_watch import watch_topic
from bench.measurements import Figure, Goal, Measurements, check_count, percentile
from bench.sizes import TASK_TYPE
from bench.smallest import size
from trackside.aggregates.search.messages import SearchEnded, StopSearch, TrialEnded
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.labels import AnnotateStream, StreamAnnotated
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.log import Log
from trackside.projections.database.notifications import Changes, OwnedPosition, follow_changes
from trackside.projections.tables.owners import DISPATCHER

PUSHED_MS, LIMIT_S = 200.0, 60.0
VIEWERS, MANY_TRIALS = size(50, 10), 100_000
TRIALS_BEFORE = 20
"""So many trials end before anybody looks: charts are empty before."""
SHORTEST_RELOAD_S, SHARE = 1.0, 6
"""How often `charts.js` loads a chart again: not sooner, and not before so many times as long as it took."""
FIRST = 5
"""The first changes, which are not counted."""


@dataclass(frozen=True, slots=True)
class _OpenedPages:
    """How many events each open page has got."""

    events: list[int]
    _all: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self, number: int) -> None:
        """Counts an event of a page."""
        self.events[number] += 1
        if all(self.events):
            self._all.set()

    async def all_have_events(self) -> float:
        """Waits until each page has got an event, and returns how long that took, s."""
        began_s = monotonic_s()
        await asyncio.wait_for(self._all.wait(), LIMIT_S)
        return monotonic_s() - began_s


async def measure_pushes(
    running: RunningConsole, log: Log, dsn: str, stream_id: str, count: int
) -> Measurements:
    """Changes the note of a stream one time after another, and waits until its page has got each.

    Times are from the time that the log gave to the event. Beside it: until the rows are committed.
    """
    seen_ms: list[float] = []
    written_ms: list[float] = []
    async with (
        aiohttp.ClientSession() as client,
        aclosing(follow_changes(dsn)) as changes,
        watch_topic(log, TOPICS.events) as watch,
        _pushed(client, running, f"/experiments/{stream_id}") as pushed,
        _noted(changes) as commits,
    ):
        await asyncio.wait_for(pushed.get(), LIMIT_S)  # the page as it is
        pauses = Random(count)
        for number in range(FIRST + count):
            await asyncio.sleep(
                pauses.uniform(0.1, 0.5)
            )  # rows are written at intervals: not in step with them
            note, command_id, start = f"change {number} of {count}.", new_id(), len(watch.seen)
            await publish(log, AnnotateStream(note=note), stream_id, command_id)
            async with asyncio.timeout(LIMIT_S):
                while True:
                    at_ms, html = await pushed.get()
                    if note in html:
                        break

            def _is_it(record: Record, command_id: str = command_id) -> bool:
                message = record.message
                return isinstance(message, StreamAnnotated) and message.command_id == command_id

            record = (await watch.until(_is_it, LIMIT_S, start)).record
            appended_ms = record.append_time_ms
            seen_ms.append(at_ms - appended_ms)
            written_ms.append(await commits.at_ms(record) - appended_ms)
    seen_ms, written_ms = seen_ms[FIRST:], written_ms[FIRST:]
    goal, what = Goal(PUSHED_MS, PUSHED_MS / 2, at_most=True), "rows written"
    figures = [
        Figure("-", f"event -> pushed, {name}", percentile(seen_ms, percent), "ms", reference, what, goal)
        for name, percent in (("p50", 50), ("p95", 95))
        for reference in [percentile(written_ms, percent)]
    ]
    counted = [check_count("pushed changes", len(seen_ms), count)]
    return Measurements(figures, counted, {"pushed_ms": seen_ms, "written_ms": written_ms})


@asynccontextmanager
async def _pushed(
    client: aiohttp.ClientSession, running: RunningConsole, page: str
) -> AsyncIterator["asyncio.Queue[tuple[float, str]]"]:
    """Yields the contents that are pushed to a page, with the time at which each came, ms since 1970."""
    found: asyncio.Queue[tuple[float, str]] = asyncio.Queue()

    async def follow() -> None:
        async for name, text in events(client, running.address, page):
            if name == "fragment":
                found.put_nowait((now_ms(), text))

    async with _during(follow()):
        yield found


@dataclass(frozen=True, slots=True)
class _NotedCommits:
    """The positions of the dispatcher's rows as they were notified, each with its time, ms since 1970."""

    noted: list[tuple[float, Mapping[OwnedPosition, int]]] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, changes: AsyncIterator[Changes]) -> None:
        """Notes what is notified until cancelled."""
        async for each in changes:
            self.noted.extend([(now_ms(), each.positions)])
            self._more.set()

    async def at_ms(self, record: Record) -> float:
        """Returns when the rows of a record were notified, which may be after a page has shown them.

        Raises TimeoutError after 60 s.
        """
        events = TOPICS.events
        place = (DISPATCHER, events.name, partition_of(record.envelope.stream, events.partitions))
        async with asyncio.timeout(LIMIT_S):
            while True:
                for at_ms, positions in self.noted:
                    if positions.get(place, 0) > record.offset:
                        return at_ms
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def _noted(changes: AsyncIterator[Changes]) -> AsyncIterator[_NotedCommits]:
    """Yields what is notified while the block runs."""
    found = _NotedCommits()
    async with _during(found.follow(changes)):
        yield found


@asynccontextmanager
async def _during(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Does other work while the block runs, and raises its error at the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.result()


async def measure_viewers(running: RunningConsole, log: Log, watched_s: float) -> Measurements:
    """Runs a search for a while, first without open pages, then with 50 that show ten addresses.

    Memory is compared with that at the first third of the time with open pages.
    """
    stream_id = f"viewed-{new_id()[:6]}"
    async with watch_topic(log, TOPICS.events) as watch:
        await publish(log, search(MANY_TRIALS, SLOTS, TASK_TYPE), stream_id, new_id())
        await watch.until(partial(_is_trial, TRIALS_BEFORE, stream_id), LIMIT_S)
        nobody = await _used(running, watched_s / 3)
        opened = _OpenedPages([0] * VIEWERS)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            pages = _pages(stream_id)
            async with AsyncExitStack() as viewers:
                for number in range(VIEWERS):
                    page, charts = pages[number % len(pages)]
                    viewer = _view(client, running.address, page, charts, partial(opened.count, number))
                    await viewers.enter_async_context(_during(viewer))
                opening_s = await opened.all_have_events()
                early = await _used(running, watched_s / 3)
                memory = running.resident_bytes
                late = await _used(running, 2 * watched_s / 3)
                grown = running.resident_bytes - memory
        await publish(log, StopSearch(reason="measured"), stream_id, new_id())
        await watch.until(partial(_is_of, SearchEnded, stream_id), LIMIT_S)
        trials = sum(_is_of(TrialEnded, stream_id, each.record) for each in watch.seen)
    used = (early + 2 * late) / 3
    figures = [
        Figure("-", "50 viewers of a search", used, "cores", nobody, "no viewer", Goal(1, 0.5, at_most=True)),
        Figure("-", "memory that 50 viewers add", grown / 1e6, "MB", memory / 1e6, "at a third"),
    ]
    counted = [
        check_count("viewers that got events", sum(each > 0 for each in opened.events), VIEWERS),
        f"{trials:,} trials of the search that they watched",
        f"{opening_s:.1f} s until all had their page",
    ]
    details = {"viewer_events": opened.events, "viewers_early_cores": early, "viewers_late_cores": late}
    return Measurements(figures, counted, details)


def _pages(stream_id: str) -> list[tuple[str, tuple[str, ...]]]:
    """Returns the ten pages that are open, with the charts that each loads again after a change."""
    search_page, task = f"/experiments/{stream_id}", f"/tasks/{stream_id}/{stream_id}.0"
    columns = f"/data/searches/{stream_id}"
    return [
        ("/", ()),
        ("/experiments", ()),
        ("/experiments?text=noop", ()),
        (search_page, (f"{columns}/history",)),
        (f"{search_page}/trials", ()),
        (f"{search_page}/trials?sort=value&order=asc", ()),
        (f"{search_page}/parameters", (f"{columns}/trials", f"{columns}/importances")),
        (task, ()),
        ("/fleet", ("/data/fleet/timeline?hours=1",)),
        ("/log", ()),
    ]


async def _view(
    client: aiohttp.ClientSession,
    address: str,
    page: str,
    charts: Sequence[str],
    on_event: Callable[[], None],
) -> None:
    """Keeps a page open as a browser does: charts load again after changes, as often as scripts ask."""
    changed = asyncio.Event()

    async def load() -> None:
        while True:
            await changed.wait()
            changed.clear()
            began_s = monotonic_s()
            for chart in charts:
                await ask(client, address + chart)
            await asyncio.sleep(max(SHORTEST_RELOAD_S, SHARE * (monotonic_s() - began_s)))

    async with _during(load()):
        async for name, _ in events(client, address, page):
            on_event()
            if name == "changed":
                changed.set()


async def _used(running: RunningConsole, seconds: float) -> float:
    """Returns how many cores a console uses for a while."""
    began_s, before_ms = monotonic_s(), tree_ms(running.pid)
    await asyncio.sleep(seconds)
    return (tree_ms(running.pid) - before_ms) / 1000 / (monotonic_s() - began_s)


def _is_trial(trial: int, stream_id: str, record: Record) -> bool:
    message = record.message
    return isinstance(message, TrialEnded) and record.envelope.stream == stream_id and message.trial == trial


def _is_of(kind: type[TrialEnded] | type[SearchEnded], stream_id: str, record: Record) -> bool:
    return isinstance(record.message, kind) and record.envelope.stream == stream_id
