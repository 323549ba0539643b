"""How the dispatcher decides the commands of runs, besides those that begin and continue one. Pure."""

from trackside.aggregates.run.messages import (
    AbortPipelineRun,
    AbortStep,
    ApproveGate,
    ArchiveRun,
    PausePipelineRun,
    RejectGate,
    ResumePipelineRun,
    RunAbortRequested,
    RunArchived,
    RunPaused,
    RunResumed,
    RunUpdated,
    SkipStep,
    UpdatePipelineRun,
)
from trackside.aggregates.run.state import WORKING, OpenGate, Run, RunStep, run_of
from trackside.aggregates.run.step_messages import GateDecided, StepAbortRequested, StepSkipped, StepState
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.domain.folding.aggregate import Decided
from trackside.domain.folding.lookup import Lookup
from trackside.domain.pipelines.compiling import parameter_values
from trackside.domain.streams.stream import Stream, no_aggregate


def abort(stream: Stream, wanted: AbortPipelineRun, command_id: str, lookup: Lookup) -> Decided:
    """Aborts a run; what is being stopped already is accepted and changes nothing."""
    run = _open_run(stream)
    if isinstance(run, Problem):
        return run
    return [] if run.stopping else [RunAbortRequested(command_id=command_id, reason=wanted.reason)]


def pause(stream: Stream, wanted: PausePipelineRun, command_id: str, lookup: Lookup) -> Decided:
    """Pauses a run; one that is paused in the same way already is not changed."""
    run = _going_run(stream)
    if isinstance(run, Problem):
        return run
    if run.paused == wanted.running:
        return []
    paused = RunPaused(
        command_id=command_id, change=run.changes + 1, running=wanted.running, reason=wanted.reason
    )
    return [paused]


def resume(stream: Stream, wanted: ResumePipelineRun, command_id: str, lookup: Lookup) -> Decided:
    """Lets a run that is paused go on."""
    run = _going_run(stream)
    if isinstance(run, Problem):
        return run
    return [RunResumed(command_id=command_id, change=run.changes + 1)] if run.paused else []


def update(stream: Stream, wanted: UpdatePipelineRun, command_id: str, lookup: Lookup) -> Decided:
    """Changes the limits of a run."""
    run = _going_run(stream)
    if isinstance(run, Problem):
        return run
    changed = wanted.model_dump(exclude_none=True)
    if not changed:
        message = "nothing to change: give timeout_s, concurrency or priority"
        return Problem(code="missing_field", message=message)
    return [RunUpdated(command_id=command_id, change=run.changes + 1, **changed)]


def archive(stream: Stream, wanted: ArchiveRun, command_id: str, lookup: Lookup) -> Decided:
    """Archives a run that is over."""
    run = run_of(stream)
    if run is None:
        return no_aggregate(stream, "run")
    if not run.over:
        message = f"run {run.run_id} is {run.status.value}: abort it, or wait until it is over"
        return Problem(code="run_not_over", path="$partitionkey", message=message)
    return [] if run.archived else [RunArchived(command_id=command_id)]


def skip_step(stream: Stream, wanted: SkipStep, command_id: str, lookup: Lookup) -> Decided:
    """Skips a step that has not begun."""
    run = _going_run(stream)
    if isinstance(run, Problem):
        return run
    step = _step(run, wanted.step)
    if isinstance(step, Problem):
        return step
    if step.state is StepState.SKIPPED:
        return []
    if step.over or step.begun or step.gate is not None:
        message = f"step {wanted.step} is {step.state.value}: only a step that has not begun can be skipped"
        return Problem(code="step_begun", path="$.step", message=message)
    return [
        StepSkipped(
            step=wanted.step,
            generation=step.generation,
            by="operator",
            reason=wanted.reason,
            command_id=command_id,
        )
    ]


def abort_step(stream: Stream, wanted: AbortStep, command_id: str, lookup: Lookup) -> Decided:
    """Aborts a step that has begun, or one of its items."""
    run = _going_run(stream)
    if isinstance(run, Problem):
        return run
    step = _step(run, wanted.step)
    if isinstance(step, Problem):
        return step
    if step.state not in WORKING or wanted.step in run.finished:
        hint = "; skip it instead" if step.state is StepState.PENDING else ""
        message = f"step {wanted.step} is {step.state.value}: only one that is open can be aborted{hint}"
        return Problem(code="step_not_open", path="$.step", message=message)
    if wanted.index is not None and wanted.index not in step.open:
        message = f"item {wanted.index} of step {wanted.step} is not open"
        return Problem(code="unknown_index", path="$.index", message=message)
    if step.aborted or (wanted.index is not None and wanted.index in step.to_stop | step.stopping):
        return []
    return [
        StepAbortRequested(
            command_id=command_id,
            step=wanted.step,
            generation=step.generation,
            request=step.aborts + 1,
            index=wanted.index,
            reason=wanted.reason,
        )
    ]


def approve(stream: Stream, wanted: ApproveGate, command_id: str, lookup: Lookup) -> Decided:
    """Approves a gate, if its form is filled in as it should be."""
    found = _open_gate(stream, wanted.step)
    if isinstance(found, Problem):
        return found
    run, step, _ = found
    gate = run.spec_of(wanted.step).gate
    assert gate is not None
    inputs, problems = parameter_values(gate.form, wanted.inputs, "$.inputs")
    if problems:
        return tuple(problems)
    return [
        GateDecided(
            step=wanted.step,
            generation=step.generation,
            decision="approved",
            actor=wanted.actor,
            inputs=inputs,
            command_id=command_id,
        )
    ]


def reject(stream: Stream, wanted: RejectGate, command_id: str, lookup: Lookup) -> Decided:
    """Rejects a gate."""
    found = _open_gate(stream, wanted.step)
    if isinstance(found, Problem):
        return found
    return [
        GateDecided(
            step=wanted.step,
            generation=found[1].generation,
            decision="rejected",
            actor=wanted.actor,
            reason=wanted.reason,
            command_id=command_id,
        )
    ]


def _open_gate(stream: Stream, name: str) -> tuple[Run, RunStep, OpenGate] | Problem:
    run = _going_run(stream)
    if isinstance(run, Problem):
        return run
    step = _step(run, name)
    if isinstance(step, Problem):
        return step
    if run.spec_of(name).gate is None:
        return Problem(code="not_a_gate", path="$.step", message=f"step {name} is not a gate")
    if step.gate is None:
        message = f"gate {name} is {step.state.value}: it is not open"
        return Problem(code="gate_not_open", path="$.step", message=message)
    if step.gate.decision or step.over or name not in run.open_gates:
        how = step.gate.decision or step.state.value
        by = f" by {step.gate.actor}" if step.gate.actor else ""
        return Problem(code="gate_decided", path="$.step", message=f"gate {name} was {how} already{by}")
    return run, step, step.gate


def _step(run: Run, name: str) -> RunStep | Problem:
    step = run.steps.get(name)
    if step is None:
        message = f"run {run.run_id} has no step {name!r}{nearest(name, run.steps)}"
        return Problem(code="unknown_step", path="$.step", message=message)
    return step


def _open_run(stream: Stream) -> Run | Problem:
    """Returns the run of a stream if it is not over."""
    run = run_of(stream)
    if run is None:
        return no_aggregate(stream, "run")
    if run.over:
        message = f"run {run.run_id} is over: {run.status.value}"
        return Problem(code="already_terminal", path="$partitionkey", message=message)
    return run


def _going_run(stream: Stream) -> Run | Problem:
    """Returns the run of a stream if it is neither over nor being stopped."""
    run = _open_run(stream)
    if isinstance(run, Run) and run.stopping:
        message = f"run {run.run_id} is {run.status.value}: it takes no such command any more"
        return Problem(code="is_stopping", path="$partitionkey", message=message)
    return run
