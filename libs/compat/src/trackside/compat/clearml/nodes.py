"""The nodes of a controller: what the log has of their steps."""

import copy

from trackside.aggregates.run.state import Run, RunStep
from trackside.aggregates.run.step_messages import StepState
from trackside.compat.clearml.conversion import PipelineNode
from trackside.domain.pipelines.compiling import needed
from trackside.domain.pipelines.definition import StepSpec

STATUS_OF_STEP = {
    StepState.PENDING: "pending",
    StepState.READY: "pending",
    StepState.QUEUED: "queued",
    StepState.RUNNING: "running",
    StepState.SUCCEEDED: "completed",
    StepState.CACHED: "cached",
    StepState.FAILED: "failed",
    StepState.ABORTED: "aborted",
    StepState.TIMED_OUT: "failed",
    StepState.LOST: "failed",
    StepState.SKIPPED: "skipped",
    StepState.OMITTED: "skipped",
}
"""The state of a step in ClearML's words."""


def recorded_node(step: StepSpec) -> PipelineNode:
    """Returns the node of a step as a run has it."""
    return PipelineNode(
        name=step.name,
        base_task_id=step.task_type or step.kind,
        queue=step.queue if isinstance(step.queue, str) else None,
        parents=needed(step),
        timeout=step.run_timeout_s,
        parameters=step.parameters,
        cache_executed_step=step.cache is not None,
        stage=step.stage or None,
    )


def current_node(node: PipelineNode, run: Run | None) -> PipelineNode:
    """Returns a copy of a node with what its run has of it now."""
    step = None if run is None else run.steps.get(node.name)
    if run is None or step is None:
        return copy.deepcopy(node)
    found = copy.deepcopy(node)
    found.status = STATUS_OF_STEP[step.state]
    found.executed = _executed(run, node.name, step)
    found.job_started = step.ready_ms / 1000 if step.ready_ms else None
    found.job_ended = step.ended_ms / 1000 if step.ended_ms else None
    return found


def _executed(run: Run, name: str, step: RunStep) -> str | bool | None:
    if not step.over:
        return None
    succeeded = step.state in (StepState.SUCCEEDED, StepState.CACHED)
    return run.item_id(name, max(step.count - 1, 0)) if succeeded else False
