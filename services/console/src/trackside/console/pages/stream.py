"""The page of one experiment of any kind: its facts, its tables, and what users may do with it."""

from collections.abc import Mapping
from typing import Any

from trackside.console.commands.actions import actions_of
from trackside.console.web.page import PageNotFound, PageRequest, Shown
from trackside.console.whatif.options import KINDS as WHATIF_KINDS
from trackside.domain.display.selection import SHOWN_ROWS
from trackside.domain.display.view import Page, View
from trackside.domain.rows.table import ViewRow
from trackside.projections.reading.reads import queried_rows, row_of_stream

TABS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "search": (
        ("", "Overview", ""),
        ("trials", "Trials", "/trials"),
        ("parameters", "Parameters", "/parameters"),
    ),
    "rounds": (("", "Overview", ""), ("bill", "Live model", "/bill")),
}
SUMMARIES_TAB = ("summaries", "Summaries", "/summaries")
WITH_SUMMARIES = frozenset({"search", "batch", "run", "rounds", "summary"})
"""Kinds of experiments whose tasks may record summaries."""
WHATIF_TAB = ("whatif", "What-if", "/whatif")
LOG_TABS = (("events", "Events", "/events"), ("past", "Past", "/past"))


async def found_stream(request: PageRequest) -> tuple[View[Any], ViewRow]:
    """Returns the view and the row of the stream in the path; raises PageNotFound."""
    stream_id = request.parts["stream_id"]
    found = await row_of_stream(request.models, stream_id)
    if found is None:
        forgotten = await request.models.row("forgotten_stream", stream_id)
        if forgotten is not None:
            raise PageNotFound(_forgotten(forgotten))
        raise PageNotFound(
            f"there is no experiment {stream_id[:200]}; it has not begun, or its rows are not written yet"
        )
    view, row = found
    return view, {**row, "stream_labels": await request.models.row("labels", stream_id)}


def _forgotten(row: ViewRow) -> str:
    """Returns all that is known of a stream that was forgotten."""
    when = row["forgotten_at"].strftime("%Y-%m-%d %H:%M UTC")
    ended = f"{row['kind'] or 'stream'} {row['status']}, {row['ended']} {row['unit']} ended".replace(
        "  ", " "
    )
    return f"{row['stream_id']} was forgotten on {when} ({ended}): {row['reason']}"


async def row_of_kind(request: PageRequest, kind: str, only: str) -> ViewRow:
    """Returns the row of the stream in the path; raises PageNotFound, with `only`, for another kind."""
    view, row = await found_stream(request)
    if view.kind != kind:
        raise PageNotFound(f"{request.parts['stream_id']} is a {view.kind}; {only}")
    return row


def stream_values(request: PageRequest, kind: str, row: ViewRow, tab: str = "") -> dict[str, Any]:
    """Returns the values that the head of every page of a stream has."""
    stream_id = request.parts["stream_id"]
    base = f"/experiments/{stream_id}"
    summaries = (SUMMARIES_TAB,) if kind in WITH_SUMMARIES else ()
    tabs = (*TABS.get(kind, (("", "Overview", ""),)), *summaries, *LOG_TABS)
    tabs = (*tabs, WHATIF_TAB) if kind in WHATIF_KINDS else tabs
    return {
        "stream_id": stream_id,
        "kind": kind,
        "row": row,
        "forms": actions_of(kind, stream_id, row),
        "tab": tab,
        "tabs": [(key, label, base + end) for key, label, end in tabs],
    }


async def plain(request: PageRequest, view: View[Any], row: ViewRow) -> Shown:
    """Shows a stream whose kind has no page of its own: facts and tables."""
    stream_id = request.parts["stream_id"]
    rows = await queried_rows(request.models, view, view.page_queries, stream_id)
    every = view.ordered(row, rows[view.list_query])
    chosen = {**rows, view.list_query: list(view.chosen(every, SHOWN_ROWS))}
    page = Page(view.facts(row, {**rows, view.list_query: every}), view.tables(row, chosen))
    values = {**stream_values(request, view.kind, row), "page": page}
    title = str(row["name"] or stream_id)
    return Shown("stream.html", title, values, frozenset((stream_id,)), section="experiments")
