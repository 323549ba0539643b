"""Runs the targets of boards as Grafana does, against a real Postgres and a real Prometheus."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import asyncpg

from boards import expansion
from boards.expansion import View

READER = "trackside_reader"


@dataclass(frozen=True, slots=True)
class Target:
    """One query: of a panel, a variable or an annotation of a board."""

    board: str
    title: str
    text: str
    kind: str
    is_sql: bool
    is_series: bool = False
    is_instant: bool = False
    ref_id: str = "A"
    interval_s: float = 1.0
    panel: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Returns how messages name it: the board, the panel and the query."""
        return f"{self.board} / {self.title} / {self.ref_id}"


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query, with the names of their columns; of PromQL a row is time and value."""

    target: Target
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @property
    def size(self) -> int:
        """The bytes of the answer as Grafana sends it: time series are one table, with a column for each."""
        if not self.target.is_series:
            return len(json.dumps([list(row) for row in self.rows], default=str))
        times, names = {row[0] for row in self.rows}, {row[1] for row in self.rows}
        value_bytes = sum(len(json.dumps(row[2], default=str)) + 1 for row in self.rows)
        return len(times) * 14 + value_bytes + 5 * (len(times) * len(names) - len(self.rows))


def targets(board: Mapping[str, Any]) -> Iterator[Target]:
    """Yields all queries of a board in Grafana's JSON: of panels, variables and annotations."""
    title = board["title"]
    for panel in board["panels"]:
        least = _interval_s(panel.get("interval", "1s"))
        for target in panel.get("targets", ()):
            is_sql = "rawSql" in target
            yield Target(
                board=title,
                title=panel["title"],
                text=target["rawSql"] if is_sql else target["expr"],
                kind=panel["type"],
                is_sql=is_sql,
                is_series=is_sql and target["format"] == "time_series",
                is_instant=bool(target.get("instant")),
                ref_id=target["refId"],
                interval_s=least,
                panel=panel,
            )
    for variable in board["templating"]["list"]:
        if variable["type"] == "query" and isinstance(variable["query"], str):
            yield Target(title, f"variable {variable['name']}", variable["query"], "variable", is_sql=True)
    for annotation in board["annotations"]["list"]:
        named = f"annotation {annotation['name']}"
        if "target" in annotation:
            yield Target(title, named, annotation["target"]["rawSql"], "annotation", is_sql=True)
        elif "expr" in annotation:
            yield Target(title, named, annotation["expr"], "annotation", is_sql=False)


async def ask_postgres(
    connection: "asyncpg.Connection[asyncpg.Record]", target: Target, view: View
) -> Answer:
    """Returns what Postgres answers to the role of dashboards.

    Raises asyncpg.PostgresError for a statement that Postgres refuses, and ValueError for rows that Grafana
    could not draw as time series.
    """
    statement = expansion.sql(target.text, view, target.interval_s)
    prepared = await connection.prepare(statement)
    columns = [attribute.name for attribute in prepared.get_attributes()]
    found = [tuple(row) for row in await prepared.fetch()]
    if target.is_series:
        _check_series(target, columns, found)
    return Answer(target, columns, found)


def _check_series(target: Target, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if list(columns) != ["time", "metric", "value"]:
        raise ValueError(f"{target.name}: columns {columns}, expected time, metric, value")
    times = [row[0] for row in rows]
    if any(later < earlier for earlier, later in pairwise(times)):
        raise ValueError(f"{target.name}: the times do not ascend; Grafana refuses such a series")


async def as_reader(dsn: str) -> "asyncpg.Connection[asyncpg.Record]":
    """Opens a connection with the rights and the search path of dashboards."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(f"SET ROLE {READER}")
    await connection.execute(
        "SET search_path = dashboards; SET statement_timeout = '15s'; SET work_mem = '16MB'"
    )
    return connection


def ask_prometheus(url: str, target: Target, view: View) -> Answer:
    """Returns what Prometheus answers: a row for each value of each series.

    Raises ValueError for an expression that Prometheus refuses.
    """
    expression = expansion.promql(target.text, view, target.interval_s)
    query: dict[str, object] = {"query": expression}
    if target.is_instant:
        query["time"] = view.to_s
    else:
        step = view.interval_s(target.interval_s)
        query |= {"start": view.from_s // step * step, "end": view.to_s // step * step, "step": step}
    path = "query" if target.is_instant else "query_range"
    request = f"{url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            body = json.load(response)
    except urllib.error.HTTPError as error:
        raise ValueError(f"{target.name}: {json.load(error)['error']}") from error
    rows = [
        (float(at), float(value))
        for series in body["data"]["result"]
        for at, value in (series.get("values") or [series["value"]])
    ]
    return Answer(target, ["time", "value"], rows)


def _interval_s(interval: str) -> float:
    return float(interval[:-1]) * {"s": 1, "m": 60}[interval[-1]]
