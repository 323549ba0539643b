"""Prometheus metrics of this process, made on first use and only under the names of `names.py`.

The cached functions are separate because `functools.cache` would hide the literals from mypy.
"""

import itertools
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, Self, TypeVar

from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    REGISTRY,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.openmetrics import exposition as openmetrics

from trackside.contracts.envelope.refusals import nearest
from trackside.contracts.envelope.trace_context import trace_id
from trackside.telemetry.labels import OTHER, Metric, MetricKind, MetricLabel
from trackside.telemetry.names import METRICS, CounterName, GaugeName, HistogramName

Made = TypeVar("Made", Counter, Gauge, Histogram)
_BY_NAME: Final = {metric.name: metric for metric in METRICS}
_DECLARED: Final[dict[tuple[str, str], set[str]]] = {}
"""The values that a process has learnt, by the names of metric and label."""

# Each series would have another one, and Prometheus sees a restart without it.
disable_created_metrics()  # type: ignore[no-untyped-call]

MUTED: ContextVar[bool] = ContextVar("trackside_muted", default=False)
"""Set where nothing is counted, as in simulated services."""


class _NoMetric:
    """Stands in for any metric where nothing is counted."""

    def labels(self, *_: object, **__: object) -> Self:
        return self

    def inc(self, *_: object) -> None:
        """Counts nothing."""

    set = dec = observe = set_function = inc

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


def exemplar(traceparent: str | None) -> dict[str, str] | None:
    """Returns the labels of the exemplar of an observation: the id of its trace, if it has one."""
    found = None if MUTED.get() else trace_id(traceparent)
    return None if found is None else {"trace_id": found}


def register(*owners: str) -> None:
    """Makes the metrics of these packages, with every series at 0 of which the values are listed.

    A series that begins with its first event has no rate before its second.
    """
    if not MUTED.get():
        for metric in METRICS:
            if metric.owner in owners:
                _make_series(metric, {})


def declare(name: CounterName | GaugeName | HistogramName, **values: Collection[str]) -> None:
    """Makes the series at 0 of values that a process learns when it starts, such as the topics it reads."""
    if MUTED.get():
        return
    for label, learnt in values.items():
        _DECLARED.setdefault((name, label), set()).update(learnt)
    _make_series(_BY_NAME[name], values)


def _make_series(metric: Metric, values: Mapping[str, Collection[str]]) -> None:
    made = _MAKERS[metric.kind](metric.name)
    if metric.of:
        for each in itertools.product(*(values.get(label.name, label.values) for label in metric.of)):
            made.labels(*each)


def exposition(accept: str = "") -> tuple[str, bytes]:
    """Returns the content type and all metrics of this process, in a format that the header Accept asks for.

    That is OpenMetrics, which has exemplars, or else the text format of Prometheus, version 0.0.4.
    """
    if "application/openmetrics-text" in accept:
        return openmetrics.CONTENT_TYPE_LATEST, openmetrics.generate_latest(REGISTRY)  # type: ignore[no-untyped-call]
    return CONTENT_TYPE_PLAIN_0_0_4, generate_latest(REGISTRY)


def _find(name: str, kind: MetricKind) -> Metric:
    metric = _BY_NAME.get(name)
    if metric is None:
        raise UnknownMetric(f"no metric {name!r} in trackside.telemetry.names{nearest(name, _BY_NAME)}")
    if metric.kind != kind:
        raise UnknownMetric(f"{name!r} is a {metric.kind}, asked for as a {kind}")
    return metric


class _Listed:
    """A metric of which a label has listed values: one that is not listed is counted as `other`."""

    of: Metric

    def labels(self, *values: object, **named: object) -> Self:
        """Returns the series of these values."""
        given = values or tuple(named[name] for name in self.of.labels)
        found = [_listed(self.of, label, str(value)) for label, value in zip(self.of.of, given, strict=True)]
        series: Self = super().labels(*found)  # type: ignore[misc]
        return series


class _ListedCounter(_Listed, Counter):
    pass


class _ListedGauge(_Listed, Gauge):
    pass


class _ListedHistogram(_Listed, Histogram):
    pass


def _listed(metric: Metric, label: MetricLabel, value: str) -> str:
    known = label.values or _DECLARED.get((metric.name, label.name))
    return OTHER if label.bounded and known and value not in known else value


@cache
def _counter(name: str) -> Counter:
    metric = _find(name, "counter")
    kind = _ListedCounter if _is_listed(metric) else Counter
    return _of(metric, kind(metric.prometheus_name, metric.help, metric.labels))


@cache
def _gauge(name: str) -> Gauge:
    metric = _find(name, "gauge")
    kind = _ListedGauge if _is_listed(metric) else Gauge
    return _of(metric, kind(metric.prometheus_name, metric.help, metric.labels))


@cache
def _histogram(name: str) -> Histogram:
    metric = _find(name, "histogram")
    kind = _ListedHistogram if _is_listed(metric) else Histogram
    return _of(metric, kind(metric.prometheus_name, metric.help, metric.labels, buckets=metric.buckets))


def _is_listed(metric: Metric) -> bool:
    return any(label.bounded for label in metric.of)


def _of(metric: Metric, made: Made) -> Made:
    if isinstance(made, _Listed):
        made.of = metric
    return made


_MAKERS: Final[Mapping[MetricKind, Callable[[str], Counter | Gauge | Histogram]]] = {
    "counter": _counter,
    "gauge": _gauge,
    "histogram": _histogram,
}
