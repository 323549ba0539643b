"""The report of a stream: results in columns and failures with reasons, in the sections of its view."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from trackside.domain.display.report import ReportSection
from trackside.domain.display.view import PICTURE, Page, QueriedRows, View
from trackside.domain.rows.table import ViewRow


@dataclass(slots=True)
class StreamReport:
    """A stream of any kind with its sections, such as the groups of a batch, in their order."""

    kind: str
    id: str
    name: str
    status: str
    started_at: datetime
    ended_at: datetime | None
    sections: list[ReportSection]
    page: Page = field(default_factory=lambda: Page((), ()))
    """The facts and tables that it begins with."""
    picture: Sequence[ViewRow] = ()
    """The nodes of its picture, if it has one; see PICTURE."""


def counts_of(section: ReportSection) -> str:
    """Returns how many tasks ended in which way: `17 finished, 3 stopped early, 1 did not finish`."""
    counts = [(len(section.finished), "finished"), (len(section.early_stopped), "stopped early")]
    counts += [(len(section.failed), "did not finish"), (section.open, "not over")]
    always = ("finished", "did not finish")
    return ", ".join(f"{count} {what}" for count, what in counts if count or what in always)


def stream_report(view: View[Any], row: ViewRow, rows: QueriedRows) -> StreamReport:
    """Makes the report of a stream, from its row and those of its view's `report_queries`."""
    return StreamReport(
        view.kind,
        row[view.id_column],
        row["name"],
        row["status"],
        row["started_at"],
        row["ended_at"],
        view.sections(row, rows),
        view.report_page(row, rows),
        rows.get(PICTURE, ()),
    )
