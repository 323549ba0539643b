"""What is shown of steps that the state doesn't say in one field: parameters, progress. Pure."""

from typing import Any

from trackside.aggregates.run.state import Run
from trackside.domain.pipelines import references
from trackside.domain.pipelines.references import Reference


def shown_parameters(run: Run, name: str) -> Any:
    """Returns the parameters of a step, or the spec of its child; None for a gate.

    References that have no value yet, and those to the items of the step, are texts.
    """
    step, spec = run.steps[name], run.spec_of(name)
    resolved = step.resolved

    def value(reference: Reference) -> Any:
        if resolved is not None and reference.text in resolved:
            return resolved[reference.text]
        if resolved is None or reference.default is None:
            return reference.text
        return reference.default

    if spec.gate is not None:
        return None
    return references.resolve(spec.parameters if spec.kind is None else spec.spec, value)


def share_ended(run: Run, name: str) -> float:
    """Returns how far a step is, from 0 to 1: with `each`, the share of its items that have ended."""
    step = run.steps[name]
    if step.over:
        return 1.0
    return step.ended_items / step.count if run.spec_of(name).each is not None and step.count else 0.0


def progress_of(run: Run) -> float:
    """Returns how far a run is, from 0 to 1: each step counts with its weight."""
    weights = [(spec.weight, spec.name) for spec in run.spec.steps]
    return sum(weight * share_ended(run, name) for weight, name in weights) / sum(
        weight for weight, _ in weights
    )
