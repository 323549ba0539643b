"""Metric points as the log has them: in columns, by tag."""

from collections.abc import Iterable, Mapping
from typing import cast

from trackside.contracts.tasks.summaries import MetricPointsReported, Series
from trackside.contracts.tasks.tasks import NonFinite
from trackside.worker.messages.report_messages import MetricPoint, ReportedValue
from trackside.worker.reporting.journal import JournalEntry


def points_reported(entry: JournalEntry, points: Iterable[MetricPoint]) -> MetricPointsReported:
    """Returns the event of points of one placement, those of each tag in their order."""
    by_tag: dict[str, list[MetricPoint]] = {}
    for point in points:
        by_tag.setdefault(point.tag, []).append(point)
    series = [_series(tag, of_tag) for tag, of_tag in by_tag.items()]
    return MetricPointsReported(
        stream=entry.stream, task_id=entry.task_id, attempt=entry.attempt, series=series
    )


def _series(tag: str, points: list[MetricPoint]) -> Series:
    return Series(
        tag=tag,
        steps=[point.step for point in points],
        times_ms=[point.time_ms for point in points],
        values=[None if isinstance(point.value, str) else point.value for point in points],
        non_finite={
            at: cast("NonFinite", point.value)
            for at, point in enumerate(points)
            if isinstance(point.value, str)
        },
    )


def split_value(reported: ReportedValue) -> tuple[float | str | None, Mapping[str, float | str]]:
    """Returns the deciding value of a report, if it has one, and the other values by name."""
    if isinstance(reported, Mapping):
        return reported.get("value"), reported.get("others") or {}
    return reported, {}
