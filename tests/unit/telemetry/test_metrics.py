import re
from typing import get_args

import pytest

from trackside.telemetry import metrics
from trackside.telemetry.metric import Metric
from trackside.telemetry.names import METRICS, CounterName, GaugeName, HistogramName


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_by_service_noun_and_unit_and_has_help(metric: Metric) -> None:
    assert re.fullmatch(r"trackside((\.[a-z_]+){3}|\.build\.info)", metric.name)
    assert metric.help.endswith(".") and "\n" not in metric.help
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert sorted(metric.buckets) == list(metric.buckets)


@pytest.mark.parametrize(
    ("kind", "literal"), [("counter", CounterName), ("gauge", GaugeName), ("histogram", HistogramName)]
)
def test_the_literals_and_the_table_name_the_same_metrics(kind: str, literal: object) -> None:
    assert sorted(get_args(literal)) == sorted(metric.name for metric in METRICS if metric.kind == kind)


def test_no_metric_is_listed_twice() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_a_name_that_is_not_listed_is_refused_with_a_suggestion() -> None:
    with pytest.raises(metrics.UnknownMetric, match=r"did you mean 'trackside\.scheduler\.queue\.tasks'"):
        metrics.gauge("trackside.scheduler.queues.tasks")  # type: ignore[arg-type]


def test_a_name_of_another_kind_is_refused() -> None:
    with pytest.raises(metrics.UnknownMetric, match="is a gauge, asked for as a counter"):
        metrics.counter("trackside.scheduler.queue.tasks")  # type: ignore[arg-type]


def test_what_is_counted_is_exposed_with_its_labels() -> None:
    metrics.counter("trackside.dispatcher.refused.commands").labels(code="unknown_search").inc(2)
    metrics.histogram("trackside.scheduler.queue_wait.seconds").observe(0.2)
    assert metrics.counter("trackside.dispatcher.refused.commands") is metrics.counter(
        "trackside.dispatcher.refused.commands"
    )
    text = metrics.exposition().decode()
    assert 'trackside_dispatcher_refused_commands_total{code="unknown_search"} 2.0' in text
    assert 'trackside_scheduler_queue_wait_seconds_bucket{le="0.5"} 1.0' in text
