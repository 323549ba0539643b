"""The tables of metric points and of the other values of tasks."""

from trackside.domain.rows.table import Table

SERIES = Table(
    "metric_series",
    ("series", "stream_id", "task_id", "attempt", "tag", "kind"),
    key_width=1,
    insert_only=True,
)
POINTS = Table(
    "metric_points", ("series", "step", "wall_time_ms", "value", "non_finite"), key_width=2, insert_only=True
)
ITEMS = Table(
    "summary_items",
    ("series", "step", "item", "wall_time_ms", "body", "sha256", "size_bytes", "media_type"),
    key_width=3,
    insert_only=True,
)
TOTALS = Table(
    "metric_totals",
    (
        "series",
        "task_id",
        "attempt",
        "tag",
        "kind",
        "newest",
        "points",
        "first_step",
        "last_step",
        "last_value",
        "last_non_finite",
        "min_value",
        "max_value",
        "sum_value",
        "non_finite",
        "first_ms",
        "last_ms",
    ),
    key_width=1,
)
BRIEFS = Table(
    "summary_briefs",
    ("job_id", "stream_id", "points", "items", "last_step", "first_ms", "last_ms"),
    key_width=1,
)
UPDATER_FAILURES = Table(
    "updater_failures", ("name", "failed_ms", "failures", "error"), key_width=2, insert_only=True
)
