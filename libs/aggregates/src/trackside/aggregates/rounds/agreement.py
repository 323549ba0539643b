"""INV-26 of rounds: a decision to deploy is about what its round has found, by the conditions of its job.

Nothing here is of the fold or of what decides: a fault there is not repeated.
"""

from collections.abc import Callable, Container, Mapping
from operator import ge, gt, le, lt
from typing import Any

from trackside.aggregates.rounds.job.deploy_messages import DeployDecided
from trackside.aggregates.rounds.job.job_spec import DeploySpec
from trackside.aggregates.rounds.messages import StageEnded
from trackside.contracts.envelope.message import Record
from trackside.domain.checks.findings import Findings

_HOLDS: Mapping[str, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}


def check_decision(
    event: DeployDecided,
    evaluated: StageEnded | None,
    allowed: Container[tuple[str, str, float]],
    record: Record,
    findings: Findings,
) -> None:
    """Checks that a decision is about what the evaluation of its round has found."""
    metrics = {} if evaluated is None else evaluated.metrics
    for name in ("trained", "deployed"):
        findings.compare(record, name, getattr(event, name), metrics.get(name, {}))
    for name, delta in event.deltas.items():
        metric = name.removesuffix("_delta")
        ours, theirs = event.trained.get(metric), event.deployed.get(metric)
        if isinstance(ours, int | float) and isinstance(theirs, int | float):
            findings.compare(record, name, delta, ours - theirs)
    known = {**event.trained, **event.deltas}
    for condition in event.conditions:
        said = (condition.metric, condition.operator, condition.threshold)
        if said not in allowed:
            findings.differs(record, "a condition", said, "one of the job")
        if condition.metric in known:
            findings.compare(record, "a value", condition.value, known[condition.metric])
        value, holds = condition.value, _HOLDS.get(condition.operator)
        if isinstance(value, float) and holds is not None and abs(value - condition.threshold) > 1e-5:
            expected = holds(value, condition.threshold)
            findings.compare(record, "a condition", condition.holds, expected)


def conditions(trigger: Any) -> list[tuple[str, str, float]]:
    """Returns the conditions of a trigger, also those within others: metrics, operators and thresholds."""
    if not isinstance(trigger, dict):
        return []
    if trigger.get("type") == "condition":
        return [(trigger["metric"], trigger["operator"], trigger["threshold"])]
    return [each for inner in trigger.get("triggers", ()) for each in conditions(inner)]


def targets(deploy: DeploySpec) -> set[str]:
    """Returns the targets of an update: files, and the replicas of services."""
    named = {"copy": deploy.copy_to, "config": deploy.config}
    files = {target for target, wanted in named.items() if wanted is not None}
    services = (
        f"serve.{service.name}.{replica}"
        for service in deploy.services
        for replica in range(1, service.replicas + 1)
    )
    return files.union(services)
