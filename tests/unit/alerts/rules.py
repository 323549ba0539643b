"""The rules of Prometheus as the tests read them, and what is wrong with their names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from tests.house.source import ROOT
from trackside.cli.commands import stack_process
from trackside.telemetry.labels import Metric
from trackside.telemetry.names import METRICS

FOLDER = ROOT / "deploy" / "prometheus" / "rules"
TARGET_LABELS = frozenset({"namespace", "job", "instance"})
"""Labels that Prometheus adds to every series of a target; only Kubernetes has namespaces."""
OF_PROMETHEUS = frozenset({"up", "process_start_time_seconds"})
"""Metrics that Prometheus makes of each scrape, or its client of each process."""
_SELECTOR = re.compile(r"\b(trackside_[a-z0-9_]+)\s*(?:\{([^}]*)\})?")
_RECORDED = re.compile(r"\b\w+:\w+:\w+")
_MATCHER = re.compile(r'(\w+)\s*(=~|=|!=|!~)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")
_SHOWN = re.compile(r"\$labels\.(\w+)")
_SERVICE = "service"


@dataclass(frozen=True)
class Rule:
    """One rule: `alert` or `record` is its name, the other one is empty."""

    alert: str
    record: str
    expr: str
    wait: str
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def name(self) -> str:
        return self.alert or self.record


@cache
def groups() -> tuple[dict[str, Any], ...]:
    files = [yaml.safe_load(path.read_text("utf-8")) for path in sorted(FOLDER.glob("*.yml"))]
    return tuple(group for file in files for group in file["groups"])


@cache
def rules() -> tuple[Rule, ...]:
    return tuple(
        Rule(
            *(each.get("alert", ""), each.get("record", ""), each["expr"], each.get("for", "0m")),
            *(each.get("labels", {}), each.get("annotations", {})),
        )
        for group in groups()
        for each in group["rules"]
    )


def alerts() -> tuple[Rule, ...]:
    return tuple(rule for rule in rules() if rule.alert)


def service_names() -> frozenset[str]:
    return frozenset(each.name for each in stack_process.services(ROOT, ROOT, 1))


def series(rule: Rule) -> set[str]:
    """Returns the names of the series of services that an expression reads."""
    return {name for name, _ in _SELECTOR.findall(_RECORDED.sub("", rule.expr))}


def problems(rule: Rule) -> Iterator[str]:
    """Yields what an expression and its texts name that does not exist."""
    recorded = {each.record for each in rules() if each.record}
    known: set[str] = set(TARGET_LABELS)
    for name in _RECORDED.findall(rule.expr):
        if name not in recorded:
            yield f"{rule.name}: {name} is not recorded"
    for name, matchers in _SELECTOR.findall(_RECORDED.sub("", rule.expr)):
        metric = _metric_of(name)
        if metric is None:
            yield f"{rule.name}: no metric {name}"
            continue
        known |= set(metric.labels)
        if name.endswith("_bucket"):
            known.add("le")
        for label, operator, value in _MATCHER.findall(matchers):
            yield from (f"{rule.name}: {each}" for each in _wrong(metric, label, operator, value))
    for grouping in _GROUPING.findall(rule.expr):
        for label in (each.strip() for each in grouping.split(",")):
            if label not in known:
                yield f"{rule.name}: no metric of it has a label {label}"
    for label in _SHOWN.findall(" ".join(rule.annotations.values())):
        if label not in known:
            yield f"{rule.name}: its text shows the label {label}, which it does not have"


def _metric_of(name: str) -> Metric | None:
    """Returns the metric that has a series of this name, as its kind writes it."""
    for metric in METRICS:
        match metric.kind:
            case "counter":
                series = {f"{metric.prometheus_name}_total"}
            case "gauge":
                series = {metric.prometheus_name}
            case "histogram":
                series = {f"{metric.prometheus_name}_{each}" for each in ("bucket", "count", "sum")}
        if name in series:
            return metric
    return None


def _wrong(metric: Metric, label: str, operator: str, text: str) -> Iterator[str]:
    values = text.split("|") if operator in ("=~", "!~") else [text]
    if label == "le" and metric.buckets:
        known = {str(bound) for bound in metric.buckets}
    else:
        found = [each for each in metric.of if each.name == label]
        if not found:
            yield f"{metric.prometheus_name} has no label {label}"
            return
        known = set(found[0].values)
    if label == _SERVICE:
        known = set(service_names())
    for value in values:
        if value not in known:
            yield f"{metric.prometheus_name} has no {label} {value!r}, only {', '.join(sorted(known))}"
