"""Prometheus metrics of this process, made on first use and only under the names of `names.py`.

The cached functions are separate because `functools.cache` would hide the literals from mypy.
"""

import difflib
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, Self

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest

from trackside.telemetry.names import METRICS, CounterName, GaugeName, HistogramName, Metric, MetricKind

_BY_NAME: Final = {metric.name: metric for metric in METRICS}


MUTED: ContextVar[bool] = ContextVar("trackside_muted", default=False)
"""Set where nothing is counted, as in simulated services."""


class _NoMetric:
    """Stands in for any metric where nothing is counted."""

    def labels(self, *_: object, **__: object) -> Self:
        return self

    def inc(self, _: float = 1) -> None:
        """Counts nothing."""

    set = dec = observe = inc

    def remove(self, *_: object) -> None:
        """Removes nothing."""


_NO_METRIC: Final[Any] = _NoMetric()


class UnknownMetric(LookupError):
    """A metric was requested by a name that `trackside.telemetry.names` doesn't have for its kind."""


def counter(name: CounterName) -> Counter:
    """Returns the counter of this name; raises UnknownMetric. Add with `.labels(...).inc(n)`."""
    return _NO_METRIC if MUTED.get() else _counter(name)


def gauge(name: GaugeName) -> Gauge:
    """Returns the gauge of this name; raises UnknownMetric. Set with `.labels(...).set(value)`."""
    return _NO_METRIC if MUTED.get() else _gauge(name)


def histogram(name: HistogramName) -> Histogram:
    """Returns the histogram of this name; raises UnknownMetric. Use `.labels(...).observe(value)`."""
    return _NO_METRIC if MUTED.get() else _histogram(name)


def exposition() -> bytes:
    """Returns all metrics of this process in the Prometheus text format, version 0.0.4."""
    return generate_latest(REGISTRY)


def _find(name: str, kind: MetricKind) -> Metric:
    metric = _BY_NAME.get(name)
    if metric is None:
        near = difflib.get_close_matches(name, _BY_NAME, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownMetric(f"no metric {name!r} in trackside.telemetry.names{hint}")
    if metric.kind != kind:
        raise UnknownMetric(f"{name!r} is a {metric.kind}, asked for as a {kind}")
    return metric


@cache
def _counter(name: str) -> Counter:
    metric = _find(name, "counter")
    return Counter(metric.prometheus_name, metric.help, metric.labels)


@cache
def _gauge(name: str) -> Gauge:
    metric = _find(name, "gauge")
    return Gauge(metric.prometheus_name, metric.help, metric.labels)


@cache
def _histogram(name: str) -> Histogram:
    metric = _find(name, "histogram")
    return Histogram(metric.prometheus_name, metric.help, metric.labels, buckets=metric.buckets)
