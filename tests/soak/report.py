"""The report of a run: one HTML page with verdict, counts, recoveries and pictures."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from tests.soak.checks import Check, CheckResult, has_failed
from tests.soak.pictures import pictures
from tests.soak.records import FaultRecord, LedgerLine, RunRecord

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }}
table {{ border-collapse: collapse; margin: 0.5rem 0 1.5rem; }}
th, td {{ text-align: left; padding: 0.2rem 0.8rem 0.2rem 0; border-bottom: 1px solid #ddd; }}
td {{ vertical-align: top; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
.passed {{ color: #17692f; }} .failed {{ color: #b00020; font-weight: bold; }} .judged {{ color: #777; }}
img {{ max-width: 100%; }}
pre {{ white-space: pre-wrap; background: #f6f6f6; padding: 0.6rem; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""
CLASSES = {CheckResult.PASSED: "passed", CheckResult.FAILED: "failed", CheckResult.NOT_JUDGED: "judged"}
MOST_FINDINGS = 100
RECOVERY = (
    "Seconds until the next event in the log, and until the whole stack was ready. What lasts, as a pause "
    "or a full disk does, and faults that came meanwhile, are included."
)


def write_report(record: RunRecord, ledger: Sequence[LedgerLine]) -> Path:
    """Writes the report into the folder of the run; returns its path."""
    path = record.folder / "report.html"
    path.write_text(report_page(record, ledger), "utf-8")
    return path


def report_page(record: RunRecord, ledger: Sequence[LedgerLine]) -> str:
    """Returns the page."""
    verdict = "failed" if has_failed(record.checks) else "passed"
    title = f"Soak of {record.begin}: {verdict}"
    samples = list(record.samples())
    drawn = [
        f'<h2>{escape(name)}</h2>\n<img alt="{escape(name)}" src="{url}">'
        for name, url in pictures(samples, record.faults).items()
    ]
    parts = [
        f'<h1>Soak: <span class="{verdict}">{verdict}</span></h1>',
        _facts(record, ledger),
        "<h2>Verdict</h2>",
        _verdict_table(record.checks),
        *_findings(record),
        "<h2>Faults and recovery</h2>",
        f"<p>{RECOVERY}</p>",
        _fault_table(record.faults),
        "<h2>Experiments</h2>",
        _experiment_table(record),
        *drawn,
    ]
    return PAGE.format(title=escape(title), body="\n".join(parts))


def _facts(record: RunRecord, ledger: Sequence[LedgerLine]) -> str:
    summed = sum(line.faults for line in ledger)
    failed = sum(line.verdict == "failed" for line in ledger)
    rows = [
        ("begin", record.begin),
        ("length", f"{record.length_s / 3_600:.2f} h"),
        ("seed", str(record.seed)),
        ("faults", f"{len(record.faults):,}"),
        ("experiments", f"{len(record.experiments):,}"),
        (
            "attempts",
            ", ".join(f"{count:,} {kind}" for kind, count in sorted(record.attempts.items())) or "-",
        ),
        ("events", f"{record.events:,}"),
        ("findings", f"{len(record.findings):,}"),
        ("all runs of the ledger", f"{len(ledger)} runs, {failed} failed, {summed:,} faults"),
        *(("note", note) for note in record.notes),
    ]
    return _table((), rows)


def _verdict_table(checks: Iterable[Check]) -> str:
    lines = [
        f'<tr><td>{escape(check.name)}</td><td class="{CLASSES[check.result]}">{check.result.value}</td>'
        f"<td>{escape(check.value)}</td><td>{escape(check.limit)}</td><td>{escape(check.reason)}</td></tr>"
        for check in checks
    ]
    head = "<tr><th>check</th><th>result</th><th>value</th><th>limit</th><th>reason</th></tr>"
    return "\n".join(["<table>", head, *lines, "</table>"])


def _findings(record: RunRecord) -> list[str]:
    if not record.findings:
        return []
    shown = [
        f"<pre>{each.at_s:,.1f} s, {escape(each.check)}: {escape(each.text)}</pre>"
        for each in record.findings[:MOST_FINDINGS]
    ]
    more = len(record.findings) - len(shown)
    return ["<h2>Findings</h2>", *shown, *([f"<p>{more} more are in findings.jsonl.</p>"] if more else [])]


def _fault_table(faults: Sequence[FaultRecord]) -> str:
    grouped: defaultdict[tuple[str, str], list[FaultRecord]] = defaultdict(list)
    for fault in faults:
        grouped[fault.kind, fault.target].append(fault)
    rows = [
        (
            kind,
            target,
            f"{len(found):,}",
            *_spread([each.event_s for each in found]),
            *_spread([each.ready_s for each in found]),
        )
        for (kind, target), found in sorted(grouped.items())
    ]
    head = ("fault", "of", "count", "event: median", "longest", "ready: median", "longest")
    return _table(head, rows, numbers=5)


def _spread(found: Sequence[float | None]) -> tuple[str, str]:
    values = [each for each in found if each is not None]
    if not values:
        return "-", "-"
    return f"{statistics.median(values):.1f}", f"{max(values):.1f}"


def _experiment_table(record: RunRecord) -> str:
    counts = Counter((each.kind, each.outcome) for each in record.experiments)
    rows = []
    for (kind, outcome), count in sorted(counts.items()):
        took = [each.took_s for each in record.experiments if (each.kind, each.outcome) == (kind, outcome)]
        rows.append((kind, outcome, f"{count:,}", *_spread(took)))
    return _table(("kind", "ended as", "count", "took s: median", "longest"), rows, numbers=3)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """Returns a table whose last columns are numbers."""
    lines = ["<table>"]
    if head:
        lines.append("<tr>" + "".join(f"<th>{escape(each)}</th>" for each in head) + "</tr>")
    for row in rows:
        first = len(row) - numbers
        cells = [
            f"<td{' class=number' if numbers and at >= first else ''}>{escape(cell)}</td>"
            for at, cell in enumerate(row)
        ]
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return "\n".join([*lines, "</table>"])
