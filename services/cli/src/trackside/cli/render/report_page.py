"""Writes a report as one HTML file: without scripts or external resources, with all text escaped."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from trackside.cli.render.history_chart import history_svg
from trackside.cli.render.report import StreamReport, counts_of
from trackside.cli.render.run_layout import DrawnStep
from trackside.cli.render.run_pictures import graph_svg
from trackside.domain.display.report import CellValue, FinishedTask, ReportSection
from trackside.domain.display.text import as_text, duration, number
from trackside.domain.display.times import Time
from trackside.domain.rows.table import ViewRow

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2rem 0 .25rem; }
h3 { font-size: 1rem; margin: 1rem 0 .25rem; color: #b3261e; }
p { margin: .25rem 0; opacity: .75; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #8884; padding: .3rem .8rem; text-align: left; vertical-align: top; }
th { font-weight: 600; border-bottom-width: 2px; white-space: nowrap; }
.n { text-align: right; white-space: nowrap; }
svg { max-width: 100%; height: auto; margin: .5rem 0; }
.message { overflow-wrap: anywhere; white-space: pre-wrap; }
@media print { body { margin: 0; max-width: none; } }
"""
MOST_DRAWN = 300
"""Of how many steps a picture can still be read."""
HtmlCell = tuple[str, str]
"""A cell's text and its class."""


def page(report: StreamReport) -> str:
    """Returns the whole file."""
    title = escape(f"{report.name or report.id} - {report.status}")
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(report.name or report.id)}</h1>",
        f"<p>{escape(_about(report))}</p>",
        *_beginning(report),
        *(_section(section) for section in report.sections),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _beginning(report: StreamReport) -> Iterator[str]:
    """Yields facts, the picture of a run, and tables."""
    facts = [[(str(name), ""), (_cell_text(value), "message")] for name, value in report.page.facts]
    if facts:
        yield _table([], facts)
    if 0 < len(report.picture) <= MOST_DRAWN:
        picture = graph_svg([_drawn(node) for node in report.picture], f"The steps of {report.id}")
        yield f'<div class="wide">{picture}</div>'
    for table in report.page.tables:
        kinds = ["n" if column.right else "message" if column.keep else "" for column in table.columns]
        heads = [(column.heading, "n" if column.right else "") for column in table.columns]
        yield _table(heads, [list(zip(map(_cell_text, row), kinds, strict=True)) for row in table.rows])


def _cell_text(value: object) -> str:
    return _time(value) if isinstance(value, Time) else as_text(value)


def _drawn(node: ViewRow) -> DrawnStep:
    took = duration(node["took_s"]) if node["took_s"] is not None else ""
    return DrawnStep(node["name"], node["what"], node["state"], node["color"], node["needs"], took=took)


def _about(report: StreamReport) -> str:
    times = f"started {_time(report.started_at)}"
    if report.ended_at is not None:
        took = duration((report.ended_at - report.started_at).total_seconds())
        times += f", ended {_time(report.ended_at)} after {took}"
    return f"{report.kind} {report.id}: {report.status}, {times}"


def _section(section: ReportSection) -> str:
    counts = f"{section.status}: {counts_of(section)}"
    parts = [f"<section><h2>{escape(section.name)}</h2>", f"<p>{escape(counts)}</p>", history_svg(section)]
    if section.finished:
        parts.append(_results(section, section.finished))
    if section.early_stopped:
        parts += ["<h3>stopped early</h3>", _results(section, section.early_stopped)]
    if section.failed:
        heads = [("task", ""), ("ending", ""), ("stage", ""), ("attempts", "n"), ("message", "")]
        rows = [
            [
                (row.name, ""),
                (row.ending, ""),
                (row.stage or "-", ""),
                (str(row.attempts), "n"),
                (row.message or "-", "message"),
            ]
            for row in section.failed
        ]
        parts += ["<h3>did not finish</h3>", _table(heads, rows)]
    return "\n".join([*parts, "</section>"])


def _results(section: ReportSection, tasks: Sequence[FinishedTask]) -> str:
    heads = [("task", ""), *(_head(section, name) for name in section.columns)]
    heads += [("load time", "n"), ("train time", "n"), ("attempts", "n")]
    rows = [
        [
            (row.name, ""),
            *(_cell(row.cells.get(name)) for name in section.columns),
            (_span(row.load_time_ms), "n"),
            (_span(row.train_time_ms), "n"),
            (str(row.attempts), "n"),
        ]
        for row in tasks
    ]
    return _table(heads, rows)


def _head(section: ReportSection, name: str) -> HtmlCell:
    """Returns the heading of a result column, aligned as its cells are."""
    kinds = {_cell(row.cells.get(name))[1] for row in (*section.finished, *section.early_stopped)}
    return name, "" if "" in kinds else "n"


def _table(heads: Sequence[HtmlCell], rows: Iterable[Sequence[HtmlCell]]) -> str:
    head = ["<thead><tr>", *(_tagged("th", cell) for cell in heads), "</tr></thead>"] if heads else []
    lines = ['<div class="wide"><table>', *head, "<tbody>"]
    lines += ["<tr>" + "".join(_tagged("td", cell) for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</tbody></table></div>"])


def _tagged(tag: str, cell: HtmlCell) -> str:
    text, kind = cell
    return f'<{tag} class="{kind}">{escape(text)}</{tag}>' if kind else f"<{tag}>{escape(text)}</{tag}>"


def _cell(value: CellValue) -> HtmlCell:
    if value is None:
        return "-", "n"
    if isinstance(value, bool):
        return ("yes" if value else "no"), "n"
    if isinstance(value, float):
        return number(value), "n"
    return str(value), "n" if isinstance(value, int) else ""


def _span(ms: int | None) -> str:
    return duration(None if ms is None else ms / 1000)


def _time(moment: Time) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
