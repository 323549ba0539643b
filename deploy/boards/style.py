"""What all boards share: the units of metrics and columns by their names, one colour for each status."""

import re
from collections.abc import Mapping
from typing import Final

from trackside.telemetry.labels import Metric
from trackside.telemetry.names import METRICS

SECONDS, BYTES, SHARE, COUNT = "s", "bytes", "percentunit", "short"
PER_SECOND, BYTES_PER_SECOND, PER_MINUTE = "cps", "Bps", "cpm"
TIME, DATE, PLAIN = "dateTimeAsIso", "dateTimeFromNow", "none"

GREEN, BLUE, ORANGE, RED = "green", "blue", "orange", "red"
PURPLE, GREY, YELLOW, LIGHT_BLUE = "purple", "#8e8e8e", "yellow", "light-blue"

STATUS_COLOURS: Final[Mapping[str, str]] = {
    # What waits or runs.
    **dict.fromkeys(
        ("WAITING", "queued", "pending", "ready", "waiting", "placed", "starting", "Waiting"), LIGHT_BLUE
    ),
    **dict.fromkeys(
        ("RUNNING", "active", "running", "Running", "busy", "TRAINING", "LOADING", "INIT", "AVAILABLE"), BLUE
    ),
    **dict.fromkeys(
        ("NO_MORE_TRIAL", "TUNER_NO_MORE_TRIAL", "STOPPING", "stopping", "Ready", "Starting"), LIGHT_BLUE
    ),
    **dict.fromkeys(("PAUSED", "open", "ABORTING", "FAILING", "TIMING_OUT"), YELLOW),
    # What ended well.
    **dict.fromkeys(
        ("SUCCEEDED", "DONE", "FINISHED", "finished", "succeeded", "completed", "deployed"), GREEN
    ),
    **dict.fromkeys(
        ("cached", "approved", "present", "here", "free", "accepted", "answered", "ACTIVE", "Completed"),
        GREEN,
    ),
    # What ended early, and should have.
    **dict.fromkeys(("EARLY_STOPPED", "preempted", "recalled", "returned", "PARTIAL"), PURPLE),
    **dict.fromkeys(("STOPPED", "USER_CANCELED", "SYS_CANCELED", "cancelled", "left", "aborted"), GREY),
    **dict.fromkeys(
        (
            "ABORTED",
            "UNKNOWN",
            "EXITED",
            "DELETED",
            "skipped",
            "omitted",
            "closed",
            "withdrawn",
            "stopped",
            "ended",
        ),
        GREY,
    ),
    # What failed.
    **dict.fromkeys(("FAILED", "ERROR", "EXCEPTION", "failed", "Failed", "rejected", "expired"), RED),
    **dict.fromkeys(("oom_host", "oom_device", "INTERRUPT", "out_of_memory", "lost"), "dark-red"),
    **dict.fromkeys(
        ("timed_out_queue", "timed_out_run", "timed_out", "TIMED_OUT", "refused", "disk_low"), ORANGE
    ),
    # Why tasks wait.
    "device_free": GREEN,
    "device_busy": BLUE,
    "retry": YELLOW,
    "unschedulable": RED,
}
"""The colour of each status: of searches, trials, attempts, tasks, steps, workers and devices."""

TRIAL_ENDS: Final = ("SUCCEEDED", "EARLY_STOPPED", "FAILED", "USER_CANCELED", "SYS_CANCELED")
WAIT_REASONS: Final = ("device_free", "device_busy", "retry", "unschedulable", "disk_low")

_ENDINGS: Final[Mapping[str, str]] = {
    "_s": SECONDS,
    "_ms": "ms",
    "_bytes": BYTES,
    "_share": SHARE,
    "progress": SHARE,
    "_at": TIME,
    "_since": TIME,
    "_until": TIME,
    "_due": TIME,
    "not_before": TIME,
}


def unit_of_column(name: str) -> str | None:
    """Returns the unit of a column of a view by the end of its name; None if the name has no unit."""
    for ending, unit in _ENDINGS.items():
        if name.endswith(ending):
            return unit
    return None


def metric(name: str) -> Metric:
    """Returns a metric of the registry. Raises KeyError if there is none of this name."""
    return _METRICS[name]


def series(name: str) -> str:
    """Returns the name of a metric in Prometheus: of a histogram without `_bucket`, `_sum` or `_count`."""
    found = metric(name)
    return found.prometheus_name + ("_total" if found.kind == "counter" else "")


_METRICS: Final = {metric.name: metric for metric in METRICS}
_BASE_UNITS: Final = {"seconds": SECONDS, "bytes": BYTES, "ratio": SHARE}
_RATES: Final = {SECONDS: SHARE, BYTES: BYTES_PER_SECOND, COUNT: PER_SECOND}
_SELECTOR: Final = re.compile(r"(rate|irate|increase|delta|changes)?\(?\s*\b(trackside_\w+)")


def units_of_expression(expression: str) -> set[str]:
    """Returns the units that the result of a PromQL expression over metrics of the registry may have.

    The unit is that of the metric; of a rate it is per second, or per minute if the expression says `* 60`. A
    quotient of two metrics is a share, unless it is a mean.
    """
    found: set[str] = set()
    kinds = []
    for function, name in _SELECTOR.findall(expression):
        base = _BASE_UNITS.get(_unit_word(name), COUNT)
        if name.endswith("_count"):
            base = COUNT
        kinds.append((function, name, base))
    for function, name, base in kinds:
        if "histogram_quantile" in expression and name.endswith("_bucket"):
            found.add(base)
        elif function in ("rate", "irate"):
            found.add(PER_MINUTE if base == COUNT and re.search(r"\* 60\b", expression) else _RATES[base])
        else:
            found |= {base, PLAIN} if base == COUNT else {base}
        if "avg_over_time" in expression:  # of a metric that is 1 or 0
            found.add(SHARE)
    if re.search(r"(?<!\w)/(?!\w)", expression) and len(kinds) > 1:
        found = {SECONDS} if any(name.endswith("_sum") for _, name, _ in kinds) else {SHARE}
    return found


def _unit_word(name: str) -> str:
    words = name.removesuffix("_total").split("_")
    while words[-1] in ("bucket", "sum", "count"):
        words.pop()
    return words[-1]
