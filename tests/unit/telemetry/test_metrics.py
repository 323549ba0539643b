import re
from typing import Final, get_args

import pytest

from trackside.telemetry import metrics
from trackside.telemetry.names import METRICS, CounterName, GaugeName, HistogramName


def test_a_metric_is_named_once_by_service_noun_and_unit_and_has_help() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"trackside((\.[a-z_]+){3}|\.build\.info)", metric.name)
        assert metric.help.endswith(".") and "\n" not in metric.help, metric
        assert bool(metric.buckets) == (metric.kind == "histogram"), metric
        assert sorted(metric.buckets) == list(metric.buckets), metric
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize(
    ("kind", "literal"), [("counter", CounterName), ("gauge", GaugeName), ("histogram", HistogramName)]
)
def test_the_literals_and_the_table_name_the_same_metrics(kind: str, literal: object) -> None:
    assert sorted(get_args(literal)) == sorted(metric.name for metric in METRICS if metric.kind == kind)


def test_a_name_that_is_not_listed_or_of_another_kind_is_refused() -> None:
    with pytest.raises(metrics.UnknownMetric, match=r"did you mean 'trackside\.scheduler\.queue\.tasks'"):
        metrics.gauge("trackside.scheduler.queues.tasks")  # type: ignore[arg-type]
    with pytest.raises(metrics.UnknownMetric, match="is a gauge, asked for as a counter"):
        metrics.counter("trackside.scheduler.queue.tasks")  # type: ignore[arg-type]


def test_what_is_counted_is_exposed_with_its_labels() -> None:
    metrics.counter("trackside.dispatcher.refused.commands").labels(code="unknown_search").inc(2)
    metrics.histogram("trackside.scheduler.queue_wait.seconds").observe(0.2)
    refused: Final = "trackside.dispatcher.refused.commands"
    assert metrics.counter(refused) is metrics.counter(refused)
    text = metrics.exposition()[1].decode()
    assert 'trackside_dispatcher_refused_commands_total{code="unknown_search"} 2.0' in text
    assert 'trackside_scheduler_queue_wait_seconds_bucket{le="0.5"} 1.0' in text


def test_every_series_whose_labels_are_listed_exists_before_its_first_event() -> None:
    metrics.register("worker")
    text = metrics.exposition()[1].decode()  # other tests of this process may have counted some
    ends = 'trackside_worker_ended_tasks_total{status="%s"} '
    assert all(ends % end in text for end in ("finished", "oom_host", "oom_device", "lost"))
    assert 'trackside_worker_refused_tasks_total{code="out_of_memory"} ' in text


def test_a_value_that_is_not_listed_is_counted_as_other() -> None:
    metrics.declare("trackside.dispatcher.accepted.commands", type=["trackside.start-search.v1"])
    accepted = metrics.counter("trackside.dispatcher.accepted.commands")
    before = _accepted()
    for number in range(100):
        accepted.labels(type=f"made-up-{number}").inc()
    accepted.labels("trackside.start-search.v1").inc()
    counted = {kind: value - before.get(kind, 0) for kind, value in _accepted().items()}
    more = {kind: value for kind, value in counted.items() if value}
    assert more == {"other": 100, "trackside.start-search.v1": 1}


def _accepted() -> dict[str, float]:
    """Returns how many commands of each type are shown as accepted: other tests of the process count, too."""
    text = metrics.exposition()[1].decode()
    line = r'^trackside_dispatcher_accepted_commands_total{type="(.*)"} (.*)$'
    found = re.findall(line, text, re.MULTILINE)
    return {kind: float(value) for kind, value in found}


def test_openmetrics_has_the_trace_of_an_observation_as_its_exemplar() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    exemplar = metrics.exemplar(f"00-{trace}-b7ad6b7169203331-01")
    metrics.histogram("trackside.eventlog.decision.seconds").observe(0.3, exemplar)
    kind, body = metrics.exposition("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2")
    assert kind.startswith("application/openmetrics-text")
    (bucket,) = (line for line in body.decode().splitlines() if trace in line)
    assert bucket.startswith('trackside_eventlog_decision_seconds_bucket{le="0.5"}')
    assert f'# {{trace_id="{trace}"}} 0.3' in bucket
    assert metrics.exposition("text/plain;version=0.0.4")[0].startswith("text/plain; version=0.0.4")
