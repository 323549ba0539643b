"""Every metric is fed by the code, and its labels have the values that the code has."""

import ast
from typing import get_args

from tests.house import source
from trackside.aggregates.search.messages import TrialStatus
from trackside.aggregates.search.state import OVER
from trackside.domain.outcome import Outcome
from trackside.projections.tables.ignored_reports import Reason
from trackside.scheduler.planning.wait_reasons import REASONS
from trackside.telemetry import labels
from trackside.telemetry.names import METRICS
from trackside.worker.child.process.out_of_memory import Resource


def test_every_metric_is_named_where_it_is_fed() -> None:
    declared = source.ROOT / "libs" / "telemetry" / "src" / "trackside" / "telemetry" / "names.py"
    used = {
        node.value
        for path in source.python_files("libs", "services")
        if path != declared
        for node in source.nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    of_jobs = {metric.name for metric in METRICS if metric.labels[:1] == ("job",)}  # see test_stream_gauges
    assert {metric.name for metric in METRICS} - used - of_jobs == set()


def test_no_metric_has_a_series_of_each_task_trial_or_search() -> None:
    many = {"task", "task_id", "trial", "search", "stream", "attempt", "trace_id", "command_id"}
    assert {metric.name: metric.labels for metric in METRICS if many & set(metric.labels)} == {}


def test_the_values_of_labels_are_those_of_the_code() -> None:
    ended = set(TrialStatus) - {TrialStatus.WAITING, TrialStatus.RUNNING}
    assert set(labels.TRIAL_END.values) == ended
    assert set(labels.SEARCH_END.values) == set(OVER)
    assert set(labels.VERDICT.values) == {each.value for each in Outcome} - {"applied"}
    reasons = {name for part in get_args(Reason) for name in (get_args(part) or (part,))}
    assert set(labels.IGNORED_REASON.values) == reasons
    assert labels.RESOURCE.values == get_args(Resource)
    assert labels.WAIT_REASON.values == REASONS
