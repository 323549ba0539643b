"""What a page is: a function that reads rows and returns a template with its values."""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from numpy.typing import NDArray
from starlette.datastructures import QueryParams

from trackside.console.web.users import Role, User
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.log import Log
from trackside.projections.pages.trial_cache import TrialColumnsCache
from trackside.projections.past.reader import PastReader
from trackside.projections.past.store import PastStore
from trackside.projections.reading.read_pool import SnapshotModels
from trackside.replay.causality.standings import Standings

MAX_PAGE = 100_000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a page gets: its path and query, who asks, and rows that are all of one moment."""

    path: str
    parts: Mapping[str, str]
    """The variable parts of the path by name."""
    query: QueryParams
    user: User
    models: SnapshotModels
    log: Log
    topics: Topics
    trials: TrialColumnsCache = field(default_factory=TrialColumnsCache)
    """Columns of trials, which are kept from one request to the next."""
    past: PastStore | None = None
    """The snapshots of past states."""
    standings: Standings = field(default_factory=Standings)
    """How far streams were folded for the marks of their events, which is kept likewise."""

    @property
    def past_states(self) -> PastReader | None:
        """Returns a reader of the snapshots of past states, for this request."""
        return None if self.past is None else PastReader(self.past)

    @property
    def may_publish(self) -> bool:
        """Whether the user may publish commands."""
        return self.user.role >= Role.OPERATOR

    def number(self, name: str, default: int, lowest: int = 0, highest: int = MAX_PAGE) -> int:
        """Returns a whole number of the query; what is none, or out of range, is as if it were not there."""
        text = self.query.get(name, "")
        return max(lowest, min(highest, int(text))) if text.isascii() and text.isdigit() else default

    def signed(self, name: str) -> int | None:
        """Returns a whole number of 64 bits of the query, which may be below 0; None for any other text."""
        text = self.query.get(name, "")
        digits = text.removeprefix("-")
        value = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
        return value if value is not None and -(2**63) <= value < 2**63 else None

    def finite(self, name: str, default: float) -> float:
        """Returns a number of the query; raises BadQuery for a text that is none."""
        text = self.query.get(name, "")
        try:
            value = float(text) if text else float(default)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or abs(value) > 2**62:
            raise BadQuery(f"{name}: expected a number, not {text[:50]!r}")
        return value

    def one_of(self, name: str, allowed: Mapping[str, Any] | tuple[str, ...], default: str) -> str:
        """Returns a value of the query that is one of `allowed`, else the default."""
        value = self.query.get(name, default)
        return value if value in allowed else default


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows: a template with its values.

    `streams` are those whose changes matter; None: any change of the read models does.
    """

    template: str
    title: str
    values: Mapping[str, Any]
    streams: frozenset[str] | None = None
    status: int = 200
    section: str = ""
    """Which entry of the navigation is the current one."""


PageFunction = Callable[[PageRequest], Awaitable[Shown]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """A page with the path of its address, such as /searches/{stream_id}."""

    path: str
    function: PageFunction


@dataclass(frozen=True, slots=True)
class ChartValues:
    """The values of a chart: equally long columns by name, labels of columns that have some, and `meta`.

    `meta` is JSON that the script of the chart knows, such as annotations or a note under it.
    """

    arrays: Mapping[str, NDArray[Any]]
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)


ColumnsFunction = Callable[[PageRequest], Awaitable[ChartValues]]


@dataclass(frozen=True, slots=True)
class ColumnsRoute:
    """Values of a chart with the path of their address."""

    path: str
    function: ColumnsFunction


@dataclass(frozen=True, slots=True)
class Site:
    """All pages and charts of the console."""

    pages: tuple[PageRoute, ...]
    charts: tuple[ColumnsRoute, ...]


class PageNotFound(Exception):
    """There is nothing at this address; the message says what was looked for and what to do."""


class BadQuery(Exception):
    """The query of an address asks for what can't be; the message says what was expected."""


@dataclass(slots=True)
class ServiceStates:
    """What is wrong now with what the console depends on, as sentences by subject; empty: nothing."""

    problems: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The sentences, one after another."""
        return " ".join(f"{each}." for each in self.problems.values())


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that fires: `runbook` is the address of its runbook, empty where the text is none to open."""

    name: str
    severity: str
    summary: str
    since: datetime
    runbook: str
    runbook_text: str


@dataclass(slots=True)
class Alerts:
    """The alerts of Prometheus: those that fire, the newest first; or `problem`: why they are not known."""

    firing: Sequence[Alert] = ()
    problem: str = ""
    is_read: bool = False
    """Whether Prometheus was asked yet."""
