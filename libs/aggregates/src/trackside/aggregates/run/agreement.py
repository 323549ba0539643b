"""INV-26 of runs: tasks, gates and ends of steps say what the definition of their step says.

Nothing here is of the fold or of what decides: a fault there is not repeated.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from trackside.aggregates.run.step_messages import (
    FAILURES,
    GateDecided,
    GateOpened,
    StepCacheHit,
    StepCacheMissed,
    StepEnded,
    StepReady,
    StepRepeated,
    StepResolved,
    StepSkipped,
)
from trackside.contracts.envelope.message import Record
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.checks.findings import Findings
from trackside.domain.pipelines.canonical import canonical_digest
from trackside.domain.pipelines.compiling import needed
from trackside.domain.pipelines.definition import PipelineSpec, StepSpec
from trackside.domain.proposal import parse_cause

_OWN = frozenset({"item", "index"})
"""What a reference begins with that is of an item: it isn't resolved for its step."""


def text_of(path: Iterable[object]) -> str:
    """Returns a reference as it was written, such as `${fit.result.rows}`; indexes have no dot."""
    return "${" + ".".join(str(part) for part in path) + "}"


def references(template: Any) -> list[list[Any]]:
    """Returns the references of a template, apart from those to its item, as lists of their parts."""
    if isinstance(template, Mapping):
        path = template.get("$ref")
        if isinstance(path, list | tuple) and len(template) == 1:
            return [list(path)] if path and path[0] not in _OWN else []
        return [each for value in template.values() for each in references(value)]
    if isinstance(template, list | tuple):
        return [each for value in template for each in references(value)]
    return []


def needs_values(step: StepSpec) -> bool:
    """Returns whether a step has references to others, which are resolved once before it begins."""
    templates = (step.parameters, step.inputs, step.queue, step.each, step.spec)
    return any(references(template) for template in templates)


def check_task(
    pipeline: PipelineSpec,
    step: StepSpec,
    values: Mapping[str, Any],
    priority: int | None,
    event: TaskSubmitted,
    record: Record,
    findings: Findings,
) -> None:
    """Checks a task of a step: its type, its needs, and parameters that are no parts of templates."""
    findings.compare(record, "the task type", event.task_type, step.task_type or "")
    findings.compare(record, "the names of parameters", sorted(event.parameters), sorted(step.parameters))
    for name, template in step.parameters.items():
        if not isinstance(template, Mapping | list) and "${" not in str(template):
            findings.compare(record, name, event.parameters.get(name), template)
        elif isinstance(template, Mapping) and len(template) == 1 and "$ref" in template:
            text = "".join(text_of(found) for found in references(template))
            if text in values:
                findings.compare(record, name, event.parameters.get(name), values[text])
    for need in Needs.model_fields:
        own = getattr(step, need, None)
        wanted = getattr(pipeline.defaults, need) if own is None else own
        if need == "priority" and priority is not None:
            wanted = priority
        if need != "queue" or (not isinstance(wanted, Mapping) and "${" not in str(wanted)):
            findings.compare(record, need, getattr(event.needs, need), wanted)
    findings.compare(record, "estimates of", event.estimated_by, "task")
    findings.compare(record, "the checkpoint", event.checkpoint, None)
    findings.compare(record, "the step limit", event.step_limit, None)


def check_ready(step: StepSpec, event: StepReady, record: Record, findings: Findings) -> None:
    """Checks that a step has a value of its `when` if it has one."""
    findings.compare(record, "a value", event.value is not None, bool(step.when))


def check_skipped(step: StepSpec, event: StepSkipped, record: Record, findings: Findings) -> None:
    """Checks that the reason for which a step is skipped has what belongs to it, and nothing else."""
    when = event.by == "when"
    findings.compare(record, "the expression", event.expression, step.when if when else "")
    findings.compare(record, "a cause", bool(event.cause), event.by == "upstream")
    findings.compare(record, "a command", bool(event.command_id), event.by == "operator")
    if event.by != "operator":
        findings.compare(record, "a reason", event.reason, "")
    findings.compare(record, "a value", event.value is not None, when)
    findings.compare(record, "the value", bool(event.value), False)
    if event.cause:
        findings.compare(record, "a step that it needs", event.cause in needed(step), True)


def check_resolved(step: StepSpec, event: StepResolved, record: Record, findings: Findings) -> None:
    """Checks that each value comes from an event before this one."""
    findings.compare(record, "the sources", sorted(event.sources), sorted(event.values))
    for text, source in event.sources.items():
        found = parse_cause(source)
        own = found is not None and found[0] == record.envelope.stream
        if found is None or (own and found[1] >= record.offset):
            findings.differs(record, f"the source of {text}", source, "an event before it")


def check_gate(step: StepSpec, event: GateOpened, record: Record, findings: Findings) -> None:
    """Checks that a gate opens as it is defined."""
    gate = step.gate
    if gate is not None:
        findings.compare(record, "the time limit", event.timeout_s, gate.timeout_s)
        if not references(gate.message) and "${" not in gate.message:
            findings.compare(record, "the message", event.message, gate.message)


def check_decided(event: GateDecided, record: Record, findings: Findings) -> None:
    """Checks that only a gate that expired has a time, and only one that was rejected a reason."""
    findings.compare(record, "a time", event.due_ms is not None, event.decision == "expired")
    findings.compare(record, "a command", bool(event.command_id), event.decision != "expired")
    if event.decision != "rejected":
        findings.compare(record, "a reason", event.reason, "")
    if event.decision != "approved":
        findings.compare(record, "inputs", event.inputs, {})


def check_repeated(
    step: StepSpec, index: int, event: StepRepeated, record: Record, findings: Findings
) -> None:
    """Checks that a step that repeats begins with its next number, as its `until` does not hold."""
    findings.compare(record, "a rule", step.repeat is not None, True)
    findings.compare(record, "the index", event.index, index)
    findings.compare(record, "the value", bool(event.value), False)


def check_cached(
    step: StepSpec, event: StepCacheHit | StepCacheMissed, record: Record, findings: Findings
) -> None:
    """Checks the key of a step in the cache, and that what it is nearest to was looked for."""
    findings.compare(record, "the key", event.key, canonical_digest(event.parts))
    findings.compare(record, "the task type", event.parts.get("task_type"), step.task_type)
    if isinstance(event, StepCacheMissed):
        unknown = not event.parts.get("catalogue")
        findings.compare(record, "no digest", event.reason == "no_digest", unknown)
        if unknown or event.reason in ("off", "refresh"):
            findings.compare(record, "others", (event.nearest, event.differs), (None, []))


def check_end(step: StepSpec, count: int, event: StepEnded, record: Record, findings: Findings) -> None:
    """Checks that the end of a step counts the items that it has begun, and has an error if it says so."""
    several = step.each is not None or step.repeat is not None
    if event.error is not None:
        findings.compare(record, "the kind", event.kind, event.error.code)
        findings.compare(record, "a failure", event.status in FAILURES, True)
    elif event.status not in FAILURES:
        findings.compare(record, "the kind", event.kind, "")
    if event.ends:
        findings.compare(record, "the number of ends", sum(event.ends.values()), count)
        findings.compare(record, "several ends", several, True)
    elif several and event.error is None and event.status not in FAILURES and count:
        findings.differs(record, "the ends", {}, count)
    if step.repeat is None and not step.collect:
        findings.compare(record, "a value", event.value, None)


def plain(step: StepSpec) -> Any:
    """Returns the definition of a step as JSON, to be compared."""
    return json.loads(step.model_dump_json())
