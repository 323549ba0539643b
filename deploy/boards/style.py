"""What all boards share: the units of metrics and columns by their names, one colour for each status."""

import re
from typing import Final

from trackside.telemetry.labels import Metric
from trackside.telemetry.names import METRICS

SECONDS, BYTES, SHARE, COUNT = "s", "bytes", "percentunit", "short"
PER_SECOND, BYTES_PER_SECOND, PER_MINUTE = "cps", "Bps", "cpm"
TIME, DATE, PLAIN = "dateTimeAsIso", "dateTimeFromNow", "none"

GREEN, BLUE, ORANGE, RED = "green", "blue", "orange", "red"
PURPLE, GREY, YELLOW, LIGHT_BLUE = "purple", "#8e8e8e", "yellow", "light-blue"

_STATUSES = (
    # What waits or runs.
    (LIGHT_BLUE, "WAITING queued pending ready waiting placed starting Waiting"),
    (BLUE, "RUNNING active running Running busy TRAINING LOADING INIT AVAILABLE"),
    (LIGHT_BLUE, "NO_MORE_TRIAL TUNER_NO_MORE_TRIAL STOPPING stopping Ready Starting"),
    (YELLOW, "PAUSED open ABORTING FAILING TIMING_OUT"),
    # What ended well.
    (GREEN, "SUCCEEDED DONE FINISHED finished succeeded completed deployed cached approved present here"),
    (GREEN, "free accepted answered ACTIVE Completed"),
    # What ended early, and should have.
    (PURPLE, "EARLY_STOPPED preempted recalled returned PARTIAL"),
    (GREY, "STOPPED USER_CANCELED SYS_CANCELED cancelled left aborted ABORTED UNKNOWN EXITED DELETED"),
    (GREY, "skipped omitted closed withdrawn stopped ended"),
    # What failed.
    (RED, "FAILED ERROR EXCEPTION failed Failed rejected expired"),
    ("dark-red", "oom_host oom_device INTERRUPT out_of_memory lost"),
    (ORANGE, "timed_out_queue timed_out_run timed_out TIMED_OUT refused disk_low"),
    # Why tasks wait.
    (GREEN, "device_free"),
    (BLUE, "device_busy"),
    (YELLOW, "retry"),
    (RED, "unschedulable"),
)
STATUS_COLOURS: Final = {status: colour for colour, statuses in _STATUSES for status in statuses.split()}
"""The colour of each status: of searches, trials, attempts, tasks, steps, workers and devices."""

TRIAL_ENDS: Final = ("SUCCEEDED", "EARLY_STOPPED", "FAILED", "USER_CANCELED", "SYS_CANCELED")
WAIT_REASONS: Final = ("device_free", "device_busy", "retry", "unschedulable", "disk_low")

_ENDINGS: Final = {"_s": SECONDS, "_ms": "ms", "_bytes": BYTES, "_share": SHARE, "progress": SHARE} | (
    dict.fromkeys(("_at", "_since", "_until", "_due", "not_before"), TIME)
)


def unit_of_column(name: str) -> str | None:
    """Returns the unit of a column of a view by the end of its name; None if the name has no unit."""
    return next((unit for ending, unit in _ENDINGS.items() if name.endswith(ending)), None)


def metric(name: str) -> Metric:
    """Returns a metric of the registry. Raises KeyError if there is none of this name."""
    return _METRICS[name]


def series(name: str) -> str:
    """Returns the name in Prometheus of a metric; `_bucket`, `_sum` or `_count` of a histogram stays."""
    found = metric(re.sub("_(bucket|sum|count)$", "", name))
    total = "_total" if found.kind == "counter" else ""
    return found.prometheus_name + name.removeprefix(found.name) + total


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
