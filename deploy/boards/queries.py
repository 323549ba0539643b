"""The two datasources and their queries: PromQL, and SQL for the Postgres plugin, which the SDK lacks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.cog import builder, variants
from grafana_foundation_sdk.models.common import DataSourceRef

from boards.style import series

POSTGRES = DataSourceRef(type_val="postgres", uid="trackside-postgres")
PROMETHEUS = DataSourceRef(type_val="prometheus", uid="trackside-prometheus")
Format = Literal["table", "time_series"]


@dataclass(slots=True)
class PostgresDataquery(variants.Dataquery):
    """A statement as the Postgres plugin stores it; `ref_id` distinguishes the queries of a panel."""

    statement: str
    result: Format
    ref_id: str = "A"

    def to_json(self) -> dict[str, object]:
        """Returns the target as it is in the JSON of a dashboard."""
        return {
            "datasource": POSTGRES,
            "editorMode": "code",
            "format": self.result,
            "rawQuery": True,
            "rawSql": self.statement,
            "refId": self.ref_id,
        }


class PostgresQuery(builder.Builder[variants.Dataquery]):
    """Builds a query of the read models. White space is folded, so that the JSON is readable."""

    def __init__(self, statement: str, result: Format = "table") -> None:
        self._internal = PostgresDataquery(" ".join(statement.split()), result)

    def build(self) -> variants.Dataquery:
        """Returns the query."""
        return self._internal

    def ref_id(self, ref_id: str) -> "PostgresQuery":
        """Names the query within its panel."""
        self._internal.ref_id = ref_id
        return self


Query = PostgresQuery | prometheus.Dataquery


FROM_MS, TO_MS = "$__unixEpochNanoFrom() / 1000000", "$__unixEpochNanoTo() / 1000000"
"""The range of the board in ms since 1970. Macros get no expressions, but may be part of one."""


def within(column: str) -> str:
    """Returns the SQL that says whether a column of ms since 1970 is within the range of the board."""
    return f"{column} BETWEEN {FROM_MS} AND {TO_MS}"


def bucket(column: str) -> str:
    """Returns the SQL of the interval of a graph that a column of ms since 1970 is in.

    Whole numbers: on 100,000 rows the same with timestamps takes a tenth of a second longer.
    """
    return f"{column} / $__interval_ms * $__interval_ms"


def rows(statement: str) -> PostgresQuery:
    """Returns a query whose result is a table."""
    return PostgresQuery(statement)


def curves(statement: str) -> PostgresQuery:
    """Returns a query of time series: columns `time` (ascending), `metric` (the name) and `value`."""
    return PostgresQuery(statement, "time_series")


def promql(expression: str, legend: str = "", *, exemplars: bool = False) -> prometheus.Dataquery:
    """Returns a query over the range of the board.

    `legend` has labels in double braces; without one, series are named by the labels of the first `by (...)`.
    """
    return _query(expression, legend).range().exemplar(exemplars)


def latest(expression: str, legend: str = "") -> prometheus.Dataquery:
    """Returns a query for the values at the end of the range of the board."""
    return _query(expression, legend).instant()


def _query(expression: str, legend: str) -> prometheus.Dataquery:
    """Returns a query with the metrics of the registry by their names; `[rate]` is the interval of rates."""
    text = re.sub(r"trackside\.[\w.]+", lambda found: series(found[0]), " ".join(expression.split()))
    text = text.replace("[rate]", "[$__rate_interval]")
    if not legend and (by := re.search(r"by \((?:le, )?(\w.*?)\)", text)):
        legend = " ".join(f"{{{{{label}}}}}" for label in by[1].split(", ") if label != "le")
    return prometheus.Dataquery().expr(text).legend_format(legend).datasource(PROMETHEUS)


def quantile(share: float, name: str, *, by: str = "", where: str = "") -> str:
    """Returns the PromQL of a quantile of a histogram of the registry."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({name}_bucket{where}[rate])))"


def quantiles(
    name: str, legends: Mapping[float, str], *, by: str = "", where: str = "", exemplars: bool = False
) -> list[prometheus.Dataquery]:
    """Returns queries of several quantiles of a histogram, each with its legend."""
    asked = {quantile(share, name, by=by, where=where): legend for share, legend in legends.items()}
    return [promql(expression, legend, exemplars=exemplars) for expression, legend in asked.items()]
