"""Finds what is wrong with a panel: a query that fails, no data, a unit that does not fit what is shown."""

from collections.abc import Mapping
from typing import Any

import asyncpg

from boards.answers import Answer, Target, ask_postgres, ask_prometheus
from boards.expansion import View
from boards.style import PLAIN, unit_of_column, units_of_expression


async def problems(
    target: Target,
    view: View,
    connection: "asyncpg.Connection[asyncpg.Record] | None",
    prometheus_url: str | None,
) -> list[str]:
    """Runs a target and returns a line for each thing that is wrong with it.

    Without a connection or a URL, targets of that datasource are only checked for their units.
    """
    found = [] if target.is_sql else expression_unit_problems(target)
    try:
        if target.is_sql and connection is not None:
            answer = await ask_postgres(connection, target, view)
        elif not target.is_sql and prometheus_url is not None:
            answer = ask_prometheus(prometheus_url, target, view)
        else:
            return found
    except (asyncpg.PostgresError, ValueError) as error:
        return [*found, f"{target.name}: the query fails: {error}"]
    return [*found, *_of_answer(answer)]


def _of_answer(answer: Answer) -> list[str]:
    target = answer.target
    found = column_unit_problems(answer) if target.is_sql else []
    if not any(value is not None for row in answer.rows for value in row):
        found.append(f"{target.name}: the panel is empty: its query returns no rows")
    return found


def expression_unit_problems(target: Target) -> list[str]:
    """Returns what is wrong with the unit of a panel with PromQL: it has to be that of its metrics."""
    fitting = units_of_expression(target.text)
    unit = _defaults(target.panel).get("unit")
    if not fitting or not target.panel or unit in fitting:
        return []
    return [f"{target.name}: the unit is {unit}, expected {' or '.join(sorted(fitting))}"]


def column_unit_problems(answer: Answer) -> list[str]:
    """Returns the columns of an SQL answer whose names have a unit that the panel does not show them in."""
    panel = answer.target.panel
    if not panel or answer.target.is_series or answer.target.kind == "nodeGraph":
        return []
    overrides, hidden = _overridden(panel), _hidden(panel)
    default = _defaults(panel).get("unit", PLAIN)
    found = []
    for column in answer.columns:
        wanted, shown = unit_of_column(column), overrides.get(column, default)
        if wanted is not None and wanted != shown and column not in hidden:
            found.append(f"{answer.target.name}: column {column} is shown in {shown}, expected {wanted}")
    return found


def _overridden(panel: Mapping[str, Any]) -> dict[str, str]:
    """Returns the units of columns that have one of their own."""
    found = {}
    for override in panel["fieldConfig"]["overrides"]:
        properties = {each["id"]: each["value"] for each in override["properties"]}
        if "unit" in properties:
            found[override["matcher"]["options"]] = properties["unit"]
    return found


def _hidden(panel: Mapping[str, Any]) -> set[str]:
    return {
        override["matcher"]["options"]
        for override in panel["fieldConfig"]["overrides"]
        if any(each["id"] == "custom.hidden" for each in override["properties"])
    }


def _defaults(panel: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = panel.get("fieldConfig", {}).get("defaults", {})
    return found
