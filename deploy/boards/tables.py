"""Tables: columns with widths that fit their panel, units by their names, colours by status, and links."""

import re
from typing import Final

from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from boards import links
from boards.panels import Panel, panel, status_mappings
from boards.queries import rows
from boards.style import unit_of_column

COLUMN_PX = 1600 / 24
"""The width of one of the 24 columns of a board on a screen of 1600 pixels."""
PANEL_PADDING_PX = 34
_COLUMN: Final = re.compile(r"(\w+)(?: (\d+))?( !)?(?: ([^>]+?))?(?: > (\w+)(?::(\w+))?(\+time)?)?")
_TRACE: Final = "trace_id"


def _column(text: str) -> tuple[str, list[tuple[str, object]]]:
    """Returns the name of a column, and what distinguishes it from the others of its table."""
    if text.startswith("("):
        return text[1:-1], [("custom.hidden", True)]
    found = _COLUMN.fullmatch(f"{text} 85 trace" if text == _TRACE else text)
    if found is None:
        raise ValueError(f"not a column: {text!r}")
    name, width, status, head, opened, column, spans = found.groups()
    properties: list[tuple[str, object]] = [("displayName", head or name.replace("_", " "))]
    if width:
        properties.append(("custom.width", int(width)))
    if unit := unit_of_column(name):
        properties.append(("unit", unit))
    if status:
        properties.append(("custom.displayMode", "color-text"))
    if opened or name == _TRACE:
        url = links.to(opened, column, spans=bool(spans)) if opened else links.to_trace()
        properties.append(("links", [{"title": f"Open {head or name}", "url": url}]))
    return name, properties


def table(title: str, description: str, statement: str, columns: str, *, none: str = "") -> Panel:
    """Returns a table with the rows of a statement; `none` is shown where there are no rows.

    Columns are separated by `|`. Each is its name, its width in pixels (those without one share what the
    others leave), `!` if its values are statuses, the text of its head if that is not the name, and after `>`
    what its cells open: `> trial` the trial in the column `task_id`, `> trial:from_task` that in another
    column, `> trial+time` at the time when it ran, which columns `from_ms` and `to_ms` have. `trace_id` alone
    is a link to the trace: of its 32 digits the first are shown. A column in parentheses is hidden, and there
    for links only.
    """
    built = panel("table", title, description, [rows(statement)])
    if none:
        built.no_value(none)
    if " !" in columns:
        # Of the panel: in each column they would make the file twice as long.
        built.mappings(status_mappings())
    built.custom({"align": "auto", "displayMode": "auto", "inspect": False, "minWidth": 50})
    built.options(
        {"showHeader": True, "cellHeight": "sm", "footer": {"show": False, "reducer": ["sum"], "fields": ""}}
    )
    for text in " ".join(columns.split()).split(" | "):
        name, properties = _column(text)
        values = [DynamicConfigValue(id_val=key, value=value) for key, value in properties]
        built.override_by_name(name, values)
    return built
