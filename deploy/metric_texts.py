"""What docs/reference/metrics.md says of each metric: who has it, its labels, its buckets."""

from collections.abc import Iterable

from trackside.telemetry.labels import Metric, MetricLabel
from trackside.telemetry.names import METRICS

HEAD = ("Metric", "Kind", "Of", "Labels", "Means")
WRITERS = {
    "build": "every service",
    "health": "every service",
    "eventlog": "dispatcher, scheduler",
    "projections": "dispatcher, scheduler, summary-indexer",
}
"""Who has the metrics of a package that is no service."""
INTRODUCTION = """
Each service serves its metrics at `/metrics`, in the text format of Prometheus, and in that of OpenMetrics if
it is asked for. A series whose labels are listed here exists at 0 from the start of the process; a value that
is not listed is counted as `other`. Counters count what this process did, once: not what others did, and not
what it reads back after a restart. The log is the exact count: a process that is killed loses what it counted
after it was last scraped.
""".strip()
LISTED_VALUES = 12
"""How many values of a label the page lists; of more it names the page that has them."""


def rows() -> Iterable[tuple[str, ...]]:
    """Returns a row per metric."""
    return (
        (
            f"`{metric.prometheus_name}{'_total' if metric.kind == 'counter' else ''}`",
            metric.kind,
            WRITERS.get(metric.owner, metric.owner.replace("_", "-")),
            "; ".join(map(_label, metric.of)),
            metric.help + _buckets(metric),
        )
        for metric in METRICS
    )


def _label(label: MetricLabel) -> str:
    if len(label.values) > LISTED_VALUES:
        return f"`{label.name}`: {label.means}, see [refusals](refusals.md)"
    values = ", ".join(f"`{value}`" for value in label.values)
    return f"`{label.name}`: {label.means}" + (f" ({values})" if values else "")


def _buckets(metric: Metric) -> str:
    bounds = ", ".join(f"{bound:g}" for bound in metric.buckets)
    return f" Buckets: {bounds}." if bounds else ""
