"""What Grafana sends to a datasource: the text of a query with its macros and variables expanded."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_CALL = re.compile(r"\$__(\w+)\(([^)]*)\)")
"""A macro as the Postgres plugin finds it: its arguments end at the first closing parenthesis."""
_NAMED = re.compile(r"\$\{(\w+)(?::(\w+))?\}|\$(\w+)")
SCRAPE_S = 15.0
"""The interval between two scrapes that Grafana assumes for a Prometheus that has no other setting."""


@dataclass(frozen=True, slots=True)
class View:
    """What a viewer sees: the range of time in seconds since 1970, the points of a graph, and the variables.

    A variable of several values has them all, also if `All` is selected.
    """

    from_s: float
    to_s: float
    points: int = 800
    variables: Mapping[str, str | Sequence[str]] | None = None

    @property
    def span_s(self) -> float:
        """The length of the range in seconds."""
        return self.to_s - self.from_s

    def interval_s(self, least_s: float = 1.0) -> float:
        """Returns the width of an interval: a round number, so that the range has few more than `points`."""
        exact = self.span_s / self.points
        return max(least_s, next((step for step in _ROUND_S if step >= exact * 0.7), _ROUND_S[-1]))


_ROUND_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600),
    *(900, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800),
)


def sql(statement: str, view: View, least_s: float = 1.0) -> str:
    """Returns the statement that Postgres gets."""
    interval_s = view.interval_s(least_s)
    text = statement.replace("$__searchFilter", "%")
    text = text.replace("$__interval_ms", str(int(interval_s * 1000)))
    text = re.sub(r"\$__interval\b", duration(interval_s), text)
    text = _CALL.sub(lambda found: _macro(found[1], found[2], view), text)
    return _with_variables(text, view.variables or {}, quoted=True)


def promql(expression: str, view: View, least_s: float = 1.0) -> str:
    """Returns the expression that Prometheus gets."""
    interval_s = view.interval_s(least_s)
    rate_s = max(interval_s + SCRAPE_S, 4 * SCRAPE_S)
    text = expression.replace("$__rate_interval", duration(rate_s))
    text = text.replace("$__range", duration(max(1, round(view.span_s))))
    text = re.sub(r"\$__interval\b", duration(interval_s), text)
    return _with_variables(text, view.variables or {}, quoted=False)


def duration(seconds: float) -> str:
    """Returns a time as Grafana and Prometheus write it: in whole seconds, or in milliseconds below one."""
    return f"{seconds:.0f}s" if seconds >= 1 else f"{seconds * 1000:.0f}ms"


def _macro(name: str, arguments: str, view: View) -> str:
    began, ended = (
        datetime.fromtimestamp(moment, UTC).strftime("'%Y-%m-%dT%H:%M:%S.%fZ'")
        for moment in (view.from_s, view.to_s)
    )
    match name:
        case "timeFilter":
            return f"{arguments} BETWEEN {began} AND {ended}"
        case "timeFrom":
            return began
        case "timeTo":
            return ended
        case "unixEpochNanoFrom":
            return str(int(view.from_s * 1000) * 1_000_000)
        case "unixEpochNanoTo":
            return str(int(view.to_s * 1000) * 1_000_000)
        case "timeGroup":
            column, _, width = arguments.rpartition(",")
            return _bucket(column.strip(), width.strip())
        case _:
            raise ValueError(
                f"$__{name}({arguments}): the boards use timeFilter, timeFrom, timeTo, timeGroup, "
                "unixEpochNanoFrom, unixEpochNanoTo"
            )


def _bucket(column: str, width: str) -> str:
    found = re.fullmatch(r"([\d.]+)(ms|s)", width)
    if found is None:
        raise ValueError(f"$__timeGroup({column}, {width}): the second argument is $__interval")
    seconds = float(found[1]) / (1000 if found[2] == "ms" else 1)
    return f"floor(extract(epoch from {column})/{seconds:g})*{seconds:g}"


def _with_variables(text: str, variables: Mapping[str, str | Sequence[str]], *, quoted: bool) -> str:
    def expanded(found: re.Match[str]) -> str:
        name, form = found[1] or found[3], found[2]
        if name not in variables:
            return found[0]
        value = variables[name]
        if not quoted:
            return value if isinstance(value, str) else "(" + "|".join(map(_escaped, value)) + ")"
        values = [value] if isinstance(value, str) else value
        if form == "sqlstring" or not isinstance(value, str):
            return ",".join("'" + one.replace("'", "''") + "'" for one in values)
        return str(value)

    return _NAMED.sub(expanded, text)


def _escaped(value: str) -> str:
    """Returns a value of a variable as Grafana puts it into a regular expression within a PromQL string."""
    return re.sub(r"[$^*{}\[\]'+?.()|]", r"\\\\\g<0>", value)
