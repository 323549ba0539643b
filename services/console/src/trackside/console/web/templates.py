"""Templates of pages, with the filters that they use. All values are escaped: what a task wrote is text."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import QueryParams

from trackside.console.web import assets
from trackside.domain.display.text import as_text, duration, number
from trackside.domain.display.times import FarTime, Time


class Templates:
    """Renders pages, or only their content."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("trackside.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            duration=lambda value: duration(None if value is None else float(value)),
            number=number,
            as_text=as_text,
            when=when,
            bytes=size,
            path=lambda text: quote(str(text), safe=""),
            json=lambda value: json.dumps(value, indent=2, ensure_ascii=False, default=str),
            options=lambda value: json.dumps(value, ensure_ascii=False, default=str),
        )
        self._environment.globals.update(asset=assets.address, changed_query=changed_query)

    def page(self, name: str, values: Mapping[str, Any]) -> str:
        """Returns a whole page."""
        return self._environment.get_template(name).render(values, layout="base.html")

    def content(self, name: str, values: Mapping[str, Any]) -> str:
        """Returns the content of a page without what is around it."""
        return self._environment.get_template(name).render(values, layout="content.html")

    def fragment(self, name: str, values: Mapping[str, Any]) -> str:
        """Returns a template that is a part of a page."""
        return self._environment.get_template(name).render(values)


def when(value: Time | None) -> Markup:
    """Returns a time as an element that the page shows in the user's own time; a far one as text."""
    if value is None:
        return Markup('<span class="muted">-</span>')
    if isinstance(value, FarTime):
        return escape(value)
    shown = value.strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}" data-relative>{} UTC</time>').format(value.isoformat(), shown)


def size(value: float | None) -> str:
    """Returns a number of bytes with a unit: `512 MiB`."""
    if value is None:
        return "-"
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TiB"


def changed_query(query: QueryParams, **changes: object) -> str:
    """Returns a query with some values changed; None removes one. Begins with a question mark.

    Others stay as they are, also those that are there several times.
    """
    kept = [(name, value) for name, value in query.multi_items() if name not in changes and value != ""]
    changed = [(name, str(value)) for name, value in changes.items() if value not in (None, "")]
    return "?" + urlencode(kept + changed)
