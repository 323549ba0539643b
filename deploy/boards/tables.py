"""Tables: columns with widths that fit their panel, units by their names, colours by status, and links."""

from collections.abc import Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from boards import links
from boards.panels import Panel, panel, status_mappings
from boards.queries import PostgresQuery
from boards.style import unit_of_column

COLUMN_PX = 1600 / 24
"""The width of one of the 24 columns of a board on a screen of 1600 pixels."""
PANEL_PADDING_PX = 34


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its width in pixels, where its cells link to, whether it is coloured by status.

    A hidden one is there for links only. `title` replaces the name in the head of the table.
    """

    name: str
    width: int = 0
    title: str = ""
    link: str = ""
    status: bool = False
    hidden: bool = False
    unit: str = ""

    def properties(self) -> list[DynamicConfigValue]:
        """Returns what distinguishes this column from the others of its table."""
        found: list[tuple[str, object]] = [("displayName", self.title or self.name.replace("_", " "))]
        if self.hidden:
            return [DynamicConfigValue(id_val="custom.hidden", value=True)]
        if self.width:
            found.append(("custom.width", self.width))
        if unit := self.unit or unit_of_column(self.name):
            found.append(("unit", unit))
        if self.status:
            found.append(("custom.displayMode", "color-text"))
        if self.link:
            found.append(("links", [{"title": f"Open {self.title or self.name}", "url": self.link}]))
        return [DynamicConfigValue(id_val=name, value=value) for name, value in found]


def trace_column() -> Column:
    """Returns the column `trace_id`: of its 32 digits the first are shown, and all are the link."""
    return Column("trace_id", 85, "trace", links.to_trace())


def table(
    title: str, description: str, query: PostgresQuery, columns: Sequence[Column], *, none: str = ""
) -> Panel:
    """Returns a table with the columns of its query; those without a width share what the others leave.

    `none` is shown where there are no rows.
    """
    built = panel("table", title, description, [query])
    if none:
        built.no_value(none)
    if any(column.status for column in columns):
        # Of the panel: in each column they would make the file twice as long.
        built.mappings(status_mappings())
    built.custom({"align": "auto", "displayMode": "auto", "inspect": False, "minWidth": 50})
    built.options(
        {"showHeader": True, "cellHeight": "sm", "footer": {"show": False, "reducer": ["sum"], "fields": ""}}
    )
    for column in columns:
        built.override_by_name(column.name, column.properties())
    return built
